// Config × M: which configs are how far from the best, where, and why not.
import {get, getTable, type TrialsAnswer} from '../api';
import {parseConfig} from '../config';
import type {Ctx} from '../context';
import {field, h, interaction, replace} from '../dom';
import {count, intervalUnit, ratio, usUnit, words} from '../format';
import {HeatCanvas} from '../heat_canvas';
import {heatClasses, outcomeLetters} from '../heat_colours';
import {panel, scope} from '../panel';
import {href, note} from '../route';
import {sortByKey} from '../sort';
import type {Data} from '../table';
import {onTheme} from '../theme';
import {indexOfId, toColumns, toGrid, type Grid} from '../trials';

// Canvases of browsers end at some 32,000 pixels.
const pngRows = 850;

const sorts: Record<string, {name: string; key: (g: Grid, row: number) => number | string}> = {
  wins: {name: 'wins, then mean', key: (g, row) => -g.wins[row] * 1e6 + (g.meanRatio[row] || 1e5)},
  mean: {name: 'geometric mean over its Ms', key: (g, row) => g.meanRatio[row]},
  min: {name: 'best ratio at any M', key: (g, row) => g.minRatio[row]},
  measured: {name: 'Ms measured, most first', key: (g, row) => -g.measured[row]},
  failed: {name: 'failures, most first', key: (g, row) => -g.failed[row]},
  config: {name: 'config text', key: (g, row) => g.trials.answer.configs[row]},
};

// The rows in the order of `sort`: a name of `sorts`, or "m<M>". Rows without a
// value come last.
function order(g: Grid, rows: Uint32Array, sort: string): Uint32Array {
  const col = sort.startsWith('m') ? g.ms.indexOf(Number(sort.slice(1))) : -1;
  const key = col >= 0 ? (row: number) => g.ratio[row * g.cols + col] :
    (row: number) => (sorts[sort] ?? sorts.wins).key(g, row);
  if (sort === 'config') {
    const text = g.trials.answer.configs;
    return rows.sort((a, b) => (text[a] < text[b] ? -1 : text[a] > text[b] ? 1 : 0));
  }
  const keys = new Float64Array(g.rows);
  for (const row of rows) {
    const value = key(row) as number;
    keys[row] = Number.isNaN(value) ? Infinity : value;
  }
  sortByKey(rows, keys);
  return rows;
}

