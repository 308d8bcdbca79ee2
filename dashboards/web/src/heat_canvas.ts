// Draws config × M on a canvas. Only the rows in view are drawn, so the cost of
// a frame does not depend on how many configs there are.
import {parseConfig, type Config} from './config';
import {h, interaction} from './dom';
import {heatClass, outcomeLetters} from './heat_colours';
import {fontMono, palette, type Palette} from './theme';
import type {Grid} from './trials';

const rowHeight = 18;
const headHeight = 38;
const labelColumns: {name: string; chars: number; of: (c: Config) => string}[] = [
  {name: 'engine', chars: 9, of: (c) => c.engine},
  {name: 'tile m×n×k', chars: 12, of: (c) => c.tile},
  {name: 'st', chars: 3, of: (c) => c.stages},
  {name: 'splt', chars: 5, of: (c) => c.split},
  {name: 'clu', chars: 4, of: (c) => c.cluster},
  {name: 'load', chars: 5, of: (c) => c.loads},
  {name: 'more', chars: 14, of: (c) => c.rest},
];
const labelChars = labelColumns.reduce((sum, column) => sum + column.chars, 0);

export interface HeatEvents {
  // The cell under the pointer or the cursor; null: none.
  point: (row: number | null, col: number, keyboard: boolean) => void;
  open: (row: number, col: number) => void;
  sortByColumn: (col: number, event: Event) => void;
}

export class HeatCanvas {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas');
  private readonly spacer = h('div', {class: 'spacer'});
  private readonly hover = h('div', {class: 'cell-ring hover', hidden: true});
  private readonly cursor = h('div', {class: 'cell-ring cursor', hidden: true});
  private readonly configs: (Config | undefined)[];
  private readonly observer: ResizeObserver;
  private rows: Uint32Array = new Uint32Array(0);
  private cols: Int32Array = new Int32Array(0);
  // Of the cursor: which of `rows`, which of `cols`.
  private position = 0;
  private slot = 0;
  private pending = 0;

