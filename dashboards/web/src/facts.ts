// Named values in aligned columns.
import {h, type Child} from './dom';

export function facts(list: [string, Child][], title: string, dense = false):
    HTMLElement {
  return h('dl', {class: dense ? 'facts dense' : 'facts', 'aria-label': title},
    list.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}
