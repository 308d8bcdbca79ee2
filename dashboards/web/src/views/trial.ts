// One candidate at one M: its samples and clocks, the gate, the kernel.
import {apiUrl, get, getText, type Trial, type TrialsAnswer} from '../api';
import {axis, axisOfM, chart, errorBars} from '../chart';
import type {Ctx} from '../context';
import {h, replace, type Child} from '../dom';
import {facts} from '../facts';
import {bytes, count, deviceName, fixed, intervalUnit, ratio, short, time, us, usUnit, words} from '../format';
import {badge, modelledBadge, panel} from '../panel';
import {href} from '../route';
import {indexOfId, toColumns, toGrid} from '../trials';

const hash = (text: string) => h('span', {class: 'mono', title: text}, short(text));

function head(trial: Trial, low: number | null, high: number | null): HTMLElement {
  const good = trial.outcome === 'measured' || trial.outcome === 'screened_out';
  const list: [string, Child][] = [
    ['outcome', badge(good ? 'ok' : 'bad', words(trial.outcome))],
    ['M', count(trial.m)],
    ['median', trial.median_ns ? usUnit(trial.median_ns) : '–'],
    ['interval', intervalUnit(low, high)],
    ['samples', count(trial.samples.length)],
    ['gate', trial.gate],
    ['error norm', fixed(trial.relative_norm, 6)],
    ['worst error / tolerance', fixed(trial.worst_ratio, 4)],
    ['protocol', trial.protocol], ['made', time(trial.unix_us)],
    ['session', hash(trial.session)],
    ['device', [`${deviceName(trial.device.name)} `, trial.device.modelled && modelledBadge()]],
    ['driver', trial.device.driver || '–'],
  ];
  if (trial.detail) list.push(['detail', trial.detail]);
  return facts(list, 'Trial');
}

function compileFacts({compile: c}: Trial): HTMLElement {
  return facts([
    ['registers / thread', count(c.registers)],
    ['spills', c.spill_bytes ? badge('warn', bytes(c.spill_bytes)) : bytes(c.spill_bytes)],
    ['stack', bytes(c.stack_bytes)], ['shared memory', bytes(c.smem_bytes)],
    ['compile time', `${count(c.compile_ms)} ms`], ['NVRTC', c.nvrtc || '–'],
    ['kernel', hash(c.kernel_id)], ['cubin', hash(c.cubin_hash)],
  ], 'Compiled kernel', true);
}

function configFacts(text: string): HTMLElement {
  return facts(text.split(',').map((part): [string, Child] => {
    const mark = part.indexOf('=');
    return [words(part.slice(0, mark)), h('span', {class: 'mono'}, part.slice(mark + 1))];
  }), 'Config', true);
}

