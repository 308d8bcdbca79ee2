// The jobs of honed as a table: in the overview and beside the sessions.
import type {Job} from './api';
import {h, type Child} from './dom';
import {count, seconds, usUnit} from './format';
import {badge} from './panel';
import {href} from './route';
import type {Data} from './table';

function progress(job: Job): Child {
  if (job.total === null || job.total <= 0) return '–';
  return [h('progress', {
    max: job.total, value: job.done ?? 0, 'aria-label': `${job.label}: progress`,
  }), ` ${count(job.done)} / ${count(job.total)}`];
}

export function jobsData(deviceClass: string | undefined, jobs: Job[]): Data {
  const job = (i: number) => jobs[i];
  return {
    file: 'hone-jobs', rows: jobs.length,
    columns: [
      {key: 'label', name: 'Problem', head: true, value: (i) => job(i).label,
        show: (i) => h('a', {
          href: href('heat', {class: deviceClass, problem: job(i).problem}),
          title: job(i).problem_text,
        }, job(i).label)},
      {key: 'kind', name: 'Kind', value: (i) => job(i).kind},
      {key: 'state', name: 'State', value: (i) => job(i).state,
        show: (i) => badge(job(i).state === 'failed' ? 'bad' : job(i).state === 'running' ? 'ok' :
          'plain', job(i).state, job(i).error ?? '')},
      {key: 'phase', name: 'Phase', value: (i) => job(i).phase, show: (i) =>
        `${job(i).phase}${job(i).m && job(i).state === 'running' ? `, M ${job(i).m}` : ''}`},
      {key: 'done', number: true, name: 'Progress', value: (i) => job(i).done, show: (i) => progress(job(i))},
      {key: 'elapsed_ns', number: true, name: 'Elapsed', value: (i) => job(i).elapsed_ns,
        show: (i) => seconds(job(i).elapsed_ns)},
      {key: 'eta_ns', number: true, name: 'Left', value: (i) => job(i).eta_ns,
        show: (i) => (job(i).state === 'running' ? seconds(job(i).eta_ns) : '–')},
      {key: 'trials', name: 'Trials', value: (i) => job(i).trials, show: (i) => count(job(i).trials)},
      {key: 'failed', name: 'Failed', value: (i) => job(i).failed, show: (i) => count(job(i).failed)},
      {key: 'm', name: 'At M', csvOnly: true, value: (i) => job(i).m},
      {key: 'best_ns', number: true, name: 'Best', value: (i) => job(i).best_ns,
        show: (i) => (job(i).best_ns ? usUnit(job(i).best_ns) : '–')},
      {key: 'default_ns', number: true, name: 'Default', value: (i) => job(i).default_ns,
        show: (i) => (job(i).default_ns ? usUnit(job(i).default_ns) : '–')},
      {key: 'error', name: 'Error', wrap: true, value: (i) => job(i).error ?? ''},
    ],
  };
}
