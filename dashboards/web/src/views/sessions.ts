// What tunes did: those that run, those that ended, and how candidates ended.
import {get, type Session, type Status} from '../api';
import {axis, chart} from '../chart';
import type {Ctx} from '../context';
import {h, replace} from '../dom';
import {facts, healthCounts} from '../facts';
import {count, percent, seconds, time, words} from '../format';
import {jobsData} from '../jobs';
import {badge, panel} from '../panel';
import {href} from '../route';
import {dataTable, type Data} from '../table';

const drawn = 60;

export async function sessionsView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const cls = ctx.cls!;
  const list = await get<Session[]>('sessions', {class: cls.class}, ctx.signal);
  const failures = (one: Session) => Object.values(one.failed).reduce((a, b) => a + b, 0);
  const screened = (one: Session) => one.screened_out ?? 0;
  const outcomes = [...new Set(list.flatMap((one) => Object.keys(one.failed)))].sort();
  const spent = (one: Session) => (one.finished_us ? (one.finished_us - one.started_us) * 1000 : null);
  const data: Data = {
    file: ctx.file('sessions'), rows: list.length, columns: [
      {key: 'problem', name: 'Problem', head: true, value: (i) => list[i].label, show: (i) => h('a',
        {href: href('heat', {class: cls.class, problem: list[i].problem})}, list[i].label)},
      {key: 'status', name: 'Status', value: (i) => list[i].status, show: (i) => badge(
        list[i].status === 'finished' ? 'plain' : list[i].status === 'running' ? 'ok' :
          list[i].status === 'failed' ? 'bad' : 'warn', list[i].status)},
      {key: 'started', name: 'Started', value: (i) => time(list[i].started_us)},
      {key: 'seconds', name: 'Took', value: (i) => {
        const ns = spent(list[i]);
        return ns === null ? null : ns / 1e9;
      }, show: (i) => seconds(spent(list[i]))},
      {key: 'trials', name: 'Trials', value: (i) => list[i].trials, show: (i) => count(list[i].trials)},
      {key: 'measured', name: 'Measured', value: (i) => list[i].measured,
        show: (i) => count(list[i].measured)},
      {key: 'screened_out', name: 'Screened out', value: (i) => screened(list[i]),
        show: (i) => count(screened(list[i]))},
      ...outcomes.map((outcome) => ({
        key: outcome, name: words(outcome), csvOnly: true,
        value: (i: number) => list[i].failed[outcome] ?? 0,
      })),
      {key: 'failed', name: 'Failed', value: (i) => failures(list[i]),
        show: (i) => count(failures(list[i]))},
      {key: 'how', name: 'How', wrap: true, value: (i) => Object.entries(list[i].failed)
        .map(([outcome, n]) => `${words(outcome)} ${n}`).join(', ')},
      {key: 'detail', name: 'Detail', wrap: true, value: (i) => list[i].detail},
      {key: 'session', name: 'Session', value: (i) => list[i].id,
        show: (i) => h('span', {class: 'mono', title: list[i].id}, list[i].id.slice(0, 8))},
    ],
  };

  const live = h('div', {});
  let seen = '';
  const show = (status: Status) => {
    const now = JSON.stringify([status.jobs, status.health, status.unavailable]);
    if (now === seen) return;
    seen = now;
    const {health} = status;
    replace(live, facts([
      ['device state', badge(health.state === 'ok' ? 'ok' :
        health.state === 'quarantined' ? 'bad' : 'warn', health.state)],
      ['detail', health.detail || '–'],
      ...healthCounts(health),
      ['tuning', status.unavailable ?? 'available'],
    ], 'Quarantine'), dataTable(jobsData(status.device?.class, status.jobs), {
      caption: 'Jobs', hideCaption: true, empty: 'No job runs and none waits.',
    }));
  };
  show(ctx.status);
  ctx.onStatus(show);

  const bars = list.slice(0, drawn).reverse();
  replace(root,
    panel({title: 'Now', note: 'Live, every 2 seconds while the page is in view.'}, live),
    bars.length > 0 && chart({
      name: 'sessions', title: 'Trials per session', modelled: cls.modelled,
      subject: `${cls.name} · honed ${ctx.status.version}`, height: 240, signal: ctx.signal,
      describe: `The last ${bars.length} sessions, oldest first.`,
      note: `The last ${bars.length} of ${list.length} sessions, oldest first.`,
      legend: [{name: 'measured', mark: 'square tuned'}, {name: 'screened out', mark: 'square trials'},
        {name: 'failed', mark: 'badmark'}],
      data: () => ({
        file: ctx.file('trials-per-session'), rows: bars.length, columns: [
          {key: 'started', name: 'Started', value: (i) => time(bars[i].started_us)},
          {key: 'problem', name: 'Problem', value: (i) => bars[i].label},
          {key: 'status', name: 'Status', value: (i) => bars[i].status},
          {key: 'measured', name: 'Measured', value: (i) => bars[i].measured},
          {key: 'screened_out', name: 'Screened out', value: (i) => screened(bars[i])},
          {key: 'failed', name: 'Failed', value: (i) => failures(bars[i])},
        ],
      }),
      option: (colours) => ({
        grid: {left: 64, right: 16, top: 12, bottom: 48},
        xAxis: axis(colours, 'started (UTC)', {type: 'category', splitLine: {show: false},
          data: bars.map((one) => time(one.started_us).slice(5, 16))}),
        yAxis: axis(colours, 'trials', {type: 'value', min: 0, nameGap: 46}),
        series: [
          {name: 'measured', value: (one: Session) => one.measured, colour: colours.tuned},
          {name: 'screened out', value: screened, colour: colours.trials},
          {name: 'failed', value: (one: Session) => failures(one), colour: colours.bad},
        ].map(({name, value, colour}) => ({name, type: 'bar', stack: 'all', barMaxWidth: 26,
          itemStyle: {color: colour}, data: bars.map(value)})),
      }),
      stops: {
        count: bars.length, x: (i) => i, y: (i) => bars[i].measured + screened(bars[i]) + failures(bars[i]),
        href: (i) => href('heat', {class: cls.class, problem: bars[i].problem}),
        text: (i) => [bars[i].label, `${time(bars[i].started_us)}, ${bars[i].status}`,
          `${count(bars[i].measured)} measured, ${count(screened(bars[i]))} screened out`,
          `${count(failures(bars[i]))} failed of ${count(bars[i].trials)} ` +
          `(${percent(failures(bars[i]) / Math.max(1, bars[i].trials))})`],
      },
    }),
    panel({title: 'Sessions', modelled: cls.modelled, data: () => data,
      note: 'The newest 200.'},
    dataTable(data, {caption: 'Sessions', hideCaption: true, empty: 'No session yet.'})));
}
