// What fewer kernels cost: regret against how many a client compiles.
import {get, getTable, type TrialsAnswer} from '../api';
import {axis, chart} from '../chart';
import type {Ctx} from '../context';
import {h, replace} from '../dom';
import {fixed, known, percent} from '../format';
import {tableBadges} from '../panel';
import {tradeOffOf} from '../trade_off';
import {toColumns, toGrid} from '../trials';

export async function tradeoffView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const table = await getTable(ctx.problem!, ctx.cls!, ctx.signal);
  if (!table) {
    replace(root, h('p', {class: 'empty'}, 'No table has been published for this problem.'));
    return;
  }
  let list = table.trade_off;
  const stored = list.length > 0;
  if (!stored) {
    const grid = toGrid(toColumns(await get<TrialsAnswer>('trials',
      {problem: table.problem, class: table.class}, ctx.signal)));
    const compile = new Map(table.entries.flatMap((entry): [string, number][] =>
      (known(entry.compile_ms) ? [[entry.config, entry.compile_ms]] : [])));
    list = tradeOffOf(grid, table.ladder.map((m) => grid.ms.indexOf(m)).filter((col) => col >= 0),
      compile);
  }
  if (list.length === 0) {
    replace(root, h('p', {class: 'empty'}, 'The table came without a trade-off, and there are no ' +
      'trials of this problem here to make one from.'));
    return;
  }
  list = [...list].sort((a, b) => a.kernels - b.kernels);
  const own = new Set(table.entries.map((entry) => entry.kernel_id)).size;
  const hundred = (fraction: number | null) => (known(fraction) ? fraction * 100 : NaN);
  const seconds = (ms: number | null) => (known(ms) ? ms / 1000 : NaN);
  // Stops: worst, mean and compile time of each count.
  const which = (i: number) => Math.floor(i / list.length);
  const at = (i: number) => list[i % list.length];
  replace(root, chart({
    name: 'tradeoff', title: 'Kernels per layer', modelled: table.modelled, subject: ctx.subject(),
    tools: tableBadges(table, false), height: 440, signal: ctx.signal,
    describe: `${list.length} counts of kernels; the published table has ${own}.`,
    note: `Regret: time over the fastest at each M, less 1; ties count as none; the mean is geometric ` +
      `over M. The published table has ${own} kernels. ` + (stored ?
      'Proven: no other set of as many kernels has a smaller mean.' :
      'Made on this page from the medians of the trials, by greedy choice and exchanges: not raced, ' +
      'not proven. Compile times are known of published kernels only.'),
    legend: [{name: 'worst regret', mark: 'other'}, {name: 'mean regret', mark: 'tuned'},
      {name: 'compile time', mark: 'third'}, {name: 'not proven', mark: 'hollow'},
      {name: 'published', mark: 'dashed'}],
    data: () => ({
      file: ctx.file('tradeoff'), rows: list.length, columns: [
        {key: 'kernels', name: 'Kernels', head: true, value: (i) => list[i].kernels},
        {key: 'worst_regret', name: 'Worst regret', value: (i) => list[i].worst_regret,
          show: (i) => percent(list[i].worst_regret, 2)},
        {key: 'mean_regret', name: 'Mean regret', value: (i) => list[i].mean_regret,
          show: (i) => percent(list[i].mean_regret, 2)},
        {key: 'compile_ms', name: 'Compile, s', value: (i) => list[i].compile_ms,
          show: (i) => fixed(seconds(list[i].compile_ms), 3)},
        {key: 'proven', name: 'Proven', value: (i) => list[i].proven,
          show: (i) => (list[i].proven ? 'yes' : 'no')},
      ],
    }),
    option: (colours) => {
      const x = (gridIndex: number, last: boolean) => axis(colours, last ? 'kernels' : '', {
        type: 'value', gridIndex, minInterval: 1, min: Math.max(0, list[0].kernels - 1),
        max: list[list.length - 1].kernels + 1, splitLine: {show: false},
        axisLabel: {show: last, color: colours.muted, fontSize: 11},
      });
      const line = (name: string, grid: number, colour: string, symbol: string,
          value: (i: number) => number, mark: boolean) => ({
        name, type: 'line', xAxisIndex: grid, yAxisIndex: grid, symbol, symbolSize: 9,
        lineStyle: {color: colour, width: 1.25},
        data: list.map((one, i) => ({value: [one.kernels, value(i)], itemStyle: {
          color: one.proven ? colour : colours.paper, borderColor: colour, borderWidth: 2}})),
        markLine: mark ? {symbol: 'none', silent: true, label: {show: false},
          data: [{xAxis: own, lineStyle: {color: colours.ink, type: 'dashed', width: 1.25}}]} : undefined,
      });
      return {
        grid: [{left: 64, right: 16, top: 12, height: 230}, {left: 64, right: 16, top: 268, bottom: 48}],
        xAxis: [x(0, false), x(1, true)],
        yAxis: [
          axis(colours, 'regret, %', {type: 'value', min: 0, nameGap: 44}),
          axis(colours, 'compile, s', {type: 'value', gridIndex: 1, min: 0, nameGap: 44}),
        ],
        series: [
          line('worst', 0, colours.other, 'diamond', (i) => hundred(list[i].worst_regret), true),
          line('mean', 0, colours.tuned, 'circle', (i) => hundred(list[i].mean_regret), false),
          line('compile', 1, colours.third, 'rect', (i) => seconds(list[i].compile_ms), true),
        ],
      };
    },
    stops: {
      count: 3 * list.length, x: (i) => at(i).kernels, grid: (i) => (which(i) === 2 ? 1 : 0),
      y: (i) => [hundred(at(i).worst_regret), hundred(at(i).mean_regret),
        seconds(at(i).compile_ms)][which(i)],
      text: (i) => [`${at(i).kernels} kernels${at(i).kernels === own ? ' (published)' : ''}`,
        `worst regret ${percent(at(i).worst_regret, 2)}`,
        `mean regret ${percent(at(i).mean_regret, 2)}`,
        `compile ${fixed(seconds(at(i).compile_ms), 1)} s`, at(i).proven ? 'proven' : 'not proven'],
    },
  }));
}