export async function heatView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const query = {problem: ctx.problem!.problem, class: ctx.cls!.class};
  const [answer, table] = await Promise.all([
    get<TrialsAnswer>('trials', query, ctx.signal), getTable(ctx.problem!, ctx.cls!, ctx.signal)]);
  const trials = toColumns(answer);
  if (trials.count === 0) {
    replace(root, h('p', {class: 'empty'}, 'No trials of this problem on this device class.'));
    return;
  }
  const grid = toGrid(trials);
  const configs = answer.configs;
  const lower = configs.map((text) => text.toLowerCase());
  const parsed = configs.map(parseConfig);
  const engines = [...new Set(parsed.map((one) => one.engine))].sort();
  const tiles = [...new Set(parsed.map((one) => one.tile))]
    .sort((x, y) => x.localeCompare(y, 'en', {numeric: true}));
  const numbers = (list: string[]) => new Map(list.map((text, i) => [text, i]));
  const engineNumber = numbers(engines);
  const tileNumber = numbers(tiles);
  const engineOf = Uint8Array.from(parsed, (one) => engineNumber.get(one.engine)!);
  const tileOf = Uint32Array.from(parsed, (one) => tileNumber.get(one.tile)!);

  // Between the ladder's Ms few configs are tried, to probe a table's cliffs.
  const all = Int32Array.from(grid.ms.keys());
  const ladder = table ? all.filter((col) => table.ladder.includes(grid.ms[col])) : all;
  const {params} = ctx.route;
  const state = {
    cols: params.get('cols') ?? '',
    sort: params.get('sort') ?? 'wins', engine: params.get('engine') ?? '',
    tile: params.get('tile') ?? '', text: params.get('text') ?? '',
    only: params.get('only') ?? '',
  };
  let shown: Uint32Array = new Uint32Array(0);

  const filter = () => {
    const engine = state.engine ? engines.indexOf(state.engine) : -1;
    const tile = state.tile ? tiles.indexOf(state.tile) : -1;
    const terms = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const failedAs = state.only.startsWith('outcome:') ?
      answer.outcomes.indexOf(state.only.slice(8)) : -1;
    const kept = new Uint32Array(grid.rows);
    let n = 0;
    for (let row = 0; row < grid.rows; row++) {
      if (engine >= 0 && engineOf[row] !== engine) continue;
      if (tile >= 0 && tileOf[row] !== tile) continue;
      if (terms.length && !terms.every((term) => lower[row].includes(term))) continue;
      if (state.only) {
        let keep = false;
        for (let col = 0; col < grid.cols && !keep; col++) {
          const cell = row * grid.cols + col;
          const trial = grid.trial[cell];
          keep = state.only === 'winners' ? grid.winner[col] === row :
            state.only === 'ties' ? grid.winner[col] === row || grid.tie[cell] === 1 :
            trial >= 0 && trials.outcome[trial] === failedAs;
        }
        if (!keep) continue;
      }
      kept[n++] = row;
    }
    shown = order(grid, kept.subarray(0, n), state.sort);
  };

  const say = h('span', {class: 'where', role: 'status'});
  const readout = h('dl', {class: 'readout', 'aria-live': 'off'});
  const spoken = h('div', {class: 'hidden', 'aria-live': 'polite'});
  const trialHref = (trial: number) =>
    href('trial', {class: ctx.cls!.class, problem: ctx.problem!.problem, id: String(trials.id[trial])});

  const describe = (row: number, col: number) => {
    const cell = row * grid.cols + col;
    const trial = grid.trial[cell];
    const facts: [string, string][] = [['M', String(grid.ms[col])]];
    if (trial < 0) return [...facts, ['outcome', 'not tried'] as [string, string]];
    const outcome = answer.outcomes[trials.outcome[trial]];
    facts.push(
      ['of the best', ratio(grid.ratio[cell])],
      ['median', usUnit(trials.median[trial])],
      ['interval', intervalUnit(trials.low[trial], trials.high[trial])],
      ['samples', count(trials.samples[trial])],
      ['outcome', words(outcome) + (grid.winner[col] === row ?
        `, winner (${grid.winnerFrom[col]})` : grid.tie[cell] ? ', tie' : '')],
      ['trials here', count(grid.repeats[cell])]);
    return facts;
  };

  const point = (row: number | null, col: number, keyboard: boolean) => {
    if (row === null) return;
    const facts = describe(row, col);
    replace(readout,
      facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
      h('div', {class: 'wide'}, h('dt', {}, 'config'), h('dd', {class: 'mono'}, configs[row])));
    if (keyboard) {
      const c = parseConfig(configs[row]);
      spoken.textContent = `${c.engine} ${c.tile} stages ${c.stages}, ` +
        facts.map(([name, value]) => `${name} ${value}`).join(', ');
      const trial = grid.trial[row * grid.cols + col];
      note({trial: trial < 0 ? null : String(trials.id[trial])});
    }
  };

  const heat = new HeatCanvas(grid, {
    point,
    open: (row, col) => {
      const trial = grid.trial[row * grid.cols + col];
      if (trial < 0) return;
      note({trial: String(trials.id[trial])});
      location.hash = trialHref(trial);
    },
    sortByColumn: (col, event) => change('heat.sort', event, {sort: `m${grid.ms[col]}`}),
  }, `Heat map of ${configs.length} configs by ${grid.cols} values of M` +
    `${answer.modelled ? ', MODELLED' : ''}. Arrow keys move, Enter opens the trial, ` +
    's sorts by the column. The table button gives the same numbers.', -1);
  ctx.signal.addEventListener('abort', () => heat.dispose());
  onTheme(() => heat.draw(), ctx.signal);

  const draw = () => {
    filter();
    const cols = state.cols === 'all' || ladder.length === 0 ? all : ladder;
    heat.show(shown, cols, state.sort.startsWith('m') ? grid.ms.indexOf(Number(state.sort.slice(1))) : -1);
    say.textContent = `${count(shown.length)} of ${count(grid.rows)} configs, ` +
      `${count(trials.count)} trials`;
    sortSelect.value = state.sort in sorts ? state.sort : 'column';
    columnOption.textContent = state.sort in sorts ? 'one M: click its number' :
      `M = ${state.sort.slice(1)}`;
    section?.dispatchEvent(new CustomEvent('hone-data'));
  };
  const change = (name: string, event: Event, changes: Partial<typeof state>) =>
    interaction(name, event, () => {
      Object.assign(state, changes);
      note({...changes});
      draw();
    });
  const select = (name: string, key: 'engine' | 'tile' | 'only' | 'cols', options: [string, string][]) => {
    const control = h('select', {
      onchange: (event: Event) => change('heat.filter', event, {[key]: control.value}),
    }, options.map(([value, text]) => h('option', {value, selected: value === state[key]}, text)));
    return field(name, control);
  };
  const columnOption = h('option', {value: 'column', disabled: true}, 'one M: click its number');
  const sortSelect = h('select', {
    onchange: (event: Event) => change('heat.sort', event, {sort: sortSelect.value}),
  }, Object.entries(sorts).map(([value, {name}]) => h('option', {value}, name)), columnOption);
  const text = h('input', {
    type: 'search', value: state.text, placeholder: 'e.g. stages=4 tma', spellcheck: 'false',
    oninput: (event: Event) => change('heat.filter', event, {text: text.value}),
  });
  const happened = answer.outcomes.filter((_, i) => trials.outcome.includes(i) &&
    i !== trials.measured);

  const data = (): Data => {
    const cells = new Uint32Array(shown.length * grid.cols);
    const cols = state.cols === 'all' || ladder.length === 0 ? all : ladder;
    let n = 0;
    for (const row of shown) {
      for (const col of cols) {
        if (grid.trial[row * grid.cols + col] >= 0) cells[n++] = row * grid.cols + col;
      }
    }
    const trial = (i: number) => grid.trial[cells[i]];
    const colOf = (i: number) => cells[i] % grid.cols;
    const rowOf = (i: number) => Math.floor(cells[i] / grid.cols);
    return {
      file: ctx.file('heat'), rows: n,
      columns: [
        {key: 'config', name: 'Config', value: (i) => configs[rowOf(i)],
          show: (i) => h('span', {class: 'mono'}, configs[rowOf(i)])},
        {key: 'm', name: 'M', value: (i) => grid.ms[colOf(i)]},
        {key: 'ratio_to_best', name: 'Of the best', value: (i) => grid.ratio[cells[i]],
          show: (i) => ratio(grid.ratio[cells[i]])},
        {key: 'median_ns', name: 'Median, µs', value: (i) => trials.median[trial(i)],
          show: (i) => usUnit(trials.median[trial(i)]).replace(' µs', '')},
        {key: 'low_ns', name: 'Low, µs', value: (i) => trials.low[trial(i)],
          show: (i) => usUnit(trials.low[trial(i)]).replace(' µs', '')},
        {key: 'high_ns', name: 'High, µs', value: (i) => trials.high[trial(i)],
          show: (i) => usUnit(trials.high[trial(i)]).replace(' µs', '')},
        {key: 'samples', name: 'Samples', value: (i) => trials.samples[trial(i)]},
        {key: 'outcome', name: 'Outcome', value: (i) => answer.outcomes[trials.outcome[trial(i)]]},
        {key: 'winner', name: 'Winner', value: (i) =>
          grid.winner[colOf(i)] === rowOf(i) ? grid.winnerFrom[colOf(i)] : ''},
        {key: 'tie', name: 'Tie', value: (i) => (grid.tie[cells[i]] ? 'tie' : '')},
        {key: 'trial', name: 'Trial', value: (i) => String(trials.id[trial(i)]),
          show: (i) => h('a', {href: trialHref(trial(i))}, String(trials.id[trial(i)]))},
      ],
    };
  };

  const legend = h('div', {class: 'legend', 'aria-label': 'Legend'},
    h('span', {class: 'item'}, 'time over the best at that M:'),
    h('span', {class: 'ramp'}, heatClasses.map((one) => {
      const swatch = h('span', {class: 'swatch'}, one.label);
      swatch.style.background = one.fill;
      swatch.style.color = one.ink;
      return swatch;
    })),
    h('span', {class: 'item'}, h('span', {class: 'mark outline'}), 'winner'),
    h('span', {class: 'item', title: 'Within max(1 %, 64 ns) of the fastest'},
      h('span', {class: 'mark dot'}), 'tie'),
    h('span', {class: 'item', title: 'Few samples: the screen showed it far behind'},
      h('span', {class: 'mark cut'}), 'screened out'),
    happened.filter((name) => name !== 'screened_out').map((name) =>
      h('span', {class: 'item'}, h('span', {class: 'mark hatched'}, h('b', {}, outcomeLetters[name] ?? '?')),
        words(name))));

  const section: HTMLElement | undefined = panel({
    title: 'Config × M', modelled: answer.modelled, data, alternative: true, tools: say,
    subject: () => ctx.subject() + (shown.length > pngRows ?
      ` · the first ${count(pngRows)} of ${count(shown.length)} configs` : ''),
    png: () => heat.image(pngRows),
    note: `Each cell is one config at one M: its median over the fastest fully measured one there. ` +
      `Of several trials, the one with most samples speaks. ${scope(answer)}`,
  },
  h('div', {class: 'controls'},
    field('Sort', sortSelect),
    select('Engine', 'engine', [['', 'all'], ...engines.map((e): [string, string] => [e, e])]),
    select('Tile', 'tile', [['', 'all'], ...tiles.map((t): [string, string] => [t, t])]),
    select('Show', 'only', [['', 'all configs'], ['winners', 'winners'],
      ['ties', 'winners and ties'],
      ...happened.map((o): [string, string] => [`outcome:${o}`, `with ${words(o)}`])]),
    ladder.length < all.length && select('M', 'cols', [
      ['', `${ladder.length} of the ladder`], ['all', `all ${all.length}, probes too`]]),
    field('Text', text)),
  legend, heat.element, readout, spoken,
  h('details', {}, h('summary', {}, 'Abbreviations and keys'), h('p', {class: 'note'},
    'tile: block of M × N × K; st: stages; splt: k2 is split-K by 2, strm is stream-K; clu: cluster; ' +
    'load: tma, cpa (cp.async), ldg; ws: warp-specialized; 2cta: CTAs per SM; f2: MMAs in flight; ' +
    'rm, rn: raster along M or N. Arrow keys, Page Up and Down, Home and End move the cursor, ' +
    's sorts by its column, Enter opens its trial.')));
  replace(root, section);
  draw();
  const selected = params.has('trial') ? indexOfId(trials, params.get('trial')!) : -1;
  if (selected >= 0) {
    const col = grid.ms.indexOf(trials.m[selected]);
    heat.select(trials.config[selected], col);
    point(trials.config[selected], col, false);
  }
}
