// The trials of one problem as columns, and what views make of them: for each
// config and M the one trial that speaks for it. Made for 100,000 trials:
// typed arrays, no object per trial.
import type {Id, TrialsAnswer} from './api';

export interface Trials {
  answer: TrialsAnswer;
  count: number;
  id: readonly Id[];
  config: Int32Array;
  m: Int32Array;
  outcome: Uint8Array;
  median: Float64Array;  // ns; NaN: none
  low: Float64Array;
  high: Float64Array;
  samples: Int32Array;
  session: Int32Array;
  unixUs: Float64Array;
  clock: Float64Array;   // MHz; 0: not read
  // What ran where: the same number for the same kernel on the same GPU in the
  // same state.
  state: Int32Array;
  // Measured, with enough samples for an interval of the median.
  full: Uint8Array;
  // The outcome indexes of these words.
  measured: number;
  screened: number;
}

function floats(values: (number | null)[], none: number): Float64Array {
  const made = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) made[i] = values[i] ?? none;
  return made;
}

const made = new WeakMap<TrialsAnswer, Trials>();

export function toColumns(answer: TrialsAnswer): Trials {
  const old = made.get(answer);
  if (old) return old;
  const t = answer.trials;
  const trials: Trials = {
    answer, count: t.id.length, id: t.id,
    config: Int32Array.from(t.config), m: Int32Array.from(t.m), outcome: Uint8Array.from(t.outcome),
    median: floats(t.median_ns, NaN), low: floats(t.low_ns, NaN), high: floats(t.high_ns, NaN),
    samples: Int32Array.from(t.samples), session: Int32Array.from(t.session),
    unixUs: Float64Array.from(t.unix_us), clock: floats(t.clock_mhz, 0),
    state: new Int32Array(t.id.length), full: new Uint8Array(t.id.length),
    measured: answer.outcomes.indexOf('measured'),
    screened: answer.outcomes.indexOf('screened_out'),
  };
  // A median of 0 is "none" too: nothing takes no time.
  for (let i = 0; i < trials.count; i++) if (trials.median[i] <= 0) trials.median[i] = NaN;
  const devices = (answer.devices?.length ?? 0) + 1;
  for (let i = 0; i < trials.count; i++) {
    trials.state[i] = (t.kernel?.[i] ?? 0) * devices + (t.device?.[i] ?? 0);
    // Times of a model have no noise, and so no interval.
    trials.full[i] = trials.outcome[i] === trials.measured &&
      (answer.modelled || trials.low[i] > 0) ? 1 : 0;
  }
  made.set(answer, trials);
  return trials;
}

// Config × M.
export interface Grid {
  trials: Trials;
  ms: Int32Array;
  rows: number;                // configs
  cols: number;                // Ms
  // By cell (row * cols + col): the trial that speaks for it, or -1; how many
  // there are; its time over the fastest at that M, NaN without a time.
  trial: Int32Array;
  repeats: Int32Array;
  ratio: Float64Array;
  tie: Uint8Array;
  // By column: the fastest time, its row, and the winner's row (or -1).
  best: Float64Array;
  bestRow: Int32Array;
  winner: Int32Array;
  winnerFrom: string[];
  // By row.
  minRatio: Float64Array;
  meanRatio: Float64Array;
  measured: Int32Array;
  failed: Int32Array;
  wins: Int32Array;
}

// Whether trial `a`, which came after `b`, speaks for a cell in its place. What
// was found of another kernel, or of the GPU in another state, is superseded;
// else a full measurement comes before one of few samples, that before a screen,
// a screen before a failure, and then the newest.
function speaks(t: Trials, a: number, b: number): boolean {
  if (t.state[a] !== t.state[b]) return t.unixUs[a] >= t.unixUs[b];
  const rank = (i: number) => t.full[i] ? 3 : t.outcome[i] === t.measured ? 2 :
    t.outcome[i] === t.screened ? 1 : 0;
  return (rank(a) - rank(b) || t.unixUs[a] - t.unixUs[b]) >= 0;
}

const grids = new WeakMap<Trials, Grid>();

export function toGrid(t: Trials): Grid {
  const old = grids.get(t);
  if (old) return old;
  const ms = Int32Array.from(new Set(t.m)).sort();
  const colOf = new Map<number, number>();
  ms.forEach((m, col) => colOf.set(m, col));
  const rows = t.answer.configs.length;
  const cols = ms.length;
  const cells = rows * cols;
  const g: Grid = {
    trials: t, ms, rows, cols,
    trial: new Int32Array(cells).fill(-1), repeats: new Int32Array(cells),
    ratio: new Float64Array(cells).fill(NaN), tie: new Uint8Array(cells),
    best: new Float64Array(cols).fill(NaN), bestRow: new Int32Array(cols).fill(-1),
    winner: new Int32Array(cols).fill(-1), winnerFrom: new Array<string>(cols).fill(''),
    minRatio: new Float64Array(rows).fill(NaN), meanRatio: new Float64Array(rows).fill(NaN),
    measured: new Int32Array(rows), failed: new Int32Array(rows), wins: new Int32Array(rows),
  };
  for (let i = 0; i < t.count; i++) {
    const cell = t.config[i] * cols + colOf.get(t.m[i])!;
    g.repeats[cell]++;
    if (g.trial[cell] < 0 || speaks(t, i, g.trial[cell])) g.trial[cell] = i;
  }
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      const i = g.trial[row * cols + col];
      // Only a full measurement can be the best: others have few samples.
      if (i < 0 || !t.full[i] || Number.isNaN(t.median[i])) continue;
      if (!(t.median[i] >= g.best[col])) {
        g.best[col] = t.median[i];
        g.bestRow[col] = row;
      }
    }
  }
  for (const {m, config, from} of t.answer.best) {
    const col = colOf.get(m);
    if (col === undefined || config === null) continue;
    g.winner[col] = config;
    g.winnerFrom[col] = from;
    g.wins[config]++;
  }
  for (let row = 0; row < rows; row++) {
    let logs = 0;
    let counted = 0;
    for (let col = 0; col < cols; col++) {
      const cell = row * cols + col;
      const i = g.trial[cell];
      if (i < 0) continue;
      if (Number.isNaN(t.median[i])) {
        g.failed[row]++;
        continue;
      }
      const ratio = t.median[i] / g.best[col];
      if (Number.isNaN(ratio)) continue;
      g.ratio[cell] = ratio;
      logs += Math.log(ratio);
      counted++;
      if (!t.full[i]) continue;
      g.measured[row]++;
      if (!(ratio >= g.minRatio[row])) g.minRatio[row] = ratio;
      // The tuner's own rule: within max(1 %, 64 ns) nobody wins.
      const slack = Math.max(0.01 * g.best[col], 64);
      if (t.median[i] - g.best[col] <= slack) g.tie[cell] = 1;
    }
    if (counted > 0) g.meanRatio[row] = Math.exp(logs / counted);
  }
  grids.set(t, g);
  return g;
}

// The row in `trials` of the trial with this id, or -1.
export function indexOfId(t: Trials, id: Id): number {
  const text = String(id);
  for (let i = 0; i < t.count; i++) if (String(t.id[i]) === text) return i;
  return -1;
}
