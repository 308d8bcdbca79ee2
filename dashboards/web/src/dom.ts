// Elements without markup: text stays text, and nothing needs inline script or
// style, which the page's content security policy forbids.

export type Child = Node | string | number | null | undefined | false | Child[];
type Listener = (event: any) => void;
export type Props = Record<string, string | number | boolean | null | undefined | Listener>;

function append(parent: Node, child: Child): void {
  if (Array.isArray(child)) {
    for (const one of child) append(parent, one);
  } else if (child instanceof Node) {
    parent.appendChild(child);
  } else if (child !== null && child !== undefined && child !== false) {
    parent.appendChild(document.createTextNode(String(child)));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, children);
  return element;
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

let nextId = 0;
export function uniqueId(prefix: string): string {
  return `${prefix}-${++nextId}`;
}

// A control with its label.
export function field(name: string, control: HTMLElement): HTMLElement {
  control.id ||= uniqueId('field');
  return h('span', {class: 'field'}, h('label', {for: control.id}, name), control);
}

// Saves `blob` as `name` on the reader's machine.
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = h('a', {href: url, download: name});
  document.body.appendChild(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Runs an interaction and records, as a User Timing measure, how long it took
// from the input to the frame that shows its effect. Old measures are dropped:
// a page may be open for weeks.
let interactions = 0;
export function interaction(name: string, event: Event | null, work: () => void): void {
  const start = event && event.timeStamp > 0 ? event.timeStamp : performance.now();
  work();
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      if (++interactions % 1000 === 0) performance.clearMeasures();
      performance.measure(`hone:${name}`, {start, end: performance.now()});
    };
    channel.port2.postMessage(null);
  });
}
