// The frame of every chart and table: a title, what the numbers are, badges,
// and the buttons that take the data away.
import type {TrialsAnswer} from './api';
import {download, h, replace, uniqueId, type Child} from './dom';
import {count} from './format';
import {csvButton, dataTable, fileName, saveCsv, type Data} from './table';
import {fontSans, palette} from './theme';

export function badge(kind: string, text: string, title?: string): HTMLElement {
  return h('span', {class: `badge ${kind}`, title}, text);
}

export const modelledBadge = (): HTMLElement =>
  badge('modelled', 'MODELLED', 'Times come from an analytic model, not from a GPU');

// What must be said of a table before its numbers are believed.
export function tableBadges(table: {origin: string; verified: boolean; stale: boolean} | null,
    modelled: boolean): HTMLElement[] {
  const badges: HTMLElement[] = [];
  if (modelled) badges.push(modelledBadge());
  if (!table) {
    badges.push(badge('plain', 'no table', 'Measured, but no table has been published'));
    return badges;
  }
  if (table.stale) {
    badges.push(badge('warn', 'stale', 'Made from other kernel sources than this honed has'));
  }
  if (table.origin === 'imported') {
    badges.push(table.verified ?
      badge('plain', 'imported', 'Imported, and verified on this device') :
      badge('warn', 'unverified', 'Imported; its winners have not beaten the default here yet'));
  }
  return badges;
}

// By which method the trials were made, and what is not among them.
export function scope(answer: TrialsAnswer): string {
  return `Protocol: ${answer.protocol}` +
    (answer.other_protocols ? `; ${count(answer.other_protocols)} trials of others are left out` : '') +
    (answer.older_trials ? `; ${count(answer.older_trials)} older trials are left out` : '') + '.';
}

export interface PanelParts {
  title: string;
  // One line on what is shown and how it was measured.
  note?: Child;
  modelled?: boolean;
  data?: () => Data;
  png?: () => HTMLCanvasElement;
  // For PNGs: the line under the title that says what was measured where.
  subject?: string | (() => string);
  // Whether to offer `data` as a table under the content.
  alternative?: boolean;
  tools?: Child;
}

export function panel(parts: PanelParts, ...content: Child[]): HTMLElement {
  const id = uniqueId('panel');
  const below = h('div', {class: 'alternative', id: `${id}-table`, hidden: true});
  let showing = false;
  const toggle = parts.alternative && parts.data ? h('button', {
    type: 'button', class: 'tool', 'aria-expanded': 'false', 'aria-controls': `${id}-table`,
    'aria-label': `${parts.title}: show as a table`,
    onclick: () => {
      showing = !showing;
      toggle!.setAttribute('aria-expanded', String(showing));
      below.hidden = !showing;
      replace(below, showing && dataTable(parts.data!(), {caption: `${parts.title}, as a table`}));
    },
  }, 'Table') : null;
  const png = parts.png ? h('button', {
    type: 'button', class: 'tool', 'aria-label': `${parts.title}: save as PNG`,
    onclick: () => savePng(parts),
  }, 'PNG') : null;
  const section = h('section', {class: 'panel', 'aria-labelledby': id},
    h('header', {},
      h('h2', {id}, parts.title), parts.modelled && modelledBadge(),
      h('div', {class: 'tools', role: 'group', 'aria-label': `${parts.title}: data`},
        parts.tools, toggle, parts.data && csvButton(parts.data, parts.title), png)),
    parts.note && h('p', {class: 'note'}, parts.note),
    content, below);
  // A view that redraws its data says so, and an open table follows.
  section.addEventListener('hone-data', () => {
    if (showing) {
      replace(below, dataTable(parts.data!(), {caption: `${parts.title}, as a table`}));
    }
  });
  return section;
}

// The chart under a heading that says what it is of: an image outlives its page.
function savePng(parts: PanelParts): void {
  const chart = parts.png!();
  const scale = 2;
  const pad = 12 * scale;
  const head = 46 * scale;
  const colours = palette();
  const canvas = document.createElement('canvas');
  canvas.width = chart.width + 2 * pad;
  canvas.height = chart.height + head + 2 * pad;
  const c = canvas.getContext('2d')!;
  c.fillStyle = colours.paper;
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.fillStyle = colours.ink;
  c.textBaseline = 'top';
  c.font = `600 ${15 * scale}px ${fontSans}`;
  c.fillText(`${parts.modelled ? 'MODELLED · ' : ''}${parts.title}`, pad, pad);
  c.fillStyle = colours.muted;
  c.font = `${11 * scale}px ${fontSans}`;
  const {subject} = parts;
  c.fillText((typeof subject === 'function' ? subject() : subject) ?? '', pad, pad + 22 * scale, canvas.width - 2 * pad);
  c.drawImage(chart, pad, head + pad);
  canvas.toBlob((blob) => {
    const name = parts.data?.().file ?? parts.title;
    if (blob) download(blob, `${fileName(name)}.png`);
  }, 'image/png');
}

export {saveCsv};
