// What fewer kernels would cost, from the trials at hand, for tables that come
// without it: the tuner's definition (tuner/trade_off.h) by greedy choice and
// exchanges, so nothing here is proven.
import type {TradeOff} from './api';
import type {Grid} from './trials';

const maxKernels = 16;
const maxCandidates = 2048;

// `cols` are the Ms that count; `compileMs` the compile times that are known.
export function tradeOffOf(grid: Grid, cols: number[], compileMs: Map<string, number>): TradeOff[] {
  const {trials} = grid;
  const served = cols.filter((col) => grid.bestRow[col] >= 0);
  const p = served.length;
  if (p === 0) return [];
  const cannot = 1e6;
  const regretOf = (row: number, col: number) => {
    const cell = row * grid.cols + col;
    const trial = grid.trial[cell];
    if (trial < 0 || trials.outcome[trial] !== trials.measured) return cannot;
    return grid.tie[cell] ? 0 : Math.log(grid.ratio[cell]);
  };
  const sums: [number, number][] = [];
  for (let row = 0; row < grid.rows; row++) {
    if (grid.measured[row] === 0) continue;
    let sum = 0;
    for (const col of served) sum += Math.min(10, regretOf(row, col));
    sums.push([sum, row]);
  }
  sums.sort((a, b) => a[0] - b[0]);
  // The best at each M must be among the candidates, else no set may serve it.
  const rows = [...new Set([...served.map((col) => grid.bestRow[col]),
    ...sums.slice(0, maxCandidates).map(([, row]) => row)])];
  const regrets = new Float64Array(rows.length * p);
  rows.forEach((row, k) => served.forEach((col, i) => { regrets[k * p + i] = regretOf(row, col); }));

  // Of `set` with candidate k beside it: the sum, then the worst.
  const base = new Float64Array(p);
  const serve = (set: number[], without: number) => {
    base.fill(cannot);
    set.forEach((k, at) => {
      if (at === without) return;
      for (let i = 0; i < p; i++) base[i] = Math.min(base[i], regrets[k * p + i]);
    });
  };
  const cost = (k: number): [number, number] => {
    let sum = 0;
    let worst = 0;
    for (let i = 0; i < p; i++) {
      const regret = Math.min(base[i], regrets[k * p + i]);
      sum += regret;
      if (regret > worst) worst = regret;
    }
    return [sum, worst];
  };
  const less = (a: [number, number], b: [number, number]) =>
    a[0] < b[0] - 1e-12 || (a[0] < b[0] + 1e-12 && a[1] < b[1] - 1e-12);
  // The best candidate in place of set[slot] (or beside the set).
  const choose = (set: number[], slot: number): [number, [number, number]] => {
    serve(set, slot);
    let best = -1;
    let bestCost: [number, number] = [Infinity, Infinity];
    for (let k = 0; k < rows.length; k++) {
      const now = cost(k);
      if (less(now, bestCost)) {
        best = k;
        bestCost = now;
      }
    }
    return [best, bestCost];
  };

  const steps: TradeOff[] = [];
  const set: number[] = [];
  while (set.length < Math.min(maxKernels, rows.length)) {
    let [next, now] = choose(set, -1);
    set.push(next);
    for (let better = true; better;) {
      better = false;
      for (let slot = 0; slot < set.length; slot++) {
        const [other, otherCost] = choose(set, slot);
        if (!less(otherCost, now)) continue;
        set[slot] = other;
        now = otherCost;
        better = true;
      }
    }
    if (now[1] >= cannot) continue;
    const times = set.map((k) => compileMs.get(trials.answer.configs[rows[k]]));
    steps.push({
      kernels: set.length, worst_regret: Math.expm1(now[1]), mean_regret: Math.expm1(now[0] / p),
      compile_ms: times.every((ms) => ms !== undefined) ?
        times.reduce((a, b) => a! + b!, 0)! : null,
      proven: false,
    });
    if (now[1] === 0) break;
  }
  return steps;
}
