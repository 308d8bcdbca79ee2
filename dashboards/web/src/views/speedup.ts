// Tuned against the default: per M with the interval, and over all problems.
import {getTable, type Evidence, type Table} from '../api';
import {axis, axisOfM, chart, errorBars} from '../chart';
import {shortConfig} from '../config';
import type {Ctx} from '../context';
import {h, replace} from '../dom';
import {count, geoMean, interval, percent, ratio, us, usUnit} from '../format';
import {tableBadges} from '../panel';
import {href} from '../route';

function perM(ctx: Ctx, table: Table): HTMLElement {
  const all = table.entries.flatMap((entry) =>
    entry.evidence.map((one) => ({...one, config: entry.config}))).sort((a, b) => a.m - b.m);
  const list = all.filter((one) => one.default_median_ns && one.median_ns > 0);
  const speed = (one: Evidence) => one.default_median_ns! / one.median_ns;
  const mean = geoMean(list.map(speed));
  if (list.length === 0) {
    return h('p', {class: 'empty'}, 'The table has no evidence of the default.');
  }
  const bound = (one: Evidence, by: number | null) => (by ? one.default_median_ns! / by : speed(one));
  return chart({
    name: 'speedup', title: 'Default over tuned, per M', modelled: table.modelled,
    subject: ctx.subject(), tools: tableBadges(table, false), height: 300, signal: ctx.signal,
    describe: `Geometric mean ${ratio(mean)} over ${list.length} values of M.`,
    note: `Above 1 the tuned config is faster. Geometric mean ${ratio(mean)} over ${list.length} Ms; ` +
      `${all.length - list.length} probed Ms have no time of the default. Bars: the interval of the ` +
      'tuned median; that of the default is not stored.',
    legend: [{name: 'default / tuned', mark: 'tuned'}, {name: 'geometric mean', mark: 'dashed'},
      {name: 'equal', mark: 'line'}],
    data: () => ({
      file: ctx.file('speedup'), rows: list.length, columns: [
        {key: 'm', name: 'M', head: true, value: (i) => list[i].m},
        {key: 'speedup', name: 'Default / tuned', value: (i) => speed(list[i]),
          show: (i) => ratio(speed(list[i]))},
        {key: 'speedup_low', name: 'Low', value: (i) => bound(list[i], list[i].high_ns),
          show: (i) => ratio(bound(list[i], list[i].high_ns))},
        {key: 'speedup_high', name: 'High', value: (i) => bound(list[i], list[i].low_ns),
          show: (i) => ratio(bound(list[i], list[i].low_ns))},
        {key: 'median_ns', name: 'Tuned, µs', value: (i) => list[i].median_ns,
          show: (i) => us(list[i].median_ns)},
        {key: 'default_median_ns', name: 'Default, µs', value: (i) => list[i].default_median_ns,
          show: (i) => us(list[i].default_median_ns)},
        {key: 'margin', name: 'Margin', value: (i) => list[i].margin,
          show: (i) => percent(list[i].margin, 2)},
        {key: 'samples', name: 'Samples', value: (i) => list[i].samples},
        {key: 'ties', name: 'Ties', value: (i) => list[i].ties.length},
        {key: 'floor_ns', name: 'Floor, µs', value: (i) => list[i].floor_ns,
          show: (i) => us(list[i].floor_ns)},
        {key: 'config', name: 'Config', value: (i) => list[i].config,
          show: (i) => h('span', {class: 'mono', title: list[i].config}, shortConfig(list[i].config))},
      ],
    }),
    option: (colours) => {
      const low = Math.min(1, ...list.map((one) => bound(one, one.high_ns)));
      const high = Math.max(1, ...list.map((one) => bound(one, one.low_ns)));
      const room = Math.max(0.01, (high - low) * 0.1);
      const level = (value: number, type: string) => ({
        yAxis: value, lineStyle: {color: colours.ink, type, width: 1.25},
      });
      return {
        grid: {left: 64, right: 16, top: 12, bottom: 48}, xAxis: axisOfM(colours, list.map((one) => one.m)),
        yAxis: axis(colours, 'default / tuned', {type: 'value', min: low - room, max: high + room,
          nameGap: 46, axisLabel: {color: colours.muted, fontSize: 11, showMinLabel: false,
            showMaxLabel: false, formatter: (value: number) => value.toFixed(room < 0.05 ? 3 : 2)}}),
        series: [
          {name: 'speedup', type: 'scatter', symbolSize: 7, itemStyle: {color: colours.tuned},
            data: list.map((one) => [Math.log2(one.m), speed(one)]),
            markLine: {symbol: 'none', silent: true, label: {show: false},
              data: [level(1, 'solid'), ...(mean ? [level(mean, 'dashed')] : [])]}},
          errorBars('interval', list.map((one) =>
            [Math.log2(one.m), bound(one, one.high_ns), bound(one, one.low_ns)]), colours.tuned),
        ],
      };
    },
    stops: {
      count: list.length, x: (i) => Math.log2(list[i].m), y: (i) => speed(list[i]),
      href: (i) => href('trials',
        {problem: table.problem, class: table.class, m: list[i].m}),
      text: (i) => [`M = ${list[i].m}: ${ratio(speed(list[i]))}`,
        `tuned ${usUnit(list[i].median_ns)} (${interval(list[i].low_ns, list[i].high_ns)})`,
        `default ${usUnit(list[i].default_median_ns)}`,
        `${list[i].samples} samples, ${list[i].ties.length} ties`],
    },
  });
}

