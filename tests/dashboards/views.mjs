// For each view: the numbers it shows are those of the API.
import {api, assert, assertShows, fragment, near, number, openPage, readFacts, readTable, saveCsv,
  showTable} from './harness.mjs';

const outcomeOf = (answer, i) => answer.outcomes[answer.trials.outcome[i]];

// The trial that speaks for each config and M, and the fastest fully measured
// one at each M: what the heat map says it shows, written a second time.
function cellsOf(answer) {
  const t = answer.trials;
  const rank = (i) => ({measured: 2, screened_out: 1})[outcomeOf(answer, i)] ?? 0;
  const cells = new Map();
  t.id.forEach((_, i) => {
    const key = `${answer.configs[t.config[i]]}|${t.m[i]}`;
    const old = cells.get(key);
    const better = old === undefined || [rank(i) - rank(old), t.samples[i] - t.samples[old],
      t.unix_us[i] - t.unix_us[old]].find((one) => one !== 0) > 0;
    if (better) cells.set(key, i);
  });
  const best = new Map();
  for (const i of cells.values()) {
    if (outcomeOf(answer, i) === 'measured' && !(best.get(t.m[i]) <= t.median_ns[i])) {
      best.set(t.m[i], t.median_ns[i]);
    }
  }
  return {cells, best};
}

