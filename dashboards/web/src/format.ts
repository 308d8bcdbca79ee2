// Numbers as people read them. Kernel times are microseconds with three
// decimals everywhere: nanoseconds stay visible and columns line up.

const none = '–';

// Made once each: toLocaleString makes one for every number.
const formats = Array.from({length: 10}, (_, decimals) => new Intl.NumberFormat('en-US', {
  minimumFractionDigits: decimals, maximumFractionDigits: decimals,
}));

function grouped(value: number, decimals: number): string {
  return formats[decimals].format(value);
}

export function known(value: number | null | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

export function us(ns: number | null | undefined): string {
  return known(ns) ? grouped(ns / 1000, 3) : none;
}

export function usUnit(ns: number | null | undefined): string {
  return known(ns) ? `${us(ns)} µs` : none;
}

export function interval(low: number | null | undefined, high: number | null | undefined): string {
  return known(low) && known(high) && high > 0 ? `${us(low)} to ${us(high)}` : none;
}

// The same with its unit; few samples give no interval.
export function intervalUnit(low: number | null | undefined, high: number | null | undefined): string {
  const text = interval(low, high);
  return text === none ? 'no interval' : `${text} µs`;
}

export function count(value: number | null | undefined): string {
  return known(value) ? grouped(value, 0) : none;
}

export function fixed(value: number | null | undefined, decimals: number): string {
  return known(value) ? grouped(value, decimals) : none;
}

export function ratio(value: number | null | undefined): string {
  return known(value) ? `${fixed(value, 3)}×` : none;
}

export function percent(fraction: number | null | undefined, decimals = 1): string {
  return known(fraction) ? `${fixed(fraction * 100, decimals)} %` : none;
}

export function bytes(value: number | null | undefined): string {
  if (!known(value)) return none;
  if (value >= 1 << 30) return `${fixed(value / 2 ** 30, 1)} GiB`;
  if (value >= 1 << 20) return `${fixed(value / 2 ** 20, 1)} MiB`;
  if (value >= 1 << 10) return `${fixed(value / 2 ** 10, 1)} KiB`;
  return `${value} B`;
}

export function seconds(ns: number | null | undefined): string {
  if (!known(ns)) return none;
  const whole = Math.round(ns / 1e9);
  if (whole < 60) return `${fixed(ns / 1e9, 1)} s`;
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  const two = (value: number) => String(value).padStart(2, '0');
  return hours > 0 ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(whole % 60)} s`;
}

// UTC, since the machines of a fleet are read side by side.
export function time(unixUs: number | null | undefined): string {
  if (!known(unixUs) || unixUs <= 0) return none;
  return new Date(unixUs / 1000).toISOString().slice(0, 19).replace('T', ' ') + 'Z';
}

export function short(hash: string | null | undefined): string {
  return hash ? hash.slice(0, 12) : none;
}

export function words(name: string): string {
  return name.replaceAll('_', ' ');
}

export function geoMean(values: ArrayLike<number>): number | null {
  if (values.length === 0) return null;
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += Math.log(values[i]);
  return Math.exp(sum / values.length);
}

// Names of modelled devices say so; where a badge does, once is enough.
export function deviceName(name: string): string {
  return name.replace(/ \(MODELLED\)$/, '');
}