function perProblem(ctx: Ctx): HTMLElement | null {
  const cls = ctx.cls!;
  const list = ctx.problems.filter((one) => one.table?.geo_mean_speedup)
    .sort((a, b) => b.table!.geo_mean_speedup! - a.table!.geo_mean_speedup!);
  if (list.length === 0) return null;
  const speed = (i: number) => list[i].table!.geo_mean_speedup!;
  const mean = geoMean(list.map((_, i) => speed(i)));
  const link = (i: number) => href('speedup', {class: cls.class, problem: list[i].problem});
  const high = Math.max(...list.map((_, i) => speed(i)), 1);
  const low = Math.min(...list.map((_, i) => speed(i)), 1);
  return chart({
    name: 'speedup-problems', title: 'Geometric mean per problem', modelled: cls.modelled,
    subject: `${cls.name} · honed ${ctx.status.version}`, signal: ctx.signal,
    height: 64 + 22 * list.length,
    describe: `${list.length} problems with tables; geometric mean of all ${ratio(mean)}.`,
    note: `${count(list.length)} problems with tables; geometric mean of all ${ratio(mean)}.`,
    legend: [{name: 'fresh, local or verified', mark: 'tuned'},
      {name: 'stale or unverified', mark: 'hollow'}],
    data: () => ({
      file: ctx.file('speedup-problems'), rows: list.length, columns: [
        {key: 'problem', name: 'Problem', head: true, value: (i) => list[i].label,
          show: (i) => h('a', {href: link(i), title: list[i].text}, list[i].label)},
        {key: 'state', name: 'State', value: (i) => [list[i].table!.stale && 'stale',
          list[i].table!.origin === 'imported' && !list[i].table!.verified && 'unverified']
          .filter(Boolean).join(' '), show: (i) => tableBadges(list[i].table, cls.modelled)},
        {key: 'geo_mean_speedup', name: 'Default / tuned', value: speed, show: (i) => ratio(speed(i))},
        {key: 'kernels', name: 'Kernels', value: (i) => list[i].table!.kernels},
        {key: 'problem_hash', name: 'Hash', value: (i) => list[i].problem,
          show: (i) => h('span', {class: 'mono'}, list[i].problem.slice(0, 12))},
      ],
    }),
    option: (colours) => {
      const room = Math.max(0.005, (high - low) * 0.08);
      return {
        grid: {left: 330, right: 24, top: 4, bottom: 44},
        yAxis: axis(colours, '', {type: 'category', inverse: true, data: list.map((one) => one.label),
          axisTick: {show: false}, axisLabel: {color: colours.ink, fontSize: 12, interval: 0,
            width: 318, overflow: 'truncate'}, splitLine: {show: true, lineStyle: {color: colours.grid}}}),
        xAxis: axis(colours, 'default / tuned', {type: 'value', min: low - room, max: high + room,
          axisLabel: {color: colours.muted, fontSize: 11, hideOverlap: true, showMinLabel: false,
            showMaxLabel: false, formatter: (value: number) => value.toFixed(room < 0.02 ? 3 : 2)}}),
        series: [{
          name: 'mean', type: 'scatter', symbolSize: 9,
          data: list.map((one, i) => {
            const t = one.table!;
            const doubt = t.stale || (t.origin === 'imported' && !t.verified);
            return {value: [speed(i), i], itemStyle: {
              color: doubt ? colours.paper : colours.tuned, borderColor: colours.tuned, borderWidth: 2}};
          }),
          markLine: {symbol: 'none', silent: true, label: {show: false},
            data: [{xAxis: 1, lineStyle: {color: colours.ink, type: 'solid', width: 1.25}}]},
        }],
      };
    },
    stops: {
      count: list.length, x: speed, y: (i) => i, href: link,
      text: (i) => [list[i].label, ratio(speed(i)), `${list[i].table!.kernels} kernels`,
        ...(list[i].table!.stale ? ['stale'] : []),
        ...(list[i].table!.origin === 'imported' && !list[i].table!.verified ? ['unverified'] : [])],
    },
  });
}

export async function speedupView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const table = await getTable(ctx.problem!, ctx.cls!, ctx.signal);
  replace(root,
    table ? perM(ctx, table) :
      h('p', {class: 'empty'}, 'No table has been published for this problem.'),
    perProblem(ctx));
}
