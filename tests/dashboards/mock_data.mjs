// Plausible answers of honed's API for tests of the page: the tables are those
// that ship (measured on an H200); every other config's time is made up around
// them, by a seeded generator.
import {createHash} from 'node:crypto';
import {readFileSync, readdirSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const sha = (text) => createHash('sha256').update(text).digest('hex');

export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const outcomes = ['measured', 'compile_error', 'compile_timeout', 'launch_error', 'wrong_result',
  'guard_overwritten', 'not_repeatable', 'fault', 'timeout', 'screened_out', 'compiler_crash',
  'out_of_memory', 'interrupted'];
const bits = {float16: 16, bfloat16: 16, int8: 8, int4: 4, float8e4m3: 8, float4e2m1: 4};
const startUs = 1796256506503793;

const fieldsOf = (text) => Object.fromEntries(text.split(/[,;]/).map((part) => part.split('=')));

function randomConfig(next) {
  const pick = (list) => list[Math.floor(next() * list.length)];
  const wgmma = next() < 0.6;
  const blockM = pick([8, 16, 24, 32, 48, 64, 96, 128]);
  const blockN = pick([64, 128, 256]);
  const splitK = pick([1, 1, 1, 2, 4]);
  const stream = next() < 0.1;
  const load = wgmma ? 'tma' : 'cp_async';
  return `block_k=${pick([128, 256, 512, 1024])},block_m=${blockM},block_n=${blockN},` +
    `cluster_m=1,cluster_n=${wgmma ? pick([1, 2]) : 1},ctas_per_sm=${pick([1, 1, 2])},` +
    `mma=${wgmma ? 'wgmma' : 'mma_sync'},mmas_in_flight=${wgmma ? 2 : 1},producer_a=${load},` +
    `producer_b=${load},producer_scale=${load},raster=${pick(['along_m', 'along_n'])},` +
    `split=${stream ? 'stream_k' : splitK > 1 ? 'split_k' : 'data_parallel'},` +
    `split_k=${stream ? 1 : splitK},stages=${pick([2, 3, 4, 5, 6, 7])},warp_k=128,warp_m=${blockM},` +
    `warp_n=${wgmma ? 16 : 64},warp_specialized=${wgmma ? 1 : 0}`;
}

function labelOf(f) {
  const type = f.b === 'float4e2m1' ? 'mxfp4' : f.b;
  const scale = f.b_scale === 'group' ? `group ${f.b_group}` :
    f.b_scale === 'block' ? `block ${f.b_group}×${f.b_group_n}` : 'per channel';
  return `${f.n}×${f.k} ${f.a} × ${type} ${scale}`;
}

// The trials of a problem: its table's evidence, and `extra` other configs.
function makeTrials(problem, cls, modelled, table, device, extra, seed, firstId) {
  const next = random(seed);
  const f = fieldsOf(table.problem);
  const n = Number(f.n);
  const k = Number(f.k);
  const configs = [];
  const indexOf = new Map();
  const number = (text) => {
    if (!indexOf.has(text)) {
      indexOf.set(text, configs.length);
      configs.push(text);
    }
    return indexOf.get(text);
  };
  const evidence = table.entries.flatMap((entry) =>
    entry.evidence.map((one) => ({...one, config: entry.config}))).sort((a, b) => a.m - b.m);
  const t = {id: [], config: [], m: [], outcome: [], median_ns: [], low_ns: [], high_ns: [],
    samples: [], session: [], unix_us: [], clock_mhz: []};
  const add = (config, m, outcome, median, samples) => {
    const spread = 0.002 + 0.006 * next();
    const timed = median !== null;
    t.id.push(firstId + t.id.length);
    t.config.push(number(config));
    t.m.push(m);
    t.outcome.push(outcomes.indexOf(outcome));
    t.median_ns.push(timed ? Math.round(median) : null);
    t.low_ns.push(timed ? Math.round(median * (1 - spread)) : null);
    t.high_ns.push(timed ? Math.round(median * (1 + spread)) : null);
    t.samples.push(timed ? samples : 0);
    t.session.push(t.id.length % 3 === 0 ? 1 : 0);
    t.unix_us.push(startUs + t.id.length * 250_000);
    t.clock_mhz.push(modelled || !timed ? 0 : 1740 + 15 * Math.floor(next() * 17));
  };
  for (const one of evidence) {
    add(one.config, one.m, 'measured', one.median_ns, one.samples);
    for (const tie of one.ties) add(tie, one.m, 'measured', one.median_ns * (1 + 0.009 * next()), 30);
  }
  const ladder = evidence.filter((one) => table.ladder.includes(one.m));
  for (let i = 0; i < extra; i++) {
    const text = randomConfig(next);
    const config = fieldsOf(text);
    const bm = Number(config.block_m);
    const skill = 1.01 + next() ** 2;
    const broken = next() < 0.06;
    const how = outcomes[1 + Math.floor(next() * 12)];
    for (const one of ladder) {
      if (next() < 0.45) continue;
      const waste = Math.max(1, bm / Math.max(8, one.m)) ** 0.4 *
        Math.max(1, one.m / bm / 16) ** 0.25;
      const time = one.median_ns * skill * waste * (1 + 0.02 * next());
      if (broken && how !== 'screened_out' && next() < 0.7) add(text, one.m, how, null, 0);
      else if (time > 1.8 * one.median_ns) add(text, one.m, 'screened_out', time, 3);
      else add(text, one.m, 'measured', time, 12 + 3 * Math.floor(next() * 7));
    }
  }
  const ms = [...new Set(t.m)].sort((a, b) => a - b);
  const rate = device.peak_tflops * (f.a === 'float16' ? 1 : 2);
  const points = ms.map((m) => {
    const bytes = m * k * bits[f.a] / 8 + n * k * bits[f.b] / 8 + m * n * 2 +
      (f.b_scale === 'group' ? n * k / Number(f.b_group) * 2 : 2 * n);
    const operations = 2 * m * n * k;
    return {m, bytes, operations, bytes_floor_ns: bytes / device.memory_gbps,
      mma_floor_ns: operations / rate / 1000};
  });
  const best = ms.map((m) => {
    const one = evidence.find((two) => two.m === m);
    return {m, config: one ? indexOf.get(one.config) : null, from: 'table'};
  });
  return {problem, class: cls, protocol: table.protocol, modelled, configs, outcomes,
    sessions: [table.session_id, sha(table.session_id).slice(0, 36)], trials: t, points, best};
}

// A 100,000-trial answer for one problem, for the tests of speed.
export function hugeTrials(template, count) {
  const next = random(7);
  const ms = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192];
  const configs = [];
  const seen = new Set();
  const t = {id: [], config: [], m: [], outcome: [], median_ns: [], low_ns: [], high_ns: [],
    samples: [], session: [], unix_us: [], clock_mhz: []};
  while (t.id.length < count) {
    const text = randomConfig(next) + `,variant=${configs.length}`;
    if (seen.has(text)) continue;
    seen.add(text);
    configs.push(text);
    const skill = 1 + next();
    for (const m of ms) {
      if (t.id.length === count) break;
      const timed = next() > 0.04;
      const time = Math.round((10_000 + m * 190) * skill * (1 + 0.1 * next()));
      t.id.push(1e9 + t.id.length);
      t.config.push(configs.length - 1);
      t.m.push(m);
      t.outcome.push(timed ? 0 : 1 + Math.floor(next() * 8));
      t.median_ns.push(timed ? time : null);
      t.low_ns.push(timed ? Math.round(time * 0.997) : null);
      t.high_ns.push(timed ? Math.round(time * 1.003) : null);
      t.samples.push(timed ? 12 : 0);
      t.session.push(0);
      t.unix_us.push(startUs + t.id.length);
      t.clock_mhz.push(1900);
    }
  }
  const points = ms.map((m) => ({m, bytes: 33_554_432 + m * 32768, operations: 2 * m * 8192 * 8192,
    bytes_floor_ns: (33_554_432 + m * 32768) / 4212, mma_floor_ns: 2 * m * 8192 * 8192 / 963_000}));
  const best = ms.map((m) => {
    let at = -1;
    for (let i = 0; i < count; i++) {
      if (t.m[i] === m && t.median_ns[i] && (at < 0 || t.median_ns[i] < t.median_ns[at])) at = i;
    }
    return {m, config: t.config[at], from: 'trials'};
  });
  return {...template, configs, outcomes, sessions: ['huge'], trials: t, points, best};
}