export async function viewTests(tests, browser, base, subject, screenshots) {
  const get = api(base);
  const {cls, problem} = subject;
  const query = {class: cls.class, problem: problem.problem};
  const answer = await get('trials', query);
  const t = answer.trials;
  const table = problem.table ? await get('table', query) : null;
  const label = ` on ${cls.name}`;

  const view = (name, path, body) => tests.test(`view ${name}${label}`, async () => {
    const seen = await openPage(browser, base);
    await seen.go(path);
    assert.equal(await seen.page.locator('.error').count(), 0, 'the view shows an error');
    const stale = path.includes('problem=') && problem.table?.stale;
    assert.equal(await seen.page.locator('.title .badge.warn', {hasText: 'stale'}).count(), stale ? 1 : 0);
    // MODELLED stands wherever times of a modelled device do.
    for (const panel of await seen.page.locator('section.panel:has([data-chart])').all()) {
      assert.equal(await panel.locator('header .badge.modelled').count(), cls.modelled ? 1 : 0);
    }
    if (screenshots) {
      await seen.page.screenshot({path: `${screenshots}/${name.replaceAll(' ', '-')}${cls.modelled ? '-modelled' : ''}.png`,
        fullPage: true});
    }
    await body(seen.page);
    await seen.close();
  });

  await view('overview', fragment('overview', {class: cls.class}), async (page) => {
    const status = await get('status');
    const device = await readFacts(page, 'Device');
    if (status.device) {
      assert.ok(device.device.startsWith(status.device.name.replace(' (MODELLED)', '')));
      assert.equal(device.device.includes('MODELLED'), status.device.modelled);
      assertShows(device.SMs, status.device.sm_count, 'SMs');
      assertShows(device.bandwidth, status.device.memory_gbps, 'bandwidth');
      assertShows(device['MMA peak'], status.device.peak_tflops, 'MMA peak');
      assertShows(device['mma.sync peak'], status.device.mma_sync_tflops, 'mma.sync peak');
      assertShows(device['max SM clock'], status.device.max_clock_mhz, 'max SM clock');
      assertShows(device['power limit'], status.device.power_limit_w || null, 'power limit');
    } else {
      assert.equal(device.device, 'none: lookups only');
    }
    assert.equal(device.health, status.health.state);
    assertShows(device.revision, status.revision, 'revision');
    assert.equal(device.honed, status.version);
    assert.equal((await readTable(page, 'Jobs')).length, status.jobs.length);
    const problems = await get('problems', {class: cls.class});
    const rows = await readTable(page, 'Problems on');
    assert.equal(rows.length, problems.length);
    problems.forEach((one, i) => {
      const row = rows[i];
      assert.equal(row.Problem, one.label);
      assertShows(row['Default / tuned'], one.table?.geo_mean_speedup, 'geometric mean');
      assertShows(row.Kernels, one.table?.kernels, 'kernels');
      assertShows(row.Revision, one.table?.revision, 'revision');
      assertShows(row.Trials, one.trials, 'trials');
      assertShows(row.Ms, one.measured_m.length, 'Ms');
      assert.equal(row.State.includes('MODELLED'), cls.modelled);
      assert.equal(row.State.includes('stale'), !!one.table?.stale);
      assert.equal(row.State.includes('no table'), !one.table);
      assert.equal(row.State.includes('unverified'),
        one.table?.origin === 'imported' && !one.table.verified);
    });
  });

  if (t.id.length > 0) {
    await view('heat', fragment('heat', {...query, cols: 'all'}), async (page) => {
      const {cells, best} = cellsOf(answer);
      const rows = await saveCsv(page, 'Config × M');
      assert.equal(rows.length, cells.size);
      const winner = new Map(answer.best.filter((one) => one.config !== null)
        .map((one) => [one.m, answer.configs[one.config]]));
      for (const row of rows) {
        const m = Number(row.m);
        const i = cells.get(`${row.config}|${m}`);
        const what = `${row.config} at ${m}`;
        assert.notEqual(i, undefined, what);
        assert.equal(row.trial, String(t.id[i]), what);
        assert.equal(row.median_ns, t.median_ns[i] ? String(t.median_ns[i]) : '', what);
        assert.equal(row.low_ns, t.low_ns[i] === null ? '' : String(t.low_ns[i]), what);
        assert.equal(row.samples, String(t.samples[i]), what);
        assert.equal(row.outcome, outcomeOf(answer, i), what);
        if (t.median_ns[i] && best.has(m)) {
          near(Number(row.ratio_to_best), t.median_ns[i] / best.get(m), what);
        }
        assert.equal(row.winner !== '', winner.get(m) === row.config, what);
        const tie = outcomeOf(answer, i) === 'measured' &&
          t.median_ns[i] - best.get(m) <= Math.max(0.01 * best.get(m), 64);
        assert.equal(row.tie, tie ? 'tie' : '', what);
      }
      assert.equal(await page.locator('.tools .where').textContent(),
        `${answer.configs.length.toLocaleString('en-US')} of ` +
        `${answer.configs.length.toLocaleString('en-US')} configs, ` +
        `${t.id.length.toLocaleString('en-US')} trials`);
    });

    await view('roofline', fragment('roofline', query), async (page) => {
      const rows = await saveCsv(page, 'Roofline');
      const points = new Map(answer.points.map((one) => [one.m, one]));
      const timed = t.id.map((_, i) => i).filter((i) => t.median_ns[i]);
      const trials = rows.filter((row) => row.series === 'trials');
      assert.equal(trials.length, timed.length);
      const indexOf = new Map(t.id.map((id, i) => [String(id), i]));
      for (const row of trials) {
        const i = indexOf.get(row.trial);
        const point = points.get(t.m[i]);
        near(Number(row.tera_operations_per_s), point.operations / t.median_ns[i] / 1000, 'T/s');
        near(Number(row.operations_per_byte), point.operations / point.bytes, 'intensity');
      }
      const evidence = (table?.entries ?? []).flatMap((entry) => entry.evidence)
        .filter((one) => points.has(one.m));
      assert.deepEqual(rows.filter((row) => row.series === 'tuned').map((row) =>
        [Number(row.m), Number(row.median_ns)]).sort(), evidence.map((one) =>
        [one.m, one.median_ns]).sort());
      assert.equal(rows.filter((row) => row.series === 'default').length,
        evidence.filter((one) => one.default_median_ns).length);
      // The roof of the legend is that of the floors.
      const gbps = Math.max(...answer.points.map((one) => one.bytes / one.bytes_floor_ns));
      const rate = Math.max(...answer.points.map((one) => one.operations / one.mma_floor_ns)) / 1000;
      const legend = await page.locator('.legend').textContent();
      const [, shownGbps, shownRate] = legend.match(/roof: ([\d,]+) GB\/s, ([\d,]+) T\/s/);
      assertShows(shownGbps, gbps, 'bandwidth');
      assertShows(shownRate, rate, 'rate');
    });

    await view('trials', fragment('trials', query), async (page) => {
      const rows = await saveCsv(page, 'All trials');
      assert.equal(rows.length, t.id.length);
      rows.forEach((row, i) => {
        assert.equal(row.id, String(t.id[i]));
        assert.equal(row.median_ns, t.median_ns[i] ? String(t.median_ns[i]) : '');
      });
      // Sorted by time at first; rows without a time come last either way.
      const medians = t.median_ns.filter(Boolean);
      const top = async () => (await page.locator('tbody tr').first().locator('td, th').allTextContents());
      assertShows((await top())[2], Math.min(...medians) / 1000, 'fastest');
      await page.getByRole('button', {name: 'Median, µs'}).click();
      assertShows((await top())[2], Math.max(...medians) / 1000, 'slowest');
      await page.getByRole('button', {name: 'Outcome'}).click();
      assert.equal((await top())[7], [...new Set(t.outcome)].map((o) => answer.outcomes[o]).sort()[0]
        .replaceAll('_', ' '));
      await page.getByLabel('Outcome').selectOption('measured');
      await page.getByLabel('M', {exact: true}).selectOption(String(t.m[0]));
      assert.equal((await saveCsv(page, 'All trials')).length, t.id.filter((_, i) =>
        t.m[i] === t.m[0] && outcomeOf(answer, i) === 'measured').length);
    });

    const chosen = t.id.findIndex((_, i) => outcomeOf(answer, i) === 'measured');
    await view('trial', fragment('trial', {id: t.id[chosen]}), async (page) => {
      const trial = await get('trial', {id: t.id[chosen]});
      const facts = await readFacts(page, trial.label);
      assert.equal(facts.outcome, trial.outcome);
      assertShows(facts.median, trial.median_ns / 1000, 'median');
      assertShows(facts.samples, trial.samples.length, 'samples');
      assert.equal(facts.gate, trial.gate);
      assertShows(facts['error norm'], trial.relative_norm, 'error norm');
      assertShows(facts['worst error / tolerance'], trial.worst_ratio, 'worst ratio');
      if (t.low_ns[chosen]) {
        const [low, high] = facts.interval.split(' to ');
        assertShows(low, t.low_ns[chosen] / 1000, 'low');
        assertShows(high, t.high_ns[chosen] / 1000, 'high');
      }
      const compiled = await readFacts(page, 'Compiled kernel');
      assertShows(compiled['registers / thread'], trial.compile.registers, 'registers');
      assertShows(compiled['compile time'], trial.compile.compile_ms, 'compile time');
      assert.equal(compiled.kernel, trial.compile.kernel_id.slice(0, 12));
      const samples = await showTable(page, `Samples at M = ${trial.m}`);
      assert.deepEqual(samples.map((row) => [number(row.Round), Math.round(number(row['Time, µs']) * 1000)]),
        trial.samples.map((one) => [one[2], one[0]]));
      await page.getByText('Show the translation unit').click();
      await page.waitForFunction(() => document.querySelector('pre').textContent.length > 100);
      const source = await (await fetch(`${base}/api/v1/source?${new URLSearchParams(
        {...query, config: trial.config})}`)).text();
      assert.equal(await page.locator('pre').textContent(), source);
    });
  }

  if (t.id.length === 0) {
    for (const name of ['heat', 'roofline', 'trials']) {
      await view(`${name} without trials`, fragment(name, query), async (page) => {
        assert.match(await page.locator('.content').textContent(), /No (such )?trial/);
      });
    }
  }

  await view('speedup', fragment('speedup', query), async (page) => {
    const problems = (await get('problems', {class: cls.class}))
      .filter((one) => one.table?.geo_mean_speedup);
    if (table) {
      const rows = await saveCsv(page, 'Default over tuned, per M');
      const evidence = table.entries.flatMap((entry) => entry.evidence)
        .filter((one) => one.default_median_ns).sort((a, b) => a.m - b.m);
      assert.deepEqual(rows.map((row) => [row.m, row.median_ns, row.default_median_ns, row.samples]
        .map(Number)), evidence.map((one) => [one.m, one.median_ns, one.default_median_ns, one.samples]));
      const mean = Math.exp(rows.reduce((sum, row) => sum + Math.log(Number(row.speedup)), 0) / rows.length);
      near(mean, problem.table.geo_mean_speedup, 'geometric mean');
      const note = await page.locator('.panel .note').first().textContent();
      assertShows(note.match(/Geometric mean ([\d.]+)/)[1], mean, 'geometric mean in the note');
      rows.forEach((row, i) => {
        if (evidence[i].high_ns) {
          near(Number(row.speedup_low), evidence[i].default_median_ns / evidence[i].high_ns, 'low');
        }
      });
    }
    if (problems.length > 0) {
      const rows = await saveCsv(page, 'Geometric mean per problem');
      assert.deepEqual(rows.map((row) => [row.problem_hash, Number(row.geo_mean_speedup)]).sort(),
        problems.map((one) => [one.problem, one.table.geo_mean_speedup]).sort());
    }
  });

  await view('tradeoff', fragment('tradeoff', query), async (page) => {
    if (!table || (table.trade_off.length === 0 && t.id.length === 0)) return;
    const rows = await saveCsv(page, 'Kernels per layer');
    if (table.trade_off.length > 0) {
      assert.deepEqual(rows.map((row) => [row.kernels, row.worst_regret, row.compile_ms].map(Number)),
        table.trade_off.map((one) => [one.kernels, one.worst_regret, one.compile_ms]));
      return;
    }
    // Made on the page. One kernel: the best of all, tried one by one.
    const {cells, best} = cellsOf(answer);
    const ms = table.ladder.filter((m) => best.has(m));
    const regret = (config, m) => {
      const i = cells.get(`${config}|${m}`);
      if (i === undefined || outcomeOf(answer, i) !== 'measured') return Infinity;
      const over = t.median_ns[i] - best.get(m);
      return over <= Math.max(0.01 * best.get(m), 64) ? 0 : Math.log(t.median_ns[i] / best.get(m));
    };
    const means = answer.configs.map((config) =>
      ms.reduce((sum, m) => sum + regret(config, m), 0) / ms.length);
    const least = Math.min(...means);
    if (Number.isFinite(least)) {
      assert.equal(rows[0].kernels, '1');
      near(Number(rows[0].mean_regret), Math.expm1(least), 'regret of one kernel');
    }
    rows.forEach((row, i) => {
      assert.equal(row.proven, 'false');
      if (i > 0) assert.ok(Number(row.mean_regret) <= Number(rows[i - 1].mean_regret) + 1e-12);
    });
    assert.match(await page.locator('.panel .note').first().textContent(), /not raced/);
  });

  await view('coverage', fragment('coverage', {class: cls.class}), async (page) => {
    for (const model of await get('coverage', {class: cls.class})) {
      const rows = await readTable(page, model.model);
      assert.deepEqual(rows.map((row) => [row.Layer, row.Problem, number(row['Times in the model']), row.State]),
        model.layers.map((one) => [one.name, one.label, one.count, one.state]));
    }
    const rows = await saveCsv(page, 'Layers with a table');
    for (const model of await get('coverage', {class: cls.class})) {
      const row = rows.find((one) => one.model === model.model);
      for (const state of ['exact', 'stale', 'missing']) {
        assert.equal(Number(row[state]), model.layers.filter((one) => one.state === state)
          .reduce((sum, one) => sum + one.count, 0));
      }
    }
  });

  await view('sessions', fragment('sessions', {class: cls.class}), async (page) => {
    const sessions = await get('sessions', {class: cls.class});
    const panel = page.locator('section.panel', {has: page.locator('h2', {hasText: /^Sessions$/})});
    assert.equal(await panel.count(), 1);
    const rows = await saveCsv(page, 'Sessions');
    assert.equal(rows.length, sessions.length);
    sessions.forEach((one, i) => {
      assert.equal(rows[i].session, one.id);
      assert.equal(rows[i].status, one.status);
      assert.equal(Number(rows[i].trials), one.trials);
      assert.equal(Number(rows[i].measured), one.measured);
      for (const [outcome, n] of Object.entries(one.failed)) assert.equal(Number(rows[i][outcome]), n);
    });
  });

  await view('health', fragment('health', {class: cls.class}), async (page) => {
    const noise = await get('noise', {class: cls.class});
    const facts = await readFacts(page, 'Noise and devices');
    assertShows(facts['A/A pairs'], noise.pairs_found ?? noise.pairs.length, 'pairs');
    if (noise.pairs.length === 0) return;
    assertShows(facts['median |log ratio|'], noise.median_abs_log_ratio * 100, 'median');
    assertShows(facts['95th percentile'], noise.p95_abs_log_ratio * 100, 'p95');
    const bins = await saveCsv(page, 'Noise: A/A pairs');
    assert.equal(bins.reduce((sum, row) => sum + Number(row.pairs), 0), noise.pairs.length);
    for (const bin of bins) {
      assert.equal(Number(bin.pairs), noise.pairs.filter((pair) => {
        const width = Number(bin.log_ratio_to) - Number(bin.log_ratio_from);
        const at = Math.floor(pair.log_ratio / width + bins.length / 2);
        return Math.abs(Number(bin.log_ratio_from) / width + bins.length / 2 -
          Math.min(bins.length - 1, at)) < 0.5;
      }).length);
    }
    const pairs = await saveCsv(page, 'Pairs by time');
    assert.deepEqual(pairs.map((row) => Number(row.log_ratio)), noise.pairs.map((one) => one.log_ratio));
  });

  await view('regressions', fragment('regressions', {class: cls.class}), async (page) => {
    const found = await get('regressions', {class: cls.class});
    assert.equal((await readTable(page, 'Versions')).length, found.versions.length);
    if (found.rows.length === 0) return;
    const rows = await saveCsv(page, 'Comparisons');
    const sorted = [...found.rows].sort((a, b) => b.ratio - a.ratio);
    assert.deepEqual(rows.map((row) => [row.m, row.ratio, row.before_ns, row.after_ns].map(Number)),
      sorted.map((one) => [one.m, one.ratio, one.before.median_ns, one.after.median_ns]));
    assert.deepEqual(rows.map((row) => row.beyond_tie), sorted.map((one) => String(one.beyond_tie)));
    await page.getByLabel('only beyond a tie').check();
    assert.equal((await saveCsv(page, 'Comparisons')).length,
      found.rows.filter((one) => one.beyond_tie).length);
  });
}
