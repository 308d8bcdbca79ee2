// The same problem, M and config under another driver, toolkit or kernel.
import {get, type Measured, type Regressions} from '../api';
import {axis, chart, errorBars} from '../chart';
import {shortConfig} from '../config';
import type {Ctx} from '../context';
import {field, h, interaction, replace} from '../dom';
import {count, interval, ratio, short, time, us, usUnit} from '../format';
import {badge, panel} from '../panel';
import {href, note} from '../route';
import {dataTable, type Data} from '../table';

export async function regressionsView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const cls = ctx.cls!;
  const answer = await get<Regressions>('regressions', {class: cls.class}, ctx.signal);
  const {versions} = answer;
  const all = [...answer.rows].sort((a, b) => b.ratio - a.ratio);
  const named = new Map(versions.map((one) => [String(one.id), one]));
  const name = (one: Measured) => {
    const version = named.get(String(one.version));
    return version ? `driver ${version.driver || '–'}, NVRTC ${version.nvrtc || '–'}` :
      String(one.version);
  };
  const versionData: Data = {
    file: ctx.file('versions'), rows: versions.length, columns: [
      {key: 'version', name: 'Version', head: true, value: (i) => String(versions[i].id)},
      {key: 'driver', name: 'Driver', value: (i) => versions[i].driver},
      {key: 'nvrtc', name: 'NVRTC', value: (i) => versions[i].nvrtc},
      {key: 'from', name: 'First seen', value: (i) => time(versions[i].from_us)},
    ],
  };
  const versionPanel = panel({title: 'Versions', data: () => versionData},
    dataTable(versionData, {caption: 'Versions', hideCaption: true}));
  if (all.length === 0) {
    replace(root, h('p', {class: 'empty'},
      'No config has been measured under two versions at one M on this device class.'), versionPanel);
    return;
  }

  const content = h('div', {});
  let only = ctx.route.params.get('only') === 'beyond';
  let inner = new AbortController();
  ctx.signal.addEventListener('abort', () => inner.abort());
  const draw = () => {
    inner.abort();
    inner = new AbortController();
    const rows = only ? all.filter((row) => row.beyond_tie) : all;
    const slower = all.filter((row) => row.beyond_tie && row.ratio > 1).length;
    const faster = all.filter((row) => row.beyond_tie && row.ratio < 1).length;
    const link = (i: number) => (rows[i].after.trial === undefined ?
      href('trials', {class: cls.class, problem: rows[i].problem, m: rows[i].m}) :
      href('trial', {class: cls.class, problem: rows[i].problem, id: String(rows[i].after.trial)}));
    const data = (): Data => ({
      file: ctx.file('regressions'), rows: rows.length, columns: [
        {key: 'problem', name: 'Problem', head: true, value: (i) => rows[i].label,
          show: (i) => h('a', {href: link(i)}, rows[i].label)},
        {key: 'm', name: 'M', value: (i) => rows[i].m},
        {key: 'ratio', name: 'After / before', value: (i) => rows[i].ratio,
          show: (i) => ratio(rows[i].ratio)},
        {key: 'beyond_tie', name: 'Verdict', value: (i) => rows[i].beyond_tie,
          show: (i) => (rows[i].beyond_tie ? badge(rows[i].ratio > 1 ? 'bad' : 'ok',
            rows[i].ratio > 1 ? 'slower' : 'faster') : badge('plain', 'tie'))},
        {key: 'before_ns', name: 'Before, µs', value: (i) => rows[i].before.median_ns,
          show: (i) => h('span', {title: interval(rows[i].before.low_ns,
            rows[i].before.high_ns)}, us(rows[i].before.median_ns))},
        {key: 'before_low_ns', name: 'Low', csvOnly: true, value: (i) => rows[i].before.low_ns},
        {key: 'before_high_ns', name: 'High', csvOnly: true, value: (i) => rows[i].before.high_ns},
        {key: 'after_ns', name: 'After, µs', value: (i) => rows[i].after.median_ns,
          show: (i) => h('span', {title: interval(rows[i].after.low_ns, rows[i].after.high_ns)},
            us(rows[i].after.median_ns))},
        {key: 'after_low_ns', name: 'Low', csvOnly: true, value: (i) => rows[i].after.low_ns},
        {key: 'after_high_ns', name: 'High', csvOnly: true, value: (i) => rows[i].after.high_ns},
        {key: 'versions', name: 'Versions', value: (i) =>
          `${rows[i].before.version} → ${rows[i].after.version}`,
        show: (i) => h('span', {title: `${name(rows[i].before)} → ${name(rows[i].after)}`},
          `${rows[i].before.version} → ${rows[i].after.version}`)},
        {key: 'before_version', name: 'From', csvOnly: true, value: (i) => name(rows[i].before)},
        {key: 'after_version', name: 'To', csvOnly: true, value: (i) => name(rows[i].after)},
        {key: 'kernel', name: 'Kernel', value: (i) =>
          (rows[i].before.kernel_id === rows[i].after.kernel_id ? 'same' : 'other'),
        show: (i) => h('span', {title: `${short(rows[i].before.kernel_id)} → ` +
          short(rows[i].after.kernel_id)},
        rows[i].before.kernel_id === rows[i].after.kernel_id ? 'same' : 'other')},
        {key: 'config', name: 'Config', value: (i) => rows[i].config, show: (i) =>
          h('span', {class: 'mono', title: rows[i].config}, shortConfig(rows[i].config))},
      ],
    });
    replace(content, chart({
      name: 'regressions', title: 'After over before', modelled: cls.modelled,
      subject: `${cls.name} · honed ${ctx.status.version}`, height: 260, signal: inner.signal,
      describe: `${rows.length} comparisons; ${slower} slower and ${faster} faster beyond a tie.`,
      note: `${count(all.length)} comparisons` +
        `${(answer.rows_found ?? 0) > all.length ? ` of ${count(answer.rows_found)}` : ''}, slowest first; ${count(slower)} slower and ` +
        `${count(faster)} faster than a tie (max(1 %, 64 ns)) explains.` +
        (rows.length <= 200 ? ' Bars: the ends of both intervals, after over before.' : ''),
      legend: [{name: 'slower', mark: 'badmark'}, {name: 'faster', mark: 'third'},
        {name: 'tie', mark: 'trials'}],
      data,
      option: (colours) => ({
        grid: {left: 64, right: 16, top: 12, bottom: 48},
        xAxis: axis(colours, 'rank', {type: 'value', min: 0, max: rows.length + 1, minInterval: 1,
          splitLine: {show: false}}),
        yAxis: axis(colours, 'after / before', {type: 'value', scale: true, nameGap: 46}),
        series: [{name: 'rows', type: 'scatter',
          data: rows.map((row, i) => ({value: [i + 1, row.ratio], symbolSize: row.beyond_tie ? 8 : 4,
            symbol: row.beyond_tie ? (row.ratio > 1 ? 'triangle' : 'rect') : 'circle',
            itemStyle: {color: row.beyond_tie ? (row.ratio > 1 ? colours.bad : colours.third) :
              colours.trials}})),
          markLine: {symbol: 'none', silent: true, label: {show: false},
            data: [{yAxis: 1, lineStyle: {color: colours.ink, type: 'solid', width: 1}}]}},
        // Bars that touch would only be noise.
        ...(rows.length <= 200 ? [errorBars('interval', rows.map((row, i) => [i + 1,
          (row.after.low_ns ?? row.after.median_ns) / (row.before.high_ns ?? row.before.median_ns),
          (row.after.high_ns ?? row.after.median_ns) / (row.before.low_ns ?? row.before.median_ns)]),
        colours.trials, 0, 2)] : [])],
      }),
      stops: {
        count: rows.length, x: (i) => i + 1, y: (i) => rows[i].ratio, href: link,
        text: (i) => [`${ratio(rows[i].ratio)} at M = ${rows[i].m}`, rows[i].label,
          `${usUnit(rows[i].before.median_ns)} (${interval(rows[i].before.low_ns, rows[i].before.high_ns)})`,
          `${usUnit(rows[i].after.median_ns)} (${interval(rows[i].after.low_ns, rows[i].after.high_ns)})`,
          `${name(rows[i].before)} → ${name(rows[i].after)}`],
      },
    }), panel({title: 'Comparisons', modelled: cls.modelled, data}, dataTable(data(), {
      caption: 'Comparisons', hideCaption: true, sort: {key: 'ratio', descending: true},
      empty: 'None is beyond a tie.'})));
  };
  const box = h('input', {type: 'checkbox', checked: only,
    onchange: (event: Event) => interaction('regressions.filter', event, () => {
      only = box.checked;
      note({only: only ? 'beyond' : null});
      draw();
    })});
  draw();
  replace(root, h('div', {class: 'controls'}, field('only beyond a tie', box)), content,
    versionPanel);
}
