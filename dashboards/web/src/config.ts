// A Tuning Config's canonical text (sorted key=value) as columns that line up.

export interface Config {
  text: string;
  engine: string;
  tile: string;
  warp: string;
  stages: string;
  split: string;
  cluster: string;
  loads: string;
  // Warp specialized, CTAs per SM, raster: what else tells configs apart.
  rest: string;
}

const shortProducer: Record<string, string> = {tma: 'tma', cp_async: 'cpa', ldg: 'ldg', none: '-'};

export function parseConfig(text: string): Config {
  const fields = new Map<string, string>();
  for (const part of text.split(',')) {
    const mark = part.indexOf('=');
    if (mark > 0) fields.set(part.slice(0, mark), part.slice(mark + 1));
  }
  const get = (key: string) => fields.get(key) ?? '?';
  const producers = ['producer_a', 'producer_b', 'producer_scale']
    .map((key) => shortProducer[get(key)] ?? get(key));
  const same = producers.every((one) => one === producers[0]);
  const split = get('split');
  const rest = [];
  if (get('warp_specialized') === '1') rest.push('ws');
  if (get('ctas_per_sm') !== '1') rest.push(`${get('ctas_per_sm')}cta`);
  if (get('mmas_in_flight') !== '1') rest.push(`f${get('mmas_in_flight')}`);
  rest.push(get('raster') === 'along_n' ? 'rn' : 'rm');
  return {
    text,
    engine: get('mma'),
    tile: `${get('block_m')}×${get('block_n')}×${get('block_k')}`,
    warp: `${get('warp_m')}×${get('warp_n')}×${get('warp_k')}`,
    stages: get('stages'),
    split: split === 'data_parallel' ? '-' : split === 'split_k' ? `k${get('split_k')}` :
      split === 'stream_k' ? 'strm' : split,
    cluster: `${get('cluster_m')}×${get('cluster_n')}`,
    loads: same ? producers[0] : producers.join('/'),
    rest: rest.join(' '),
  };
}

export function shortConfig(text: string): string {
  const c = parseConfig(text);
  return `${c.engine} ${c.tile} s${c.stages}` + (c.split === '-' ? '' : ` ${c.split}`) +
    (c.cluster === '1×1' ? '' : ` c${c.cluster}`) + ` ${c.loads} ${c.rest}`;
}
