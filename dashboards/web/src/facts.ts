// Named values in aligned columns.
import type {Health} from './api';
import {h, type Child} from './dom';
import {count, known} from './format';

export function facts(list: [string, Child][], title: string, dense = false):
    HTMLElement {
  return h('dl', {class: dense ? 'facts dense' : 'facts', 'aria-label': title},
    list.map(([name, value]) => {
      const shown = h('dd', {}, value);
      // Long values take the room of two.
      return h('div', {class: shown.textContent!.length > 28 ? 'long' : null}, h('dt', {}, name), shown);
    }));
}

// The counters of a device's health that this honed keeps.
export function healthCounts(health: Health): [string, Child][] {
  const list: [string, Child][] = [];
  if (known(health.workers_lost)) list.push(['workers lost', count(health.workers_lost)]);
  if (known(health.sentinel_failures)) {
    list.push(['sentinel failures', count(health.sentinel_failures)]);
  }
  return list;
}
