// Achieved throughput against arithmetic intensity, under the device's roof.
import {get, getTable, type TrialsAnswer} from '../api';
import {chart, log10Axis, type LegendItem} from '../chart';
import {shortConfig} from '../config';
import type {Ctx} from '../context';
import {h, replace} from '../dom';
import {count, fixed, interval, percent, us, usUnit} from '../format';
import {scope} from '../panel';
import {href, note} from '../route';
import {toColumns, toGrid} from '../trials';

export async function rooflineView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const query = {problem: ctx.problem!.problem, class: ctx.cls!.class};
  const [answer, table] = await Promise.all([
    get<TrialsAnswer>('trials', query, ctx.signal),
    getTable(ctx.problem!, ctx.cls!, ctx.signal)]);
  const t = toColumns(answer);
  const grid = toGrid(t);
  const points = new Map(answer.points.map((point) => [point.m, point]));
  if (points.size === 0) {
    replace(root, h('p', {class: 'empty'}, 'No trials of this problem on this device class.'));
    return;
  }

  // The ceilings, as the floors of the API imply them.
  let bandwidth = 0;  // bytes/ns = GB/s
  let rate = 0;       // operations/ns
  for (const point of answer.points) {
    if (point.bytes_floor_ns) bandwidth = Math.max(bandwidth, point.bytes / point.bytes_floor_ns);
    if (point.mma_floor_ns) rate = Math.max(rate, point.operations / point.mma_floor_ns);
  }
  const device = table?.device ?? (ctx.status.device?.class === ctx.cls!.class ? ctx.status.device : null);
  const syncRate = device?.mma_sync_tflops && device.peak_tflops ?
    rate * device.mma_sync_tflops / device.peak_tflops : 0;
  const roof = (intensity: number) => Math.min(bandwidth * intensity, rate);

  // All points: tuned, default, then trials. Series by number.
  const names = ['tuned', 'default', 'trials'];
  const rows: {series: number; m: number; ns: number; config: string; trial: number;
    low: number | null; high: number | null; samples: number}[] = [];
  const configRow = new Map(answer.configs.map((text, row) => [text, row]));
  for (const entry of table?.entries ?? []) {
    for (const one of entry.evidence) {
      if (!points.has(one.m)) continue;
      const col = grid.ms.indexOf(one.m);
      const row = configRow.get(entry.config);
      const trial = row === undefined || col < 0 ? -1 : grid.trial[row * grid.cols + col];
      rows.push({series: 0, m: one.m, ns: one.median_ns, config: entry.config, trial,
        low: one.low_ns, high: one.high_ns, samples: one.samples});
      if (one.default_median_ns) {
        rows.push({series: 1, m: one.m, ns: one.default_median_ns, config: '', trial: -1,
          low: null, high: null, samples: 0});
      }
    }
  }
  rows.sort((a, b) => a.series - b.series || a.m - b.m);
  const timed = new Uint32Array(t.count);
  let timedCount = 0;
  for (let i = 0; i < t.count; i++) {
    if (!Number.isNaN(t.median[i]) && points.has(t.m[i])) timed[timedCount++] = i;
  }
  const total = rows.length + timedCount;
  const series = (i: number) => (i < rows.length ? rows[i].series : 2);
  const trialOf = (i: number) => (i < rows.length ? rows[i].trial : timed[i - rows.length]);
  const mOf = (i: number) => (i < rows.length ? rows[i].m : t.m[timed[i - rows.length]]);
  const nsOf = (i: number) => (i < rows.length ? rows[i].ns : t.median[timed[i - rows.length]]);
  const configOf = (i: number) => (i < rows.length ? rows[i].config :
    answer.configs[t.config[timed[i - rows.length]]]);
  // How sure the median is, in words.
  const spread = (i: number) => {
    const at = timed[i - rows.length];
    const [low, high, samples] = i < rows.length ?
      [rows[i].low, rows[i].high, rows[i].samples] : [t.low[at], t.high[at], t.samples[at]];
    return samples > 0 ? ` (${interval(low, high)}), ${samples} samples` : ' (interval not stored)';
  };
  const intensityOf = (i: number) => {
    const point = points.get(mOf(i))!;
    return point.operations / point.bytes;
  };
  const x = new Float64Array(total);
  const y = new Float64Array(total);
  for (let i = 0; i < total; i++) {
    x[i] = intensityOf(i);
    y[i] = points.get(mOf(i))!.operations / nsOf(i) / 1000;
  }
  const hidden = new Set((ctx.route.params.get('hide') ?? '').split(',').filter(Boolean));
  const visible = () => {
    const list = new Uint32Array(total);
    let n = 0;
    for (let i = 0; i < total; i++) if (!hidden.has(names[series(i)])) list[n++] = i;
    return list.subarray(0, n);
  };
  const link = (i: number) => (trialOf(i) < 0 ? null :
    href('trial', {...query, id: String(t.id[trialOf(i)])}));
  const xs = [...points.values()].map((point) => point.operations / point.bytes);
  const low = Math.min(...xs) / 1.5;
  const high = Math.max(...xs, rate / bandwidth) * 1.5;
  const ridge = (top: number) => top / bandwidth;
  const line = (top: number) => [low, Math.max(low, ridge(top)), high]
    .filter((value) => value >= low && value <= high)
    .map((value) => [Math.log10(value), Math.log10(Math.min(bandwidth * value, top) / 1000)]);
  let least = Infinity;
  for (let i = 0; i < total; i++) least = Math.min(least, y[i]);
  const bottom = Math.min(least, bandwidth * low / 1000) / 1.3;

  // Trials that fall on the same half pixel are drawn once.
  const steps = 1200;
  const taken = new Uint8Array(grid.cols * (steps + 1));
  const colOf = new Map(Array.from(grid.ms, (m, col) => [m, col]));
  const flat: number[] = [];
  const span = Math.log10(rate / 1000 * 1.5 / bottom);
  for (let i = rows.length; i < total; i++) {
    const height = Math.log10(y[i]);
    const step = Math.round((height - Math.log10(bottom)) / span * steps);
    const at = colOf.get(mOf(i))! * (steps + 1) + Math.max(0, Math.min(steps, step));
    if (taken[at]) continue;
    taken[at] = 1;
    flat.push(Math.log10(x[i]), height);
  }
  const drawn = Float32Array.from(flat);

  const legend: LegendItem[] = [
    ...(table ? [{name: 'tuned', mark: 'tuned', series: 'tuned'},
      {name: 'default', mark: 'other', series: 'default'}] : []),
    {name: `all trials (${count(timedCount)})`, mark: 'trials', series: 'trials'},
    {name: `roof: ${fixed(bandwidth, 0)} GB/s, ${fixed(rate / 1000, 0)} T/s`, mark: 'line'},
    ...(syncRate ? [{name: `mma.sync: ${fixed(syncRate / 1000, 0)} T/s`, mark: 'dashed'}] : []),
  ];
  replace(root, chart({
    name: 'roofline', title: 'Roofline', modelled: answer.modelled, subject: ctx.subject(),
    describe: `${count(total)} points; memory ceiling ${fixed(bandwidth, 0)} GB/s, MMA ceiling ` +
      `${fixed(rate / 1000, 0)} tera-operations per second.`,
    note: 'Operations and bytes of the product, each byte once. One column of points per M. ' +
      `Points of tuned and default are the table's evidence. ${scope(answer)}`,
    height: Math.max(380, Math.min(640, innerHeight - 240)), signal: ctx.signal, legend,
    hiddenAtFirst: [...hidden],
    onLegend: (now) => {
      hidden.clear();
      for (const name of now) hidden.add(name);
      note({hide: now.join(',')});
    },
    data: () => {
      const list = visible();
      return {
        file: ctx.file('roofline'), rows: list.length, columns: [
          {key: 'series', name: 'Series', value: (i) => names[series(list[i])]},
          {key: 'm', name: 'M', value: (i) => mOf(list[i])},
          {key: 'operations_per_byte', name: 'Operations / byte', value: (i) => x[list[i]],
            show: (i) => fixed(x[list[i]], 2)},
          {key: 'tera_operations_per_s', name: 'T/s', value: (i) => y[list[i]],
            show: (i) => fixed(y[list[i]], 2)},
          {key: 'of_roof', name: 'Of the roof', value: (i) => y[list[i]] * 1000 / roof(x[list[i]]),
            show: (i) => percent(y[list[i]] * 1000 / roof(x[list[i]]))},
          {key: 'median_ns', name: 'Median, µs', value: (i) => nsOf(list[i]),
            show: (i) => us(nsOf(list[i]))},
          {key: 'config', name: 'Config', value: (i) => configOf(list[i]),
            show: (i) => h('span', {class: 'mono', title: configOf(list[i])},
              configOf(list[i]) ? shortConfig(configOf(list[i])) : '–')},
          {key: 'trial', name: 'Trial', value: (i) =>
            (trialOf(list[i]) < 0 ? '' : String(t.id[trialOf(list[i])])),
          show: (i) => (link(list[i]) ?
            h('a', {href: link(list[i])}, String(t.id[trialOf(list[i])])) : '–')},
        ],
      };
    },
    option: (colours) => {
      const own = (n: number) => rows.flatMap((row, i) => (row.series === n ?
        [[Math.log10(x[i]), Math.log10(y[i])]] : []));
      const ceiling = (name: string, data: number[][], type: string) => ({
        name, type: 'line', data, silent: true, symbol: 'none', z: 3,
        lineStyle: {color: colours.ink, width: 1.5, type},
      });
      return {
        grid: {left: 64, right: 20, top: 12, bottom: 48},
        xAxis: log10Axis(colours, 'operations / byte', low, high, {splitLine: {show: false}}),
        yAxis: log10Axis(colours, 'tera-operations / s', bottom, rate / 1000 * 1.5, {nameGap: 44}),
        series: [
          {name: 'trials', type: 'scatter', data: drawn, dimensions: ['x', 'y'], symbolSize: 3,
            large: true, largeThreshold: 1000, progressive: 0,
            itemStyle: {color: colours.trials, opacity: 0.6}, silent: true},
          ceiling('roof', line(rate), 'solid'),
          ...(syncRate ? [ceiling('mma.sync', line(syncRate), 'dashed')] : []),
          {name: 'default', type: 'scatter', symbol: 'diamond', symbolSize: 10, z: 4, silent: true,
            itemStyle: {color: colours.other}, data: own(1)},
          {name: 'tuned', type: 'scatter', symbolSize: 8, z: 5, silent: true,
            itemStyle: {color: colours.tuned}, data: own(0)},
        ],
      };
    },
    stops: {
      count: total, x: (i) => Math.log10(x[i]), y: (i) => Math.log10(y[i]), hidden: (i) => hidden.has(names[series(i)]),
      href: link,
      text: (i) => [
        `${['tuned', 'default', 'trial'][series(i)]} at M = ${mOf(i)}`,
        `${fixed(y[i], 2)} T/s, ${percent(y[i] * 1000 / roof(x[i]))} of the roof ` +
          `(${bandwidth * x[i] < rate ? 'memory' : 'MMA'})`,
        usUnit(nsOf(i)) + spread(i), `${fixed(x[i], 1)} operations / byte`,
        ...(configOf(i) ? [shortConfig(configOf(i))] : []),
      ],
    },
  }));
}
