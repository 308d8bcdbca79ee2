// The answers of honed's read-only API, and how they are fetched. Times are in
// nanoseconds (_ns) or microseconds since 1970 (_us); null is "not known".

export type Id = string | number;

export interface Device {
  class: string;
  name: string;
  uuid: string;
  modelled: boolean;
  driver: string;
  vbios: string;
  power_limit_w: number | null;
  sm_count: number | null;
  l2_bytes: number | null;
  memory_bytes: number | null;
  memory_gbps: number | null;
  peak_tflops: number | null;
  mma_sync_tflops: number | null;
  max_clock_mhz: number | null;
  ecc: boolean | null;
}

export interface Job {
  id: string;
  kind: string;
  problem: string;
  problem_text: string;
  label: string;
  state: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';
  phase: string;
  done: number | null;
  total: number | null;
  elapsed_ns: number | null;
  eta_ns: number | null;
  trials: number | null;
  failed: number | null;
  m: number | null;
  best_config: string | null;
  best_ns: number | null;
  default_ns: number | null;
  error: string | null;
  submitted_us: number | null;
}

export interface Health {
  state: string;
  detail?: string;
  workers_lost?: number | null;
  sentinel_failures?: number | null;
}

export interface Status {
  version: string;
  source_closure: string;
  revision: number | null;
  now_us: number;
  unavailable: string | null;
  device: Device | null;
  health: Health;
  jobs: Job[];
}

export interface DeviceClass {
  class: string;
  name: string;
  modelled: boolean;
  sm_arch: number;
  sm_count: number;
  devices: {uuid: string; driver: string; vbios: string; power_limit_w: number | null}[];
  trials: number;
  tables: number;
}

export interface TableSummary {
  revision: number;
  origin: string;
  verified: boolean;
  stale: boolean;
  gate: string;
  kernels: number;
  tuned_us: number | null;
  geo_mean_speedup: number | null;
}

export interface Problem {
  problem: string;
  text: string;
  label: string;
  n: number;
  k: number;
  a: string;
  b: string;
  scale: string;
  group: number;
  trials: number;
  measured_m: number[];
  table: TableSummary | null;
}

export interface Evidence {
  m: number;
  samples: number;
  median_ns: number;
  low_ns: number | null;
  high_ns: number | null;
  default_median_ns: number | null;
  margin: number | null;
  floor_ns: number | null;
  ties: string[];
}

export interface Entry {
  m_lo: number;
  m_hi: number;
  config: string;
  kernel_id: string;
  registers: number | null;
  spill_bytes: number | null;
  smem_bytes: number | null;
  compile_ms: number | null;
  nvrtc: string;
  evidence: Evidence[];
}

export interface TradeOff {
  kernels: number;
  worst_regret: number | null;
  mean_regret: number | null;
  compile_ms: number | null;
  proven: boolean;
}

export interface Table {
  problem: string;
  text: string;
  label: string;
  class: string;
  device: Device;
  modelled: boolean;
  revision: number;
  origin: string;
  verified: boolean;
  stale: boolean;
  gate: string;
  protocol: string;
  source_closure: string;
  tuned_us: number | null;
  ladder: number[];
  entries: Entry[];
  trade_off: TradeOff[];
}

export interface TrialsAnswer {
  problem: string;
  class: string;
  protocol: string;
  // Trials by other protocols, which are not compared with these.
  other_protocols?: number;
  // Trials that are older than those that one answer holds.
  older_trials?: number;
  modelled: boolean;
  configs: string[];
  outcomes: string[];
  sessions: string[];
  trials: {
    id: Id[];
    config: number[];
    m: number[];
    outcome: number[];
    median_ns: (number | null)[];
    low_ns: (number | null)[];
    high_ns: (number | null)[];
    samples: number[];
    session: number[];
    unix_us: number[];
    clock_mhz: (number | null)[];
  };
  points: {
    m: number;
    bytes: number;
    operations: number;
    bytes_floor_ns: number | null;
    mma_floor_ns: number | null;
  }[];
  best: {m: number; config: number | null; from: string}[];
}