export function makeMock() {
  const lines = readFileSync(join(root, 'db/tables/h200.jsonl'), 'utf8').split('\n').filter(Boolean)
    .map((line) => JSON.parse(line));
  const raw = lines[1].device;
  const next = random(1);
  const closure = lines[2].source_closure;
  const device = (modelled) => ({
    class: sha(modelled ? 'model' : 'h200'), name: modelled ? 'model:h200' : raw.name,
    uuid: modelled ? '' : raw.uuid, modelled, driver: modelled ? '' : raw.driver,
    vbios: modelled ? '' : raw.vbios, power_limit_w: modelled ? 0 : raw.power_limit_mw / 1000,
    sm_count: raw.sm_count, l2_bytes: raw.l2_bytes, memory_bytes: raw.memory_bytes,
    memory_gbps: raw.memory_gbps, peak_tflops: raw.peak_tflops,
    mma_sync_tflops: raw.mma_sync_tflops, max_clock_mhz: raw.max_clock_khz / 1000, ecc: raw.ecc,
  });
  const classes = [];
  const byClass = new Map();
  const trialById = new Map();
  let revision = 0;
  let firstId = 1;
  for (const modelled of [false, true]) {
    const dev = device(modelled);
    const problems = [];
    const tables = modelled ? lines.slice(2, 5) : lines.slice(2);
    const held = new Map();
    tables.forEach((source, i) => {
      const f = fieldsOf(source.problem);
      const problem = sha(source.problem);
      revision++;
      const stale = !modelled && i === 1;
      const imported = !modelled && i >= 7;
      const verified = !imported || i === 8;
      const table = {
        problem, text: source.problem, label: labelOf(f), class: dev.class, device: dev, modelled,
        revision, origin: imported ? 'imported' : 'local', verified, stale, gate: source.gate,
        protocol: modelled ? source.protocol.replace('cupti', 'model') : source.protocol,
        source_closure: stale ? sha('older') : closure, tuned_us: source.unix_us,
        ladder: source.ladder,
        entries: source.entries.map((entry) => ({
          m_lo: entry.m_lo, m_hi: entry.m_hi, config: entry.config,
          kernel_id: entry.compile.kernel_id, registers: entry.compile.registers,
          spill_bytes: entry.compile.spill_bytes, smem_bytes: entry.compile.smem_bytes,
          compile_ms: entry.compile.compile_ms, nvrtc: entry.compile.nvrtc_version,
          evidence: entry.evidence,
        })),
        trade_off: i === 3 ? [] : [...new Set(source.entries.map((entry) => entry.config))]
          .map((_, kernels) => ({kernels: kernels + 1, worst_regret: 0.42 / (kernels + 1) ** 1.4,
            mean_regret: 0.12 / (kernels + 1) ** 1.5, compile_ms: 240 * (kernels + 1),
            proven: kernels < 8})),
      };
      const trials = makeTrials(problem, dev.class, modelled, {...source, protocol: table.protocol},
        dev, i === 0 ? 260 : 60, 11 + i, firstId);
      firstId += trials.trials.id.length;
      trials.trials.id.forEach((id, at) => trialById.set(id, {trials, at, table}));
      const speedups = table.entries.flatMap((entry) => entry.evidence)
        .filter((one) => one.default_median_ns > 0)
        .map((one) => one.default_median_ns / one.median_ns);
      const kernels = new Set(source.entries.map((entry) => entry.config)).size;
      problems.push({
        problem, text: source.problem, label: table.label, n: Number(f.n), k: Number(f.k), a: f.a,
        b: f.b, scale: f.b_scale, group: Number(f.b_group), trials: trials.trials.id.length,
        measured_m: [...new Set(trials.trials.m)].sort((a, b) => a - b),
        table: i === 9 ? null : {revision, origin: table.origin, verified, stale, gate: table.gate,
          kernels, tuned_us: table.tuned_us, geo_mean_speedup:
            Math.exp(speedups.reduce((sum, one) => sum + Math.log(one), 0) / speedups.length)},
      });
      held.set(problem, {table: i === 9 ? null : table, trials});
    });
    classes.push({class: dev.class, name: dev.name, modelled, sm_arch: 90, sm_count: 132,
      devices: [{uuid: dev.uuid, driver: dev.driver, vbios: dev.vbios,
        power_limit_w: dev.power_limit_w}],
      trials: problems.reduce((sum, one) => sum + one.trials, 0), tables: problems.length});
    byClass.set(dev.class, {dev, problems, held});
  }

  const trial = (id) => {
    const found = trialById.get(Number(id));
    if (!found) return null;
    const {trials, at, table} = found;
    const t = trials.trials;
    const noise = random(Number(id));
    const config = trials.configs[t.config[at]];
    const entry = table.entries.find((one) => one.config === config);
    const outcome = outcomes[t.outcome[at]];
    return {
      id: t.id[at], problem: trials.problem, text: table.text, label: table.label,
      class: trials.class, m: t.m[at], config, outcome,
      detail: outcome === 'measured' || outcome === 'screened_out' ? '' :
        'ptxas: 4 bytes too many of shared memory',
      gate: outcome === 'measured' ? table.gate : 'none',
      relative_norm: outcome === 'measured' ? 0.000214 + noise() * 1e-5 : null,
      worst_ratio: outcome === 'measured' ? 0.31 + 0.1 * noise() : null,
      median_ns: t.median_ns[at], session: trials.sessions[t.session[at]], unix_us: t.unix_us[at],
      device: table.device, protocol: trials.protocol,
      compile: {cubin_hash: sha(config), kernel_id: entry?.kernel_id ?? sha(config + 'k'),
        nvrtc: '13.0', registers: entry?.registers ?? 128, spill_bytes: Number(id) % 17 ? 0 : 24,
        stack_bytes: 0, smem_bytes: entry?.smem_bytes ?? 147472,
        compile_ms: entry?.compile_ms ?? 251},
      samples: Array.from({length: t.samples[at]}, (_, i) =>
        [Math.round(t.median_ns[at] * (1 + 0.008 * (noise() - 0.5)) / 32) * 32,
          trials.modelled ? 0 : 1740 + 15 * Math.floor(noise() * 17), Math.floor(i / 3)]),
    };
  };

  const pairs = (cls) => {
    const made = [];
    for (const {table, trials} of cls.held.values()) {
      if (!table) continue;
      for (const entry of table.entries) {
        for (const one of entry.evidence) {
          const other = Math.round(one.median_ns * Math.exp(0.006 * (next() + next() - 1)));
          made.push({problem: trials.problem, label: table.label, m: one.m, config: entry.config,
            first_ns: one.median_ns, second_ns: other,
            log_ratio: Math.log(other / one.median_ns),
            clock_mhz: [1800 + 15 * Math.floor(9 * next()), 1800 + 15 * Math.floor(9 * next())],
            unix_us: [table.tuned_us, table.tuned_us + made.length * 60_000_000]});
        }
      }
    }
    const sizes = made.map((one) => Math.abs(one.log_ratio)).sort((a, b) => a - b);
    return {pairs: made, median_abs_log_ratio: sizes[Math.floor(sizes.length / 2)],
      p95_abs_log_ratio: sizes[Math.floor(sizes.length * 0.95)]};
  };
  const noise = new Map([...byClass].map(([id, cls]) => [id, pairs(cls)]));

  const coverage = (cls) => readdirSync(join(root, 'service/models'))
    .filter((name) => name.endsWith('.json')).map((name) => {
      const model = JSON.parse(readFileSync(join(root, 'service/models', name), 'utf8'));
      return {model: model.model, layers: model.layers.map((layer) => {
        const found = cls.problems.find((one) => one.n === layer.n && one.k === layer.k &&
          one.a === 'float16' && one.group === 128);
        const table = found?.table;
        return {name: layer.name, problem: found?.problem ?? sha(`${layer.n}x${layer.k}`),
          text: found?.text ?? '', label: `${layer.n}×${layer.k} float16 × int4 group 128`,
          count: layer.count, state: table ? (table.stale ? 'stale' : 'exact') : 'missing',
          revision: table?.revision ?? null, kernels: table?.kernels ?? null};
      })};
    });

  const sessions = (cls) => cls.problems.map((one, i) => {
    const {trials} = cls.held.get(one.problem);
    const failed = {};
    for (const outcome of trials.trials.outcome) {
      if (outcome > 0 && outcomes[outcome] !== 'screened_out') failed[outcomes[outcome]] = (failed[outcomes[outcome]] ?? 0) + 1;
    }
    return {id: sha(one.problem).slice(0, 36), problem: one.problem, label: one.label,
      status: ['finished', 'finished', 'interrupted', 'running', 'failed'][i % 5],
      detail: i % 5 === 4 ? 'the worker was lost three times in a row' : '',
      started_us: startUs + (20 - i) * 600_000_000,
      finished_us: i % 5 === 3 ? 0 : startUs + (20 - i) * 600_000_000 + 214_000_000,
      trials: one.trials,
      screened_out: trials.trials.outcome.filter((o) => outcomes[o] === 'screened_out').length,
      measured: trials.trials.outcome.filter((o) => o === 0).length, failed};
  });

  const changes = (cls) => {
    const rows = [];
    for (const {table, trials} of cls.held.values()) {
      if (!table || rows.length > 60) continue;
      for (const entry of table.entries) {
        const one = entry.evidence[0];
        const ratio = next() < 0.1 ? 1.02 + 0.1 * next() : 1 + 0.008 * (next() - 0.5);
        const after = Math.round(one.median_ns * ratio);
        rows.push({problem: trials.problem, label: table.label, m: one.m, config: entry.config,
          before: {version: 1, median_ns: one.median_ns, low_ns: one.low_ns, high_ns: one.high_ns,
            kernel_id: entry.kernel_id},
          after: {version: 2, median_ns: after, low_ns: Math.round(after * 0.996),
            high_ns: Math.round(after * 1.004), kernel_id: sha(entry.kernel_id)},
          ratio: after / one.median_ns,
          beyond_tie: Math.abs(after - one.median_ns) > Math.max(64, 0.01 * one.median_ns)});
      }
    }
    return {versions: [{id: 1, driver: '580.159.04', nvrtc: '13.0', from_us: startUs},
      {id: 2, driver: '590.12.01', nvrtc: '13.1', from_us: startUs + 9e11}], rows};
  };

  const regressions = new Map([...byClass].map(([id, cls]) => [id, changes(cls)]));

  const started = Date.now();
  const status = () => {
    const done = Math.min(400, Math.floor((Date.now() - started) / 250));
    const cls = byClass.get(classes[0].class);
    const job = (i, state, more) => ({id: sha(`job${i}`).slice(0, 16), kind: 'tune',
      problem: cls.problems[i].problem, problem_text: cls.problems[i].text,
      label: cls.problems[i].label, state, phase: '', done: 0, total: 0, elapsed_ns: 0, eta_ns: 0,
      trials: 0, failed: 0, m: 0, best_config: '', best_ns: 0, default_ns: 0, error: '',
      submitted_us: startUs, ...more});
    return {version: '1.0.0', source_closure: closure, revision, now_us: Date.now() * 1000,
      unavailable: null, device: cls.dev,
      health: {state: 'ok', detail: '', workers_lost: 1, sentinel_failures: 0},
      jobs: [
        job(2, 'running', {phase: 'race', done, total: 400, elapsed_ns: done * 250e6,
          eta_ns: (400 - done) * 250e6, trials: done, failed: 3, m: 64, best_ns: 20112,
          best_config: cls.held.get(cls.problems[2].problem).trials.configs[0],
          default_ns: 21504}),
        job(3, 'queued', {}),
        job(4, 'failed', {error: 'the worker was lost three times in a row', trials: 12}),
      ]};
  };
  return {status, classes, byClass, trial, noise, coverage, sessions, regressions};
}