function samplesChart(ctx: Ctx, trial: Trial, low: number | null, high: number | null):
    HTMLElement {
  const {samples} = trial;
  const clocked = samples.some((sample) => sample[1] > 0);
  const file = ['hone-trial', trial.id, trial.device.modelled && 'MODELLED'].filter(Boolean).join('-');
  const title = `Samples at M = ${trial.m}`;
  return chart({
    name: 'samples', title, modelled: trial.device.modelled,
    subject: `${trial.label} · trial ${trial.id} · ${trial.device.name}`,
    describe: `${samples.length} samples over rounds; median ${usUnit(trial.median_ns)}.`,
    note: 'One mark per timed call, by race round; samples of one round are paired. ' +
      (clocked ? 'Below: the SM clock read on the device before the call.' :
        'No clocks were read.'),
    height: clocked ? 380 : 260, signal: ctx.signal,
    legend: [
      {name: 'sample', mark: 'tuned'}, {name: 'median', mark: 'line'},
      ...(low !== null && high !== null && high > 0 ? [{name: 'interval of the median', mark: 'band'}] : []),
    ],
    data: () => ({
      file, rows: samples.length, columns: [
        {key: 'round', name: 'Round', value: (i) => samples[i][2]},
        {key: 'duration_ns', name: 'Time, µs', value: (i) => samples[i][0],
          show: (i) => us(samples[i][0])},
        {key: 'clock_mhz', name: 'SM clock, MHz', value: (i) => samples[i][1] || null,
          show: (i) => (samples[i][1] ? count(samples[i][1]) : '–')},
      ],
    }),
    option: (colours) => {
      const grids = clocked ?
        [{left: 72, right: 16, top: 12, height: 210}, {left: 72, right: 16, top: 250, bottom: 48}] :
        [{left: 72, right: 16, top: 12, bottom: 48}];
      const x = (gridIndex: number, last: boolean) => axis(colours, last ? 'round' : '', {
        type: 'value', gridIndex, minInterval: 1, scale: true, splitLine: {show: false},
        axisLabel: {show: last, color: colours.muted, fontSize: 11},
      });
      const y = (gridIndex: number, name: string, extra = {}) => axis(colours, name, {
        type: 'value', gridIndex, scale: true, nameGap: 54, ...extra,
      });
      // The interval is in view, whole.
      const times = [...samples.map((sample) => sample[0]), ...(low ? [low] : []),
        ...(high ? [high] : [])];
      const [least, most] = [Math.min(...times) / 1000, Math.max(...times) / 1000];
      const room = Math.max(0.01, (most - least) * 0.08);
      const timeAxis = y(0, 'time, µs', {
        min: least - room, max: most + room,
        axisLabel: {showMinLabel: false, showMaxLabel: false},
      });
      return {
        grid: grids,
        xAxis: clocked ? [x(0, false), x(1, true)] : [x(0, true)],
        yAxis: clocked ? [timeAxis, y(1, 'SM clock, MHz')] : [timeAxis],
        series: [
          {
            name: 'time', type: 'scatter', symbolSize: 5, itemStyle: {color: colours.tuned},
            data: samples.map((sample) => [sample[2], sample[0] / 1000]),
            markLine: trial.median_ns ? {
              symbol: 'none', silent: true, lineStyle: {color: colours.ink, type: 'solid', width: 1},
              label: {show: false}, data: [{yAxis: trial.median_ns / 1000}],
            } : undefined,
            markArea: low !== null && high !== null && high > 0 ? {
              silent: true, itemStyle: {color: colours.tuned, opacity: 0.15},
              data: [[{yAxis: low / 1000}, {yAxis: high / 1000}]],
            } : undefined,
          },
          ...(clocked ? [{
            name: 'clock', type: 'scatter', symbolSize: 4, xAxisIndex: 1, yAxisIndex: 1,
            itemStyle: {color: colours.third}, data: samples.map((sample) => [sample[2], sample[1]]),
          }] : []),
        ],
      };
    },
    stops: {
      count: samples.length, x: (i) => samples[i][2], y: (i) => samples[i][0] / 1000,
      text: (i) => [usUnit(samples[i][0]), `round ${samples[i][2]}`,
        samples[i][1] ? `${count(samples[i][1])} MHz` : 'clock not read'],
    },
  });
}

