// Which layers of which models have a table here, and which do not.
import {get, type Coverage} from '../api';
import {axis, chart} from '../chart';
import type {Ctx} from '../context';
import {field, h, replace} from '../dom';
import {count, percent} from '../format';
import {badge, panel} from '../panel';
import {href} from '../route';
import {dataTable, type Data} from '../table';

const states = ['exact', 'stale', 'missing'] as const;

export async function coverageView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const cls = ctx.cls!;
  const tp = ctx.route.params.get('tp') ?? '';
  const models = await get<Coverage[]>('coverage', {class: cls.class, tp}, ctx.signal);
  const sum = (model: Coverage, state: string) => model.layers
    .reduce((total, layer) => total + (layer.state === state ? layer.count : 0), 0);
  const totals = models.map((model) => states.map((state) => sum(model, state)));
  const all = (i: number) => totals[i].reduce((a, b) => a + b, 0);

  const detail = (model: Coverage): Data => {
    const layers = model.layers;
    return {
      file: ctx.file(`coverage-${model.model}`), rows: layers.length, columns: [
        {key: 'layer', name: 'Layer', head: true, value: (i) => layers[i].name},
        {key: 'problem', name: 'Problem', value: (i) => layers[i].label, show: (i) =>
          (layers[i].state === 'missing' ? layers[i].label : h('a', {
            href: href('heat', {class: cls.class, problem: layers[i].problem}),
            title: layers[i].text}, layers[i].label))},
        {key: 'count', name: 'Times in the model', value: (i) => layers[i].count},
        {key: 'state', name: 'State', value: (i) => layers[i].state, show: (i) => badge(
          layers[i].state === 'exact' ? 'ok' : layers[i].state === 'stale' ? 'warn' : 'bad',
          layers[i].state)},
        {key: 'revision', name: 'Revision', number: true, value: (i) => layers[i].revision,
          show: (i) => count(layers[i].revision)},
        {key: 'kernels', name: 'Kernels', number: true, value: (i) => layers[i].kernels,
          show: (i) => (layers[i].state === 'missing' ? '–' : count(layers[i].kernels))},
      ],
    };
  };

  const ranks = h('select', {onchange: () => {
    location.hash = href('coverage', {class: cls.class, tp: ranks.value});
  }}, ['', '2', '4', '8'].map((value) => h('option', {value, selected: value === tp},
    value ? `${value} ranks` : 'none')));
  replace(root,
    h('div', {class: 'controls'}, field('Tensor parallelism', ranks)),
    models.length > 0 && chart({
      name: 'coverage', title: 'Layers with a table', modelled: cls.modelled,
      subject: `${cls.name} · honed ${ctx.status.version}`, height: 64 + 34 * models.length,
      signal: ctx.signal,
      describe: models.map((model, i) => `${model.model}: ${totals[i][0]} of ${all(i)} exact`).join('; '),
      note: 'Each layer counts as often as the model has it. To fill the gaps: hone sweep.',
      legend: [{name: 'exact', mark: 'square tuned'}, {name: 'stale', mark: 'square other'},
        {name: 'missing', mark: 'empty-box'}],
      data: () => ({
        file: ctx.file('coverage'), rows: models.length, columns: [
          {key: 'model', name: 'Model', head: true, value: (i) => models[i].model},
          ...states.map((state, s) => ({
            key: state, name: state, value: (i: number) => totals[i][s],
          })),
          {key: 'exact_share', name: 'Exact', value: (i) => totals[i][0] / all(i),
            show: (i) => percent(totals[i][0] / all(i), 0)},
        ],
      }),
      option: (colours) => ({
        grid: {left: 200, right: 24, top: 4, bottom: 44},
        yAxis: axis(colours, '', {type: 'category', inverse: true, data: models.map((one) => one.model),
          axisTick: {show: false}, axisLabel: {color: colours.ink, fontSize: 12, width: 188,
            overflow: 'truncate', interval: 0}, splitLine: {show: false}}),
        xAxis: axis(colours, 'layers', {type: 'value', min: 0}),
        series: states.map((state, s) => ({
          name: state, type: 'bar', stack: 'all', barWidth: 18,
          itemStyle: {color: [colours.tuned, colours.other, colours.grid][s],
            borderColor: s === 2 ? colours.trials : undefined, borderWidth: s === 2 ? 1 : 0},
          label: {show: true, color: s === 2 ? colours.ink : colours.paper, fontSize: 11,
            formatter: ({value}: {value: number}) => (value > 0 ? String(value) : '')},
          data: totals.map((total) => total[s]),
        })),
      }),
      stops: {
        count: models.length, x: (i) => all(i) / 2, y: (i) => i,
        text: (i) => [models[i].model, ...states.map((state, s) => `${state}: ${totals[i][s]}`)],
      },
    }),
    models.map((model) => panel({
      title: model.model, modelled: cls.modelled, data: () => detail(model),
    }, dataTable(detail(model), {caption: `Layers of ${model.model}`, hideCaption: true}))),
    models.length === 0 && h('p', {class: 'empty'}, 'This honed knows no models.'));
}
