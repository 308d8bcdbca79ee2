// Named values in aligned columns.
import {h, type Child} from './dom';

export function facts(list: [string, Child][], title?: string): HTMLElement {
  return h('dl', {class: 'facts', 'aria-label': title},
    list.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}