// The same config at every M it was tried at.
function overM(ctx: Ctx, trial: Trial, answer: TrialsAnswer): HTMLElement | null {
  const t = toColumns(answer);
  const grid = toGrid(t);
  const row = answer.configs.indexOf(trial.config);
  if (row < 0) return null;
  const cols = Array.from(grid.ms.keys())
    .filter((col) => !Number.isNaN(grid.ratio[row * grid.cols + col]));
  if (cols.length < 2) return null;
  const at = (i: number) => grid.trial[row * grid.cols + cols[i]];
  const scaled = (ns: number, i: number) => ns / grid.best[cols[i]];
  const link = (i: number) => href('trial',
    {class: trial.class, problem: trial.problem, id: String(t.id[at(i)])});
  return chart({
    name: 'config-over-m', title: 'This config over M', modelled: answer.modelled,
    subject: `${trial.label} · ${trial.config}`,
    describe: `Time over the best at ${cols.length} values of M.`, height: 240, signal: ctx.signal,
    note: 'Its median over the fastest fully measured config at each M; 1 is the best. ' +
      'Bars: interval of the median.',
    data: () => ({
      file: ctx.file('config-over-m'), rows: cols.length, columns: [
        {key: 'm', name: 'M', value: (i) => grid.ms[cols[i]]},
        {key: 'ratio_to_best', name: 'Of the best', value: (i) => scaled(t.median[at(i)], i),
          show: (i) => ratio(scaled(t.median[at(i)], i))},
        {key: 'median_ns', name: 'Median, µs', value: (i) => t.median[at(i)],
          show: (i) => us(t.median[at(i)])},
        {key: 'low_ns', name: 'Low', value: (i) => t.low[at(i)], show: (i) => us(t.low[at(i)])},
        {key: 'high_ns', name: 'High', value: (i) => t.high[at(i)], show: (i) => us(t.high[at(i)])},
        {key: 'samples', name: 'Samples', value: (i) => t.samples[at(i)]},
        {key: 'trial', name: 'Trial', value: (i) => String(t.id[at(i)]),
          show: (i) => h('a', {href: link(i)}, String(t.id[at(i)]))},
      ],
    }),
    option: (colours) => ({
      grid: {left: 72, right: 16, top: 12, bottom: 48}, xAxis: axisOfM(colours, cols.map((col) => grid.ms[col])),
      yAxis: axis(colours, 'of the best', {type: 'value', scale: true, nameGap: 54}),
      series: [
        {name: 'ratio', type: 'line', symbol: 'circle', symbolSize: 6, color: colours.tuned,
          lineStyle: {width: 1}, data: cols.map((col, i) => [Math.log2(grid.ms[col]), scaled(t.median[at(i)], i)])},
        errorBars('interval', cols.map((col, i) => [Math.log2(grid.ms[col]),
          scaled(t.low[at(i)] || t.median[at(i)], i), scaled(t.high[at(i)] || t.median[at(i)], i)]),
        colours.tuned),
      ],
    }),
    stops: {
      count: cols.length, x: (i) => Math.log2(grid.ms[cols[i]]), y: (i) => scaled(t.median[at(i)], i),
      href: link,
      text: (i) => [`M = ${grid.ms[cols[i]]}: ${ratio(scaled(t.median[at(i)], i))}`,
        usUnit(t.median[at(i)]), intervalUnit(t.low[at(i)], t.high[at(i)]),
        `${t.samples[at(i)]} samples`],
    },
  });
}

function source(ctx: Ctx, trial: Trial): HTMLElement {
  const query = {problem: trial.problem, class: trial.class, config: trial.config};
  const pre = h('pre', {tabindex: 0, 'aria-label': 'Source'});
  let asked = false;
  const details = h('details', {
    ontoggle: async () => {
      if (asked) return;
      asked = true;
      pre.textContent = 'Rendering…';
      try {
        pre.textContent = await getText('source', query, ctx.signal);
      } catch (error) {
        asked = false;
        pre.textContent = error instanceof Error ? error.message : String(error);
      }
    },
  }, h('summary', {}, 'Show the translation unit'), pre);
  return panel({
    title: 'Source', note: 'Rendered now, by the sources of this honed; the trial may have been ' +
      'made by others.',
    tools: h('a', {class: 'tool', href: apiUrl('source', query), target: '_blank', rel: 'noopener'},
      'Plain text'),
  }, details);
}

export async function trialView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const id = ctx.route.params.get('id');
  if (!id) {
    replace(root, h('p', {class: 'empty'}, 'No trial is selected. Choose a cell of the ',
      h('a', {href: href('heat', {class: ctx.cls?.class, problem: ctx.problem?.problem})}, 'heat map'),
      ' or a row of ',
      h('a', {href: href('trials', {class: ctx.cls?.class, problem: ctx.problem?.problem})}, 'all trials'),
      '.'));
    return;
  }
  const trial = await get<Trial>('trial', {id}, ctx.signal);
  const answer = await get<TrialsAnswer>('trials', {problem: trial.problem, class: trial.class},
    ctx.signal);
  const t = toColumns(answer);
  const at = indexOfId(t, trial.id);
  const finite = (value: number) => (Number.isFinite(value) ? value : null);
  const low = trial.low_ns ?? (at >= 0 ? finite(t.low[at]) : null);
  const high = trial.high_ns ?? (at >= 0 ? finite(t.high[at]) : null);
  const modelled = trial.device.modelled;
  replace(root,
    panel({
      title: trial.label, modelled, note: h('span', {class: 'mono'}, trial.config),
      tools: h('a', {class: 'tool', href: href('heat',
        {class: trial.class, problem: trial.problem, trial: String(trial.id)})}, 'In the heat map'),
    }, head(trial, low, high)),
    h('div', {class: 'pair'},
      panel({title: 'Compiled kernel'}, compileFacts(trial)),
      panel({title: 'Config'}, configFacts(trial.config))),
    trial.samples.length > 0 && samplesChart(ctx, trial, low, high),
    overM(ctx, trial, answer),
    source(ctx, trial));
}
