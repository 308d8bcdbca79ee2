// ECharts, with only what the views use, and the two things it lacks: every
// point can be reached with the keyboard, and a pointer finds the nearest of
// 100,000 points without one object per point.
import {BarChart, CustomChart, LineChart, ScatterChart} from 'echarts/charts';
import {GridComponent, MarkAreaComponent, MarkLineComponent} from 'echarts/components';
import * as echarts from 'echarts/core';
import {CanvasRenderer} from 'echarts/renderers';
import {h, interaction, replace} from './dom';
import {panel, type PanelParts} from './panel';
import {fontSans, onTheme, palette, type Palette} from './theme';

echarts.use([
  BarChart, CustomChart, LineChart, ScatterChart, GridComponent, MarkAreaComponent,
  MarkLineComponent, CanvasRenderer,
]);

// What the pointer and the arrow keys can reach.
export interface Stops {
  count: number;
  x: (i: number) => number;
  y: (i: number) => number;
  // The grid of the point, where a chart has several.
  grid?: (i: number) => number;
  text: (i: number) => string[];
  href?: (i: number) => string | null;
  hidden?: (i: number) => boolean;
}

export interface LegendItem {
  name: string;
  // A mark of the legend: the class names of app.css.
  mark: string;
  // Series of this name are switched by the item; without, it explains only.
  series?: string;
  title?: string;
}

export interface ChartParts extends PanelParts {
  name: string;
  describe: string;
  height: number;
  option: (colours: Palette, hidden: ReadonlySet<string>) => Record<string, unknown>;
  stops: Stops;
  legend?: LegendItem[];
  // Series that are not shown at first.
  hiddenAtFirst?: string[];
  onLegend?: (hidden: string[]) => void;
  signal: AbortSignal;
}

// Error bars: data rows are [x, low, high].
export function errorBars(name: string, data: number[][], colour: string, gridIndex = 0,
    half = 3): Record<string, unknown> {
  return {
    name, type: 'custom', data, silent: true, z: 1, xAxisIndex: gridIndex, yAxisIndex: gridIndex,
    encode: {x: 0, y: [1, 2]},
    renderItem: (_: unknown, api: any) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]);
      const [, high] = api.coord([api.value(0), api.value(2)]);
      const line = (x1: number, y1: number, x2: number, y2: number) => ({
        type: 'line', shape: {x1, y1, x2, y2}, style: {stroke: colour, lineWidth: 1.25},
      });
      return {
        type: 'group',
        children: [line(x, low, x, high), line(x - half, low, x + half, low),
          line(x - half, high, x + half, high)],
      };
    },
  };
}

export function axis(colours: Palette, name: string, extra: Record<string, unknown> = {}):
    Record<string, unknown> {
  return {
    name, nameLocation: 'middle', nameGap: 30, nameTextStyle: {color: colours.muted, fontSize: 12},
    axisLine: {show: true, onZero: false, lineStyle: {color: colours.line}},
    axisTick: {lineStyle: {color: colours.line}},
    splitLine: {show: true, lineStyle: {color: colours.grid}},
    ...extra,
    axisLabel: {color: colours.muted, fontSize: 11, hideOverlap: true,
      ...(extra.type === 'value' ? {formatter: plain} : {}), ...extra.axisLabel as Record<string, unknown>},
  };
}

// Without the digits that binary fractions drag along.
function plain(value: number): string {
  return Number(value.toPrecision(10)).toLocaleString('en-US', {maximumFractionDigits: 6});
}

// A logarithmic axis: plot log10 of the values. Ticks at 1, 2, 5, 10, …, or at
// the powers of ten where those would crowd.
export function log10Axis(colours: Palette, name: string, low: number, high: number,
    extra: Record<string, unknown> = {}): Record<string, unknown> {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const steps = to - from > 2.5 ? [1] : [1, 2, 5];
  const ticks: number[] = [];
  for (let power = Math.floor(from); power <= Math.ceil(to); power++) {
    for (const step of steps) {
      const at = power + Math.log10(step);
      if (at >= from - 1e-9 && at <= to + 1e-9) ticks.push(at);
    }
  }
  return axis(colours, name, {
    type: 'value', min: from, max: to, ...extra,
    axisTick: {lineStyle: {color: colours.line}, customValues: ticks},
    axisLabel: {customValues: ticks, formatter: (at: number) =>
      Number((10 ** at).toPrecision(3)).toLocaleString('en-US')},
  });
}

