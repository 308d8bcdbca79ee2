// Every trial of a problem, sortable: the way to one of them.
import {get, type TrialsAnswer} from '../api';
import {shortConfig} from '../config';
import type {Ctx} from '../context';
import {field, h, interaction, replace} from '../dom';
import {count, time, us, words} from '../format';
import {panel, scope} from '../panel';
import {href, note} from '../route';
import {dataTable, type Data} from '../table';
import {toColumns} from '../trials';

export async function trialsView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const answer = await get<TrialsAnswer>('trials',
    {problem: ctx.problem!.problem, class: ctx.cls!.class}, ctx.signal);
  const t = toColumns(answer);
  const ms = [...new Set(t.m)].sort((a, b) => a - b);
  const state = {
    m: ctx.route.params.get('m') ?? '', outcome: ctx.route.params.get('outcome') ?? '',
    sort: ctx.route.params.get('sort') ?? 'median_ns', desc: ctx.route.params.get('desc') === '1',
  };
  let shown = new Uint32Array(0);
  const data = (): Data => {
    const at = (i: number) => shown[i];
    return {
      file: ctx.file('trials'), rows: shown.length,
      columns: [
        {key: 'id', name: 'Trial', head: true, value: (i) => t.id[at(i)], show: (i) => h('a', {
          href: href('trial', {class: ctx.cls!.class, problem: ctx.problem!.problem,
            id: String(t.id[at(i)])}),
        }, String(t.id[at(i)]))},
        {key: 'm', name: 'M', value: (i) => t.m[at(i)]},
        {key: 'median_ns', name: 'Median, µs', value: (i) => t.median[at(i)],
          show: (i) => us(t.median[at(i)])},
        {key: 'low_ns', name: 'Low', value: (i) => t.low[at(i)], show: (i) => us(t.low[at(i)])},
        {key: 'high_ns', name: 'High', value: (i) => t.high[at(i)], show: (i) => us(t.high[at(i)])},
        {key: 'samples', name: 'Samples', value: (i) => t.samples[at(i)]},
        {key: 'clock_mhz', name: 'SM clock, MHz', value: (i) => t.clock[at(i)] || null,
          show: (i) => (t.clock[at(i)] ? count(t.clock[at(i)]) : '–')},
        {key: 'outcome', name: 'Outcome', value: (i) => answer.outcomes[t.outcome[at(i)]],
          show: (i) => words(answer.outcomes[t.outcome[at(i)]])},
        {key: 'config', name: 'Config', value: (i) => answer.configs[t.config[at(i)]],
          show: (i) => h('span', {class: 'mono', title: answer.configs[t.config[at(i)]]},
            shortConfig(answer.configs[t.config[at(i)]]))},
        {key: 'time', name: 'Made', value: (i) => time(t.unixUs[at(i)]),
          order: (i) => t.unixUs[at(i)]},
      ],
    };
  };
  const table = h('div', {});
  const draw = () => {
    const m = Number(state.m);
    const outcome = answer.outcomes.indexOf(state.outcome);
    let n = 0;
    const kept = new Uint32Array(t.count);
    for (let i = 0; i < t.count; i++) {
      if (state.m && t.m[i] !== m) continue;
      if (state.outcome && t.outcome[i] !== outcome) continue;
      kept[n++] = i;
    }
    shown = kept.subarray(0, n);
    replace(table, dataTable(data(), {
      caption: 'Trials', hideCaption: true, empty: 'No such trial.',
      sort: {key: state.sort, descending: state.desc},
      onSort: (sort, desc) => {
        Object.assign(state, {sort, desc});
        note({sort, desc: desc ? 1 : null});
      },
    }));
  };
  const select = (name: string, key: 'm' | 'outcome', options: [string, string][]) => {
    const control = h('select', {
      onchange: (event: Event) => interaction('trials.filter', event, () => {
        state[key] = control.value;
        note({[key]: control.value});
        draw();
      }),
    }, options.map(([value, text]) => h('option', {value, selected: value === state[key]}, text)));
    return field(name, control);
  };
  draw();
  replace(root, panel({
    title: 'All trials', modelled: answer.modelled, data, note: scope(answer),
  },
  h('div', {class: 'controls'},
    select('M', 'm', [['', 'all'], ...ms.map((m): [string, string] => [String(m), String(m)])]),
    select('Outcome', 'outcome', [['', 'all'], ...answer.outcomes
      .filter((_, i) => t.outcome.includes(i)).map((o): [string, string] => [o, words(o)])])),
  table));
}
