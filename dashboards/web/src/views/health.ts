// How far two measurements of one kernel lie apart, and at which clocks.
import {get, type Noise} from '../api';
import {axis, chart, log10Axis} from '../chart';
import {shortConfig} from '../config';
import type {Ctx} from '../context';
import {h, replace} from '../dom';
import {facts} from '../facts';
import {count, known, percent, time, us, usUnit} from '../format';
import {panel} from '../panel';
import {href} from '../route';

// About 40 bins of a round width over all the values.
function histogram(values: number[]): {low: number; width: number; counts: number[]} {
  const reach = Math.max(1e-4, ...values.map(Math.abs));
  const rough = reach / 20;
  const power = 10 ** Math.floor(Math.log10(rough));
  const width = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough)!;
  const half = Math.ceil(reach / width + 1e-9);
  const counts = new Array<number>(2 * half).fill(0);
  for (const value of values) {
    counts[Math.min(2 * half - 1, Math.max(0, Math.floor(value / width + half)))]++;
  }
  return {low: -half * width, width, counts};
}

export async function healthView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const cls = ctx.cls!;
  const noise = await get<Noise>('noise', {class: cls.class}, ctx.signal);
  const {pairs, median_abs_log_ratio: median, p95_abs_log_ratio: p95} = noise;
  const subject = `${cls.name} · honed ${ctx.status.version}`;
  const drivers = [...new Set(cls.devices.map((one) => one.driver).filter(Boolean))];
  const summary = panel({title: 'Noise and devices', modelled: cls.modelled}, facts([
    ['A/A pairs', count(noise.pairs_found ?? pairs.length)],
    ['median |log ratio|', percent(median, 3)], ['95th percentile', percent(p95, 3)],
    ['devices of this class', count(new Set(cls.devices.map((one) => one.uuid)).size)],
    ['drivers', drivers.join(', ') || '–'],
    ['power limits', [...new Set(cls.devices.map((one) =>
      (one.power_limit_w ? `${count(one.power_limit_w)} W` : '–')))].join(', ')],
  ], 'Noise and devices'));
  if (pairs.length === 0) {
    replace(root, summary, h('p', {class: 'empty'},
      'No kernel has been measured twice at one M on this device class.'));
    return;
  }

  const bins = histogram(pairs.map((pair) => pair.log_ratio));
  const left = (i: number) => bins.low + i * bins.width;
  const noiseChart = chart({
    name: 'noise', title: 'Noise: A/A pairs', modelled: cls.modelled, subject, height: 280,
    signal: ctx.signal,
    describe: `${pairs.length} pairs; median ${percent(median, 3)}, 95th percentile ${percent(p95, 3)}.`,
    note: 'One kernel at one M, measured twice: the second median over the first, as a logarithm ' +
      `(1 % is a ratio of about 1.01). ${count(pairs.length)} pairs` +
      `${(noise.pairs_found ?? 0) > pairs.length ? ` of ${count(noise.pairs_found)}, the newest` : ''}; median |log ratio| ` +
      `${percent(median, 3)}, 95th percentile ${percent(p95, 3)}.`,
    legend: [{name: 'pairs', mark: 'square tuned'}, {name: '± median', mark: 'line'},
      {name: '± 95th percentile', mark: 'dashed'}],
    data: () => ({
      file: ctx.file('noise-histogram'), rows: bins.counts.length, columns: [
        {key: 'log_ratio_from', name: 'From', value: (i) => left(i), show: (i) => percent(left(i), 3)},
        {key: 'log_ratio_to', name: 'To', value: (i) => left(i + 1),
          show: (i) => percent(left(i + 1), 3)},
        {key: 'pairs', name: 'Pairs', value: (i) => bins.counts[i]},
      ],
    }),
    option: (colours) => {
      const at = (value: number | null, type: string) => (known(value) ? [-value, value] : [])
        .map((place) => ({xAxis: place * 100, lineStyle: {color: colours.ink, type, width: 1.25}}));
      return {
        grid: {left: 56, right: 16, top: 12, bottom: 48},
        xAxis: axis(colours, 'log ratio, %', {type: 'value', min: bins.low * 100,
          max: -bins.low * 100, splitLine: {show: false}}),
        yAxis: axis(colours, 'pairs', {type: 'value', min: 0, minInterval: 1, nameGap: 38}),
        series: [{
          name: 'pairs', type: 'custom', data: bins.counts.map((n, i) =>
            [left(i) * 100, left(i + 1) * 100, n]), encode: {x: [0, 1], y: 2},
          renderItem: (_: unknown, api: any) => {
            const [x1, y1] = api.coord([api.value(0), api.value(2)]);
            const [x2, y2] = api.coord([api.value(1), 0]);
            return {type: 'rect', shape: {x: x1, y: y1, width: Math.max(1, x2 - x1 - 1), height: y2 - y1},
              style: {fill: colours.tuned}};
          },
          markLine: {symbol: 'none', silent: true, label: {show: false},
            data: [...at(median, 'solid'), ...at(p95, 'dashed')]},
        }],
      };
    },
    stops: {
      count: bins.counts.length, x: (i) => (left(i) + bins.width / 2) * 100, y: (i) => bins.counts[i],
      text: (i) => [`${count(bins.counts[i])} pairs`,
        `${percent(left(i), 3)} to ${percent(left(i + 1), 3)}`],
    },
  });

  // Two measurements a pair, each with its clock and time.
  const readings = pairs.flatMap((pair) => [0, 1].map((side) => ({
    pair, clock: pair.clock_mhz[side], us: pair.unix_us[side],
    ns: side === 0 ? pair.first_ns : pair.second_ns,
  }))).filter((one) => known(one.clock) && one.clock > 0).sort((a, b) => a.us - b.us);
  const top = ctx.status.device?.class === cls.class ? ctx.status.device.max_clock_mhz : null;
  const link = (problem: string, m: number) => href('trials', {class: cls.class, problem, m});
  const clocks = readings.length > 0 ? chart({
    name: 'clocks', title: 'SM clocks', modelled: cls.modelled, subject, height: 240,
    signal: ctx.signal, describe: `${readings.length} measurements over time.`,
    note: 'The median SM clock of each measurement of the pairs, read on the device' +
      (top ? `; the device's maximum is ${count(top)} MHz.` : '.'),
    data: () => ({
      file: ctx.file('clocks'), rows: readings.length, columns: [
        {key: 'time', name: 'Time', value: (i) => time(readings[i].us)},
        {key: 'clock_mhz', name: 'SM clock, MHz', value: (i) => readings[i].clock},
        {key: 'median_ns', name: 'Median, µs', value: (i) => readings[i].ns,
          show: (i) => us(readings[i].ns)},
        {key: 'm', name: 'M', value: (i) => readings[i].pair.m},
        {key: 'problem', name: 'Problem', value: (i) => readings[i].pair.label},
        {key: 'config', name: 'Config', value: (i) => readings[i].pair.config,
          show: (i) => h('span', {class: 'mono', title: readings[i].pair.config},
            shortConfig(readings[i].pair.config))},
      ],
    }),
    option: (colours) => ({
      grid: {left: 64, right: 16, top: 12, bottom: 48},
      xAxis: axis(colours, 'time (UTC)', {type: 'value', scale: true, splitLine: {show: false},
        axisLabel: {color: colours.muted, fontSize: 11, hideOverlap: true,
          formatter: (ms: number) => time(ms * 1000).slice(5, 16)}}),
      yAxis: axis(colours, 'SM clock, MHz', {type: 'value', scale: true, nameGap: 46}),
      series: [{name: 'clock', type: 'scatter', symbolSize: 4, itemStyle: {color: colours.third},
        data: readings.map((one) => [one.us / 1000, one.clock]),
        markLine: top ? {symbol: 'none', silent: true, label: {show: false},
          data: [{yAxis: top, lineStyle: {color: colours.ink, type: 'dashed'}}]} : undefined}],
    }),
    stops: {
      count: readings.length, x: (i) => readings[i].us / 1000, y: (i) => readings[i].clock!,
      href: (i) => link(readings[i].pair.problem, readings[i].pair.m),
      text: (i) => [`${count(readings[i].clock)} MHz`, time(readings[i].us),
        `M = ${readings[i].pair.m}, ${usUnit(readings[i].ns)}`, readings[i].pair.label],
    },
  }) : h('p', {class: 'empty'}, 'No clocks were read.');

  const pairsChart = chart({
    name: 'pairs', title: 'Pairs by time', modelled: cls.modelled, subject, height: 240,
    signal: ctx.signal, describe: `${pairs.length} pairs by the time of their first median.`,
    note: 'CUPTI counts in 32 ns, so short kernels are coarse; long ones follow the clock under the power cap.',
    data: () => ({
      file: ctx.file('noise-pairs'), rows: pairs.length, columns: [
        {key: 'problem', name: 'Problem', head: true, value: (i) => pairs[i].label},
        {key: 'm', name: 'M', value: (i) => pairs[i].m},
        {key: 'first_ns', name: 'First, µs', value: (i) => pairs[i].first_ns,
          show: (i) => us(pairs[i].first_ns)},
        {key: 'second_ns', name: 'Second, µs', value: (i) => pairs[i].second_ns,
          show: (i) => us(pairs[i].second_ns)},
        {key: 'log_ratio', name: 'Log ratio', value: (i) => pairs[i].log_ratio,
          show: (i) => percent(pairs[i].log_ratio, 3)},
        {key: 'first_clock_mhz', name: 'First, MHz', value: (i) => pairs[i].clock_mhz[0]},
        {key: 'second_clock_mhz', name: 'Second, MHz', value: (i) => pairs[i].clock_mhz[1]},
        {key: 'first', name: 'First at', value: (i) => time(pairs[i].unix_us[0])},
        {key: 'second', name: 'Second at', value: (i) => time(pairs[i].unix_us[1])},
        {key: 'config', name: 'Config', value: (i) => pairs[i].config,
          show: (i) => h('span', {class: 'mono', title: pairs[i].config}, shortConfig(pairs[i].config))},
      ],
    }),
    option: (colours) => ({
      grid: {left: 64, right: 16, top: 12, bottom: 48},
      xAxis: log10Axis(colours, 'first median, µs', Math.min(...pairs.map((one) => one.first_ns)) / 1100,
        Math.max(...pairs.map((one) => one.first_ns)) / 900, {splitLine: {show: false}}),
      yAxis: axis(colours, 'log ratio, %', {type: 'value', nameGap: 46}),
      series: [{name: 'pair', type: 'scatter', symbolSize: 5, itemStyle: {color: colours.tuned},
        data: pairs.map((one) => [Math.log10(one.first_ns / 1000), one.log_ratio * 100])}],
    }),
    stops: {
      count: pairs.length, x: (i) => Math.log10(pairs[i].first_ns / 1000), y: (i) => pairs[i].log_ratio * 100,
      href: (i) => link(pairs[i].problem, pairs[i].m),
      text: (i) => [`M = ${pairs[i].m}: ${percent(pairs[i].log_ratio, 3)}`,
        `${usUnit(pairs[i].first_ns)}, then ${usUnit(pairs[i].second_ns)}`, pairs[i].label],
    },
  });
  replace(root, summary, noiseChart,
    readings.length > 0 ? h('div', {class: 'halves'}, pairsChart, clocks) : [pairsChart, clocks]);
}