// An axis over M, for log2 of it: powers of two, as tiles are.
export function axisOfM(colours: Palette, ms: number[]): Record<string, unknown> {
  return axis(colours, 'M (tokens)', {
    type: 'value', min: Math.floor(Math.log2(Math.min(...ms))) - 0.25,
    max: Math.log2(Math.max(...ms)) + 0.25, splitLine: {show: false},
    axisTick: {lineStyle: {color: colours.line}, customValues: powers},
    axisLabel: {customValues: powers, formatter: (at: number) => String(2 ** at)},
  });
}
const powers = Array.from({length: 24}, (_, i) => i);

type AxisMap = (value: number) => number;

// An axis as a function from values to pixels: asking ECharts for each of
// 100,000 points would take too long.
function axisMap(instance: echarts.ECharts, name: 'xAxis' | 'yAxis', index: number): AxisMap {
  const at = (value: number) => instance.convertToPixel({[`${name}Index`]: index}, value);
  const [first, second] = [at(0), at(1)];
  return (value) => first + (second - first) * value;
}

export function chart(parts: ChartParts): HTMLElement {
  const hidden = new Set(parts.hiddenAtFirst ?? []);
  const canvas = h('div', {class: 'canvas'});
  const ring = h('div', {class: 'ring', hidden: true});
  const tip = h('div', {class: 'tip', hidden: true});
  const live = h('div', {class: 'hidden', 'aria-live': 'polite'});
  const box = h('div', {
    class: 'chart', tabindex: 0, role: 'application', 'aria-roledescription': 'chart',
    'aria-label': `${parts.title}${parts.modelled ? ' (MODELLED)' : ''}. ${parts.describe} ` +
      'Arrow keys step through the points, Enter opens one; the table button shows all.',
    'data-chart': parts.name,
  }, canvas, ring, tip);
  box.style.height = `${parts.height}px`;

  let instance: echarts.ECharts | null = null;
  // Pixel positions of the stops, for the pointer; made when first needed.
  let pixels: Float32Array | null = null;
  let at = -1;

  const option = () => {
    const colours = palette();
    const full = parts.option(colours, hidden) as
      {series: {name?: string; type: string; itemStyle?: Record<string, unknown>;
        markLine?: Record<string, unknown>}[]};
    full.series = full.series.filter((one) => !one.name || !hidden.has(one.name));
    for (const one of full.series) {
      // ECharts would draw a line at 3.947 at 3.95.
      if (one.markLine) one.markLine.precision = 15;
      if (one.type === 'scatter') one.itemStyle = {opacity: 1, ...one.itemStyle};
    }
    return {
      animation: false, backgroundColor: 'transparent',
      textStyle: {fontFamily: fontSans, color: colours.ink}, ...full,
    };
  };
  const draw = () => {
    if (!instance) return;
    instance.setOption(option(), {notMerge: true, lazyUpdate: false});
    pixels = null;
    hide();
  };
  const locate = (): Float32Array => {
    if (pixels) return pixels;
    const {stops} = parts;
    pixels = new Float32Array(stops.count * 2).fill(NaN);
    const maps = new Map<number, [AxisMap, AxisMap]>();
    for (let i = 0; i < stops.count; i++) {
      if (stops.hidden?.(i)) continue;
      const grid = stops.grid?.(i) ?? 0;
      let map = maps.get(grid);
      if (!map) {
        map = [axisMap(instance!, 'xAxis', grid), axisMap(instance!, 'yAxis', grid)];
        maps.set(grid, map);
      }
      pixels[2 * i] = map[0](stops.x(i));
      pixels[2 * i + 1] = map[1](stops.y(i));
    }
    return pixels;
  };
  const hide = () => {
    at = -1;
    ring.hidden = tip.hidden = true;
    box.classList.remove('link');
  };
  const show = (i: number, speak: boolean) => {
    at = i;
    const [x, y] = locate().subarray(2 * i, 2 * i + 2);
    ring.hidden = tip.hidden = false;
    ring.style.transform = `translate(${x}px, ${y}px)`;
    const lines = parts.stops.text(i);
    replace(tip, lines.map((line, n) => h(n === 0 ? 'strong' : 'div', {}, line)));
    const width = box.clientWidth;
    const tipWidth = tip.offsetWidth;
    const tipHeight = tip.offsetHeight;
    const left = x + 14 + tipWidth > width ? Math.max(0, x - 14 - tipWidth) : x + 14;
    const top = Math.max(0, Math.min(y - tipHeight / 2, box.clientHeight - tipHeight));
    tip.style.transform = `translate(${left}px, ${top}px)`;
    box.classList.toggle('link', !!parts.stops.href?.(i));
    if (speak) live.textContent = lines.join(', ');
  };
  const nearest = (x: number, y: number): number => {
    const places = locate();
    let best = -1;
    let bestDistance = 30 * 30;
    for (let i = 0; i < parts.stops.count; i++) {
      const dx = places[2 * i] - x;
      const dy = places[2 * i + 1] - y;
      const distance = dx * dx + dy * dy;
      if (distance < bestDistance) {
        best = i;
        bestDistance = distance;
      }
    }
    return best;
  };
  const under = (event: MouseEvent): number => {
    const bounds = box.getBoundingClientRect();
    return instance ? nearest(event.clientX - bounds.left, event.clientY - bounds.top) : -1;
  };
  const step = (by: number) => {
    const {count, hidden: gone} = parts.stops;
    let i = at;
    for (let n = 0; n < count; n++) {
      i = i < 0 ? (by > 0 ? 0 : count - 1) : (i + by + count) % count;
      if (!gone?.(i) && !Number.isNaN(locate()[2 * i])) return show(i, true);
    }
  };
  const open = (i: number) => {
    const target = i >= 0 ? parts.stops.href?.(i) : null;
    if (target) location.hash = target;
  };
  box.addEventListener('mousemove', (event) => interaction('chart.hover', event, () => {
    const i = under(event);
    if (i < 0) hide();
    else if (i !== at) show(i, false);
  }));
  box.addEventListener('mouseleave', hide);
  box.addEventListener('click', (event) => open(under(event)));
  box.addEventListener('blur', hide);
  box.addEventListener('keydown', (event) => {
    if (!instance) return;
    const leap = Math.max(1, Math.floor(parts.stops.count / 20));
    const steps: Record<string, number> = {
      ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: leap, PageUp: -leap,
    };
    if (event.key in steps) step(steps[event.key]);
    else if (event.key === 'Home' || event.key === 'End') {
      at = -1;
      step(event.key === 'Home' ? 1 : -1);
    } else if (event.key === 'Enter') open(at);
    else if (event.key === 'Escape') hide();
    else return;
    event.preventDefault();
  });

  const items = (parts.legend ?? []).map((item) => {
    const inside = [h('span', {class: `mark ${item.mark}`, 'aria-hidden': 'true'}), item.name];
    if (!item.series) return h('span', {class: 'item', title: item.title}, inside);
    const button = h('button', {
      type: 'button', class: 'item', title: item.title,
      'aria-pressed': String(!hidden.has(item.series)),
      onclick: (event: Event) => interaction('chart.legend', event, () => {
        const series = item.series!;
        if (!hidden.delete(series)) hidden.add(series);
        button.setAttribute('aria-pressed', String(!hidden.has(series)));
        parts.onLegend?.([...hidden]);
        draw();
        section.dispatchEvent(new CustomEvent('hone-data'));
      }),
    }, inside);
    return button;
  });
  const section = panel({
    ...parts, alternative: true,
    png: () => instance!.renderToCanvas({pixelRatio: 2, backgroundColor: palette().paper}),
  }, items.length > 0 && h('div', {class: 'legend'}, items), box, live);

  const observer = new ResizeObserver(() => {
    if (canvas.clientWidth === 0) return;
    if (!instance) {
      instance = echarts.init(canvas, null, {renderer: 'canvas'});
      draw();
    } else {
      instance.resize();
      pixels = null;
      hide();
    }
  });
  observer.observe(canvas);
  onTheme(draw, parts.signal);
  parts.signal.addEventListener('abort', () => {
    observer.disconnect();
    instance?.dispose();
  });
  return section;
}
