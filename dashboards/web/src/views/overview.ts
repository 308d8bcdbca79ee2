// What this honed has, what it does now, and what it has found.
import type {Status} from '../api';
import type {Ctx} from '../context';
import {h, replace, type Child} from '../dom';
import {facts, healthCounts} from '../facts';
import {bytes, count, deviceName, fixed, ratio, short, time} from '../format';
import {jobsData} from '../jobs';
import {badge, modelledBadge, panel, tableBadges} from '../panel';
import {href} from '../route';
import {dataTable, type Data} from '../table';

function deviceFacts(status: Status): HTMLElement {
  const {device, health} = status;
  const list: [string, Child][] = [];
  if (device) {
    list.push(
      ['device', [`${deviceName(device.name)} `, device.modelled && modelledBadge()]],
      ['uuid', h('span', {class: 'mono'}, device.uuid || '–')],
      ['driver', device.driver || '–'], ['VBIOS', device.vbios || '–'],
      ['SMs', count(device.sm_count)],
      ['max SM clock', `${count(device.max_clock_mhz)} MHz`],
      ['power limit', device.power_limit_w ? `${count(device.power_limit_w)} W` : '–'],
      ['ECC', device.ecc === null ? '–' : device.ecc ? 'on' : 'off'],
      ['memory', device.memory_bytes ? bytes(device.memory_bytes) : '–'], ['L2', bytes(device.l2_bytes)],
      ['bandwidth', `${fixed(device.memory_gbps, 0)} GB/s`],
      ['MMA peak', `${fixed(device.peak_tflops, 0)} T/s`],
      ['mma.sync peak', `${fixed(device.mma_sync_tflops, 0)} T/s`]);
  } else {
    list.push(['device', 'none: lookups only']);
  }
  list.push(
    ['health', badge(health.state === 'ok' ? 'ok' : health.state === 'quarantined' ? 'bad' : 'warn',
      health.state)],
    ...healthCounts(health),
    ['revision', count(status.revision)], ['honed', status.version],
    ['kernel sources', h('span', {class: 'mono', title: status.source_closure},
      short(status.source_closure))]);
  if (health.detail && health.detail !== status.unavailable) {
    list.push(['health detail', health.detail]);
  }
  if (status.unavailable) list.push(['tuning is off', status.unavailable]);
  return facts(list, 'Device');
}

function problemsData(ctx: Ctx): Data {
  const {problems} = ctx;
  const cls = ctx.cls!;
  const table = (i: number) => problems[i].table;
  return {
    file: ctx.file('problems'), rows: problems.length,
    columns: [
      {key: 'label', name: 'Problem', head: true, value: (i) => problems[i].label,
        show: (i) => h('a', {
          href: href('heat', {class: cls.class, problem: problems[i].problem}),
          title: problems[i].text,
        }, problems[i].label)},
      {key: 'state', name: 'State', value: (i) => {
        const t = table(i);
        return [cls.modelled && 'MODELLED', !t && 'no table', t?.stale && 'stale',
          t && t.origin === 'imported' && !t.verified && 'unverified'].filter(Boolean).join(' ');
      }, show: (i) => tableBadges(table(i), cls.modelled)},
      {key: 'geo_mean_speedup', name: 'Default / tuned', title:
        'Geometric mean over the measured Ms of the default\'s median over the tuned one\'s',
      value: (i) => table(i)?.geo_mean_speedup,
      show: (i) => h('a', {
        href: href('speedup', {class: cls.class, problem: problems[i].problem}),
      }, ratio(table(i)?.geo_mean_speedup))},
      {key: 'kernels', name: 'Kernels', value: (i) => table(i)?.kernels,
        show: (i) => count(table(i)?.kernels)},
      {key: 'measured_m', name: 'Ms', title: 'How many values of M have trials',
        value: (i) => problems[i].measured_m.length},
      {key: 'trials', name: 'Trials', value: (i) => problems[i].trials,
        show: (i) => count(problems[i].trials)},
      {key: 'gate', name: 'Gate', value: (i) => table(i)?.gate ?? '', show: (i) =>
        table(i)?.gate ?? '–'},
      {key: 'revision', name: 'Revision', value: (i) => table(i)?.revision,
        show: (i) => count(table(i)?.revision)},
      {key: 'tuned', name: 'Tuned', value: (i) => (table(i)?.tuned_us ? time(table(i)?.tuned_us) : ''),
        show: (i) => time(table(i)?.tuned_us)},
    ],
  };
}

export async function overviewView(ctx: Ctx, root: HTMLElement): Promise<void> {
  const device = h('div', {});
  const jobs = h('div', {});
  let latest = ctx.status;
  let drawn = '';
  const live = (status: Status) => {
    latest = status;
    // Redrawn when something changed only: a reader may be in the table.
    const seen = JSON.stringify([status.device, status.health, status.jobs, status.revision]);
    if (seen === drawn) return;
    drawn = seen;
    replace(device, deviceFacts(status));
    replace(jobs, dataTable(jobsData(status.device?.class, status.jobs), {
      caption: 'Jobs', hideCaption: true, empty: 'No job runs and none waits.',
    }));
  };
  live(ctx.status);
  ctx.onStatus(live);
  replace(root,
    panel({title: 'Device', modelled: ctx.status.device?.modelled}, device),
    panel({title: 'Jobs', data: () => jobsData(latest.device?.class, latest.jobs),
      note: 'Live, every 2 seconds while the page is in view.'}, jobs),
    ctx.cls && panel({
      title: `Problems on ${deviceName(ctx.cls.name)}`, modelled: ctx.cls.modelled,
      data: () => problemsData(ctx),
      note: `${count(ctx.cls.trials)} trials, ${count(ctx.cls.tables)} tables, sm_${ctx.cls.sm_arch}, ` +
        `${ctx.cls.sm_count} SMs.`,
    }, dataTable(problemsData(ctx), {
      caption: 'Problems', hideCaption: true,
      empty: 'Nothing has been tuned yet. Try: hone tune --n 8192 --k 8192 --b int4 --group 128',
    })));
}
