// Tables of numbers: sortable, paged, and the source of every CSV. A chart's
// data table holds exactly what the chart draws.
import {download, h, interaction, replace, type Child} from './dom';
import {count} from './format';
import {sortByKey} from './sort';

export type Cell = string | number | boolean | null | undefined;

export interface Column {
  // The name in the CSV, with its unit: "median_ns".
  key: string;
  // The heading people see.
  name: string;
  value: (row: number) => Cell;
  // What rows are sorted by, unless by the value.
  order?: (row: number) => Cell;
  // What people see of the value; the value itself unless given.
  show?: (row: number) => Child;
  // A longer explanation of the heading.
  title?: string;
  // The cell is a heading of its row.
  head?: boolean;
  // Long text: may break into lines.
  wrap?: boolean;
  // In the CSV only: the table has no room for it.
  csvOnly?: boolean;
  // Numbers, even if the first rows have none.
  number?: boolean;
}

export interface Data {
  // Names the file: "hone-roofline-8192x8192".
  file: string;
  rows: number;
  columns: Column[];
}

function csvCell(value: Cell): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  let text = String(value);
  // A spreadsheet must not take text for a formula.
  if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(data: Data): string {
  const lines = [data.columns.map((column) => csvCell(column.key)).join(',')];
  for (let row = 0; row < data.rows; row++) {
    lines.push(data.columns.map((column) => csvCell(column.value(row))).join(','));
  }
  return lines.join('\n') + '\n';
}

export function fileName(text: string): string {
  return text.replaceAll('×', 'x').replace(/[^A-Za-z0-9._-]+/g, '-').replace(/-+/g, '-')
      .replace(/^-|-$/g, '');
}

export function saveCsv(data: Data): void {
  download(new Blob([csv(data)], {type: 'text/csv;charset=utf-8'}), `${fileName(data.file)}.csv`);
}

export function csvButton(data: () => Data, what: string): HTMLButtonElement {
  return h('button', {
    type: 'button', class: 'tool', 'aria-label': `${what}: save as CSV`,
    onclick: () => saveCsv(data()),
  }, 'CSV');
}

// Numbers that order the rows as the column's values do; NaN where there is no
// value. Equal strings are compared once: there are few distinct ones.
function sortKeys(column: Column, rows: number): Float64Array {
  const keys = new Float64Array(rows);
  const texts: string[] = [];
  const numberOf = new Map<string, number>();
  const textOf = new Int32Array(rows).fill(-1);
  const value = column.order ?? column.value;
  for (let row = 0; row < rows; row++) {
    const cell = value(row);
    if (typeof cell === 'number') {
      keys[row] = cell;
    } else if (cell === null || cell === undefined || cell === '') {
      keys[row] = NaN;
    } else {
      const text = String(cell);
      let number = numberOf.get(text);
      if (number === undefined) {
        number = texts.push(text) - 1;
        numberOf.set(text, number);
      }
      textOf[row] = number;
    }
  }
  if (texts.length > 0) {
    const rank = new Float64Array(texts.length);
    [...texts.keys()].sort((a, b) => (texts[a] < texts[b] ? -1 : 1))
      .forEach((number, at) => { rank[number] = at; });
    for (let row = 0; row < rows; row++) if (textOf[row] >= 0) keys[row] = rank[textOf[row]];
  }
  return keys;
}

export interface TableOptions {
  caption: string;
  // The caption is for screen readers only, where a heading already says it.
  hideCaption?: boolean;
  pageSize?: number;
  sort?: {key: string; descending: boolean};
  onSort?: (key: string, descending: boolean) => void;
  empty?: string;
}

export function dataTable(data: Data, options: TableOptions): HTMLElement {
  const pageSize = options.pageSize ?? 50;
  const order = new Uint32Array(data.rows).map((_, i) => i);
  let sortKey = options.sort?.key ?? '';
  let descending = options.sort?.descending ?? false;
  let page = 0;

  const columns = data.columns.filter((column) => !column.csvOnly);
  const numeric = columns.map((column) => {
    if (column.number) return true;
    for (let row = 0; row < Math.min(data.rows, 50); row++) {
      const value = column.value(row);
      if (value !== null && value !== undefined) return typeof value === 'number';
    }
    return false;
  });

  const sort = () => {
    const column = columns.find((one) => one.key === sortKey);
    if (!column) return;
    const keys = sortKeys(column, data.rows);
    // Rows without a value come last in both directions.
    for (let row = 0; row < data.rows; row++) {
      keys[row] = Number.isNaN(keys[row]) ? Infinity : descending ? -keys[row] : keys[row];
    }
    order.sort();
    sortByKey(order, keys);
  };

  const body = h('tbody');
  const headings = columns.map((column, index) => {
    const button = h('button', {
      type: 'button', class: 'sort', title: column.title,
      onclick: (event: Event) => interaction('table.sort', event, () => {
        descending = sortKey === column.key ? !descending : numeric[index];
        sortKey = column.key;
        page = 0;
        sort();
        draw();
        options.onSort?.(sortKey, descending);
      }),
    }, column.name);
    return h('th', {scope: 'col', class: numeric[index] ? 'num' : ''}, button);
  });
  const where = h('span', {class: 'where', 'aria-live': 'polite'});
  const turn = (by: number) => (event: Event) => interaction('table.page', event, () => {
    page += by;
    draw();
  });
  const back = h('button', {type: 'button', class: 'tool', onclick: turn(-1)}, 'Previous');
  const forward = h('button', {type: 'button', class: 'tool', onclick: turn(1)}, 'Next');

  const draw = () => {
    const first = page * pageSize;
    const last = Math.min(data.rows, first + pageSize);
    const rows: Node[] = [];
    for (let i = first; i < last; i++) {
      const row = order[i];
      rows.push(h('tr', {},
        columns.map((column, index) => {
          const shown = column.show ? column.show(row) : String(column.value(row) ?? '–');
          const props = {class: numeric[index] ? 'num' : column.wrap ? 'wrap' : null};
          return column.head ? h('th', {...props, scope: 'row'}, shown) : h('td', props, shown);
        })));
    }
    if (data.rows === 0) {
      rows.push(h('tr', {}, h('td', {colspan: columns.length, class: 'empty'},
        options.empty ?? 'None.')));
    }
    replace(body, rows);
    headings.forEach((heading, index) => {
      if (columns[index].key === sortKey) {
        heading.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      } else {
        heading.removeAttribute('aria-sort');
      }
    });
    where.textContent = `Rows ${count(first + 1)} to ${count(last)} of ${count(data.rows)}`;
    back.disabled = page === 0;
    forward.disabled = last >= data.rows;
  };
  if (sortKey) sort();
  draw();
  return h('div', {class: 'table'},
    h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': options.caption},
      h('table', {},
        h('caption', {class: options.hideCaption ? 'hidden' : null}, options.caption),
        h('thead', {}, h('tr', {}, headings)), body)),
    data.rows > pageSize ? h('div', {class: 'pager'}, back, forward, where) : null);
}