export interface Trial {
  id: Id;
  problem: string;
  text: string;
  label: string;
  class: string;
  m: number;
  config: string;
  outcome: string;
  detail: string;
  gate: string;
  relative_norm: number | null;
  worst_ratio: number | null;
  median_ns: number | null;
  low_ns?: number | null;
  high_ns?: number | null;
  session: string;
  unix_us: number;
  device: Device;
  protocol: string;
  compile: {
    cubin_hash: string;
    kernel_id: string;
    nvrtc: string;
    registers: number | null;
    spill_bytes: number | null;
    stack_bytes: number | null;
    smem_bytes: number | null;
    compile_ms: number | null;
  };
  samples: [number, number, number][];
}

export interface Coverage {
  model: string;
  layers: {
    name: string;
    problem: string;
    text: string;
    label: string;
    count: number;
    state: 'exact' | 'stale' | 'missing';
    revision: number | null;
    kernels: number | null;
  }[];
}

export interface Session {
  id: string;
  problem: string;
  label: string;
  status: string;
  detail: string;
  started_us: number;
  finished_us: number | null;
  trials: number;
  measured: number;
  screened_out?: number;
  failed: Record<string, number>;
}

export interface Noise {
  pairs: {
    problem: string;
    label: string;
    m: number;
    config: string;
    first_ns: number;
    second_ns: number;
    log_ratio: number;
    clock_mhz: [number | null, number | null];
    unix_us: [number, number];
  }[];
  pairs_found?: number;
  median_abs_log_ratio: number | null;
  p95_abs_log_ratio: number | null;
}

export interface Measured {
  trial?: Id;
  version: Id;
  median_ns: number;
  low_ns: number | null;
  high_ns: number | null;
  kernel_id: string;
}

export interface Regressions {
  versions: {id: Id; driver: string; nvrtc: string; from_us: number | null}[];
  rows: {
    problem: string;
    label: string;
    m: number;
    config: string;
    before: Measured;
    after: Measured;
    ratio: number;
    beyond_tie: boolean;
  }[];
  rows_found?: number;
}

// What the API refused, or that it did not answer.
export class ApiError extends Error {
  constructor(
      readonly status: number, message: string, readonly field: string) {
    super(message);
  }
}

export type Query = Record<string, string | number | null | undefined>;

export function apiUrl(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') search.set(key, String(value));
  }
  const text = search.toString();
  return `api/v1/${path}${text ? '?' + text : ''}`;
}

async function fail(answer: Response): Promise<never> {
  let message = `honed answered ${answer.status}`;
  let field = '';
  try {
    const body = (await answer.json()) as {error?: {message?: string; field?: string}};
    message = body.error?.message ?? message;
    field = body.error?.field ?? '';
  } catch {
    // Not JSON: the status says what there is to say.
  }
  throw new ApiError(answer.status, message, field);
}

async function request(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'honed does not answer', '');
  }
}

// Parsed answers are kept with their ETag, so that going back to a large one
// neither transfers nor parses it again.
const kept = new Map<string, {etag: string; value: unknown}>();
const maxKept = 12;

export async function get<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  const url = apiUrl(path, query);
  const old = kept.get(url);
  const headers: Record<string, string> = old ? {'If-None-Match': old.etag} : {};
  const answer = await request(url, {headers, signal});
  if (answer.status === 304 && old) return old.value as T;
  if (!answer.ok) return fail(answer);
  const value = (await answer.json()) as T;
  const etag = answer.headers.get('ETag');
  kept.delete(url);
  if (etag) kept.set(url, {etag, value});
  if (kept.size > maxKept) kept.delete(kept.keys().next().value!);
  return value;
}

export async function getText(path: string, query: Query, signal: AbortSignal): Promise<string> {
  const answer = await request(apiUrl(path, query), {signal});
  return answer.ok ? answer.text() : fail(answer);
}

// The table of a problem, or null where none has been published.
export async function getTable(problem: Problem, cls: DeviceClass, signal: AbortSignal):
    Promise<Table | null> {
  if (!problem.table) return null;
  return get<Table>('table', {problem: problem.problem, class: cls.class}, signal);
}