  constructor(private readonly grid: Grid, private readonly events: HeatEvents,
      label: string, private sortedCol: number) {
    this.configs = new Array(grid.rows);
    this.element = h('div', {
      class: 'heat', tabindex: 0, role: 'application', 'aria-roledescription': 'heat map',
      'aria-label': label, 'data-chart': 'heat',
    }, this.canvas, this.spacer, this.hover, this.cursor);
    this.element.addEventListener('scroll', () => {
      this.hover.hidden = true;
      this.drawSoon();
    });
    this.element.addEventListener('mousemove', (event) => this.onMove(event));
    this.element.addEventListener('mouseleave', () => this.leave());
    this.element.addEventListener('click', (event) => this.onClick(event));
    this.element.addEventListener('keydown', (event) => this.onKey(event));
    this.element.addEventListener('focus', () => this.place());
    this.element.addEventListener('blur', () => { this.cursor.hidden = true; });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  dispose(): void {
    this.observer.disconnect();
  }

  // Which configs and columns to show, in which order.
  show(rows: Uint32Array, cols: Int32Array, sortedCol: number): void {
    this.rows = rows;
    this.cols = cols;
    this.slot = Math.min(this.slot, Math.max(0, cols.length - 1));
    this.sortedCol = sortedCol;
    this.position = Math.min(this.position, Math.max(0, rows.length - 1));
    this.spacer.style.height = `${headHeight + rows.length * rowHeight}px`;
    this.element.style.height = `${Math.min(headHeight + Math.max(1, rows.length) * rowHeight + 2,
      Math.max(320, window.innerHeight - 350))}px`;
    this.hover.hidden = true;
    this.element.scrollTop = 0;
    this.draw();
  }

  select(row: number, col: number): void {
    const position = this.rows.indexOf(row);
    const slot = this.cols.indexOf(col);
    if (position < 0 || slot < 0) return;
    this.position = position;
    this.slot = slot;
    this.reveal();
    this.place();
  }

  private labelWidth(): number {
    return Math.round(labelChars * 6.65) + 10;
  }

  private cellWidth(): number {
    const room = this.element.clientWidth - this.labelWidth();
    return Math.min(64, Math.max(20, Math.floor(room / Math.max(1, this.cols.length))));
  }

  private drawSoon(): void {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw(): void {
    const width = Math.max(this.element.clientWidth,
      this.labelWidth() + this.cellWidth() * this.cols.length);
    const height = this.element.clientHeight;
    if (width === 0 || height === 0) return;
    this.spacer.style.width = `${width}px`;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) ||
        this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.paint(this.canvas.getContext('2d')!, scale, width, height, this.element.scrollTop);
    if (document.activeElement === this.element) this.place();
  }

  // All rows, at most `limit`, for the PNG.
  image(limit: number): HTMLCanvasElement {
    const scale = 2;
    const width = this.labelWidth() + this.cellWidth() * this.cols.length;
    const height = headHeight + Math.min(limit, this.rows.length) * rowHeight + 1;
    const canvas = h('canvas', {width: width * scale, height: height * scale});
    this.paint(canvas.getContext('2d')!, scale, width, height, 0);
    return canvas;
  }

  private paint(c: CanvasRenderingContext2D, scale: number, width: number, height: number,
      scroll: number): void {
    const colours = palette();
    const {grid} = this;
    const left = this.labelWidth();
    const cell = this.cellWidth();
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = colours.paper;
    c.fillRect(0, 0, width, height);
    const hatch = this.hatch(c, colours.muted);
    const first = Math.max(0, Math.floor(scroll / rowHeight));
    const last = Math.min(this.rows.length, first + Math.ceil((height - headHeight) / rowHeight) + 1);
    c.textBaseline = 'middle';
    c.save();
    c.beginPath();
    c.rect(0, headHeight, width, height - headHeight);
    c.clip();
    const each = (work: (row: number, col: number, x: number, y: number) => void) => {
      for (let position = first; position < last; position++) {
        const y = headHeight + position * rowHeight - scroll;
        for (let slot = 0; slot < this.cols.length; slot++) {
          work(this.rows[position], this.cols[slot], left + slot * cell, y);
        }
      }
    };
    c.font = `11px ${fontMono}`;
    c.fillStyle = colours.ink;
    c.textAlign = 'left';
    for (let position = first; position < last; position++) {
      this.paintLabel(c, this.rows[position], headHeight + position * rowHeight - scroll);
    }
    // One pass for each font: to set it costs more than to draw.
    c.textAlign = 'center';
    each((row, col, x, y) => this.paintFill(c, row, col, x, y, cell, hatch, colours));
    if (cell >= 28) {
      c.font = `10px ${fontMono}`;
      each((row, col, x, y) => {
        const ratio = grid.ratio[row * grid.cols + col];
        if (Number.isNaN(ratio)) return;
        c.fillStyle = heatClass(ratio).ink;
        c.fillText(ratio < 9.995 ? ratio.toFixed(2) : ratio < 99.5 ? ratio.toFixed(1) : '>99',
          x + (cell - 1) / 2, y + rowHeight / 2);
      });
    }
    c.font = `bold 11px ${fontMono}`;
    c.fillStyle = colours.ink;
    each((row, col, x, y) => {
      const at = row * grid.cols + col;
      if (grid.trial[at] < 0 || !Number.isNaN(grid.ratio[at])) return;
      const outcome = grid.trials.answer.outcomes[grid.trials.outcome[grid.trial[at]]];
      c.fillText(outcomeLetters[outcome] ?? '?', x + (cell - 1) / 2, y + rowHeight / 2);
    });
    // Winners last, so that no neighbour covers an outline.
    for (let position = first; position < last; position++) {
      const row = this.rows[position];
      for (let slot = 0; slot < this.cols.length; slot++) {
        if (grid.winner[this.cols[slot]] !== row) continue;
        const x = left + slot * cell;
        const y = headHeight + position * rowHeight - scroll;
        // Two rings, so that the outline shows on paper and on any cell.
        c.lineWidth = 2;
        c.strokeStyle = colours.ink;
        c.strokeRect(x, y, cell - 1, rowHeight - 1);
        c.lineWidth = 1;
        c.strokeStyle = colours.dark ? '#000000' : '#ffffff';
        c.strokeRect(x + 1.5, y + 1.5, cell - 4, rowHeight - 4);
      }
    }
    c.restore();
    this.paintHead(c, left, cell, width);
  }

  private paintLabel(c: CanvasRenderingContext2D, row: number, y: number): void {
    const config = this.configs[row] ??= parseConfig(this.grid.trials.answer.configs[row]);
    let chars = 0;
    for (const column of labelColumns) {
      const text = column.of(config);
      c.fillText(text.length < column.chars ? text : text.slice(0, column.chars - 2) + '…',
        4 + chars * 6.65, y + rowHeight / 2);
      chars += column.chars;
    }
  }

  // All of a cell but its text.
  private paintFill(c: CanvasRenderingContext2D, row: number, col: number, x: number, y: number,
      cell: number, hatch: CanvasPattern, colours: Palette): void {
    const {grid} = this;
    const at = row * grid.cols + col;
    const trial = grid.trial[at];
    if (trial < 0) return;
    const ratio = grid.ratio[at];
    const w = cell - 1;
    const height = rowHeight - 1;
    if (Number.isNaN(ratio)) {
      c.fillStyle = hatch;
      c.fillRect(x, y, w, height);
      c.fillStyle = colours.paper;
      c.fillRect(x + w / 2 - 6, y + 2, 12, height - 4);
      return;
    }
    const shade = heatClass(ratio);
    c.fillStyle = shade.fill;
    c.fillRect(x, y, w, height);
    if (grid.trials.outcome[trial] === grid.trials.screened) {
      // A screen's few samples: the corner is cut.
      c.beginPath();
      c.moveTo(x + w, y + height);
      c.lineTo(x + w - 6, y + height);
      c.lineTo(x + w, y + height - 6);
      c.fillStyle = colours.paper;
      c.fill();
    } else if (grid.tie[at] && grid.winner[col] !== row) {
      c.fillStyle = shade.ink;
      c.beginPath();
      c.arc(x + 4, y + 4, 2, 0, 2 * Math.PI);
      c.fill();
    }
  }

  private paintHead(c: CanvasRenderingContext2D, left: number, cell: number, width: number): void {
    const colours = palette();
    c.fillStyle = colours.paper;
    c.fillRect(0, 0, width, headHeight);
    c.fillStyle = colours.muted;
    c.font = `11px ${fontMono}`;
    c.textAlign = 'left';
    let chars = 0;
    for (const column of labelColumns) {
      c.fillText(column.name, 4 + chars * 6.65, headHeight - 11);
      chars += column.chars;
    }
    c.fillText('M →', left, 10);
    c.textAlign = 'center';
    for (let slot = 0; slot < this.cols.length; slot++) {
      const col = this.cols[slot];
      const x = left + slot * cell + (cell - 1) / 2;
      const sorted = col === this.sortedCol;
      c.fillStyle = sorted ? colours.accent : colours.ink;
      c.font = `${sorted ? 'bold ' : ''}${this.grid.ms[col] > 9999 && cell < 36 ? 9 : 11}px ${fontMono}`;
      // Neighbours of four digits would touch: every other one is raised.
      const raised = cell < 30 && slot % 2 === 1;
      c.fillText(String(this.grid.ms[col]), x, raised ? headHeight - 24 : headHeight - 11);
      if (sorted) c.fillText('▾', x, raised ? headHeight - 11 : headHeight - 25);
    }
    c.fillStyle = colours.line;
    c.fillRect(0, headHeight - 2, width, 1);
  }

  private hatch(c: CanvasRenderingContext2D, colour: string): CanvasPattern {
    const tile = h('canvas', {width: 6, height: 6});
    const t = tile.getContext('2d')!;
    t.strokeStyle = colour;
    t.lineWidth = 1;
    t.beginPath();
    for (const shift of [-6, 0, 6]) {
      t.moveTo(shift, 6);
      t.lineTo(shift + 6, 0);
    }
    t.stroke();
    return c.createPattern(tile, 'repeat')!;
  }

  // The cell at a pointer position; position -1 is the heading.
  private at(event: MouseEvent): {position: number; slot: number} | null {
    const bounds = this.element.getBoundingClientRect();
    const x = event.clientX - bounds.left + this.element.scrollLeft - this.labelWidth();
    const y = event.clientY - bounds.top;
    const slot = Math.floor(x / this.cellWidth());
    if (x < 0 || slot >= this.cols.length) return null;
    if (y < headHeight) return {position: -1, slot};
    const position = Math.floor((y - headHeight + this.element.scrollTop) / rowHeight);
    return position < this.rows.length ? {position, slot} : null;
  }

  private leave(): void {
    this.hover.hidden = true;
    this.events.point(null, 0, false);
  }

  private onMove(event: MouseEvent): void {
    interaction('heat.hover', event, () => {
      const cell = this.at(event);
      this.element.classList.toggle('link', cell !== null);
      if (!cell || cell.position < 0) return this.leave();
      this.ring(this.hover, cell.position, cell.slot);
      this.events.point(this.rows[cell.position], this.cols[cell.slot], false);
    });
  }

  private onClick(event: MouseEvent): void {
    const cell = this.at(event);
    if (!cell) return;
    if (cell.position < 0) {
      this.events.sortByColumn(this.cols[cell.slot], event);
    } else {
      interaction('heat.click', event, () => this.events.open(this.rows[cell.position], this.cols[cell.slot]));
    }
  }

  private onKey(event: KeyboardEvent): void {
    if (this.rows.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - headHeight) / rowHeight) - 1);
    const moves: Record<string, [number, number]> = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-page, 0], PageDown: [page, 0], Home: [-Infinity, 0], End: [Infinity, 0],
    };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      interaction('heat.key', event, () => {
        this.position = Math.max(0, Math.min(this.rows.length - 1, this.position + move[0]));
        this.slot = Math.max(0, Math.min(this.cols.length - 1, this.slot + move[1]));
        this.reveal();
        this.place();
        this.events.point(this.rows[this.position], this.cols[this.slot], true);
      });
    } else if (event.key === 'Enter') {
      event.preventDefault();
      this.events.open(this.rows[this.position], this.cols[this.slot]);
    } else if (event.key === 's') {
      this.events.sortByColumn(this.cols[this.slot], event);
    }
  }

  private reveal(): void {
    const top = this.position * rowHeight;
    const room = this.element.clientHeight - headHeight - rowHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + room) this.element.scrollTop = top - room;
    const x = this.labelWidth() + this.slot * this.cellWidth();
    const right = this.element.scrollLeft + this.element.clientWidth - this.cellWidth();
    if (x > right) this.element.scrollLeft += x - right;
    else if (x < this.element.scrollLeft + this.labelWidth()) this.element.scrollLeft = 0;
  }

  private place(): void {
    if (this.rows.length > 0) this.ring(this.cursor, this.position, this.slot);
  }

  private ring(ring: HTMLElement, position: number, slot: number): void {
    const y = headHeight + position * rowHeight;
    ring.hidden = y < this.element.scrollTop + headHeight;
    ring.style.width = `${this.cellWidth() - 1}px`;
    ring.style.height = `${rowHeight - 1}px`;
    ring.style.transform = `translate(${this.labelWidth() + slot * this.cellWidth()}px, ${y}px)`;
  }
}
