// How the page is used: keyboard, links, themes, live status, exports, and what
// assistive technology finds.
import {api, assert, assertShows, fragment, openPage, readTable, save, saveCsv, settled, showTable}
  from './harness.mjs';

const views = ['overview', 'heat', 'roofline', 'trials', 'trial', 'speedup', 'tradeoff', 'coverage',
  'sessions', 'health', 'regressions'];

// Runs in the page: what an accessibility checker would say, by hand.
function audit() {
  const problems = [];
  const visible = (element) => element.checkVisibility({visibilityProperty: true}) &&
    element.getClientRects().length > 0;
  const named = (element) => (element.getAttribute('aria-label') ||
    element.getAttribute('aria-labelledby') || element.textContent.trim() ||
    element.labels?.length || element.closest('label')?.textContent.trim());
  for (const element of document.querySelectorAll(
    'a, button, select, input, summary, [tabindex], progress')) {
    if (visible(element) && !named(element)) problems.push(`no name: ${element.outerHTML.slice(0, 120)}`);
    if (element.tabIndex > 0) problems.push(`tab order forced: ${element.outerHTML.slice(0, 80)}`);
  }
  if (document.querySelectorAll('h1').length !== 1) problems.push('not one h1');
  if (!document.documentElement.lang) problems.push('no language');
  for (const landmark of ['main', 'nav', 'header']) {
    if (!document.querySelector(landmark)) problems.push(`no ${landmark}`);
  }
  if (document.querySelectorAll('nav [aria-current=page]').length !== 1) problems.push('no current page');
  for (const table of document.querySelectorAll('table')) {
    if (!table.caption?.textContent) problems.push('a table without caption');
    if ([...table.querySelectorAll('th')].some((cell) => !cell.scope)) problems.push('a th without scope');
  }
  const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
  if (new Set(ids).size !== ids.length) problems.push('an id twice');
  for (const attribute of ['aria-controls', 'aria-labelledby', 'aria-describedby']) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(' ')) {
        if (!document.getElementById(id)) problems.push(`${attribute} to nowhere: ${id}`);
      }
    }
  }
  if (document.querySelector('[style*="javascript"], [onclick], img:not([alt])')) {
    problems.push('inline handlers or images without text');
  }

  // Contrast of text (WCAG 2: 4.5 to 1).
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !visible(element)) continue;
    if (element.closest(':disabled, option, noscript, .mark')) continue;
    const ink = getComputedStyle(element).color;
    const paper = behind(element);
    const key = `${ink} on ${paper}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const [a, b] = [luminance(channels(ink)), luminance(paper)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) {
      problems.push(`contrast ${ratio.toFixed(2)}: "${walker.currentNode.textContent.trim().slice(0, 30)}" ${key}`);
    }
  }
  return problems;
}

export async function useTests(tests, browser, base, subject) {
  const get = api(base);
  const {cls, problem} = subject;
  const query = {class: cls.class, problem: problem.problem};
  const answer = await get('trials', query);
  const t = answer.trials;
  const firstTrial = t.id[t.outcome.indexOf(answer.outcomes.indexOf('measured'))];
  const page = async (options) => openPage(browser, base, options);
  const path = (view) => fragment(view, view === 'trial' ? {id: firstTrial} : query);

  for (const colorScheme of ['light', 'dark']) {
    await tests.test(`every view has names, structure and contrast (${colorScheme})`, async () => {
      const seen = await page({colorScheme});
      const found = {};
      for (const view of views) {
        await seen.go(path(view));
        for (const button of await seen.page.getByRole('button', {name: /show as a table/}).all()) {
          await button.click();
        }
        const problems = await seen.page.evaluate(audit);
        if (problems.length) found[view] = problems;
        assert.equal(await seen.page.evaluate(() =>
          document.documentElement.scrollWidth <= innerWidth), true, `${view} is wider than the page`);
      }
      assert.deepEqual(found, {});
      await seen.close();
    });
  }

  await tests.test('the theme follows the system, and the button overrides it', async () => {
    const seen = await page({colorScheme: 'dark'});
    await seen.go('overview');
    const paper = () => seen.page.evaluate(() =>
      getComputedStyle(document.querySelector('.panel')).backgroundColor);
    const dark = await paper();
    const button = seen.page.getByRole('button', {name: /^Theme/});
    await button.click();
    assert.equal(await button.textContent(), 'Theme: light');
    assert.notEqual(await paper(), dark);
    await seen.page.reload();
    await settled(seen.page);
    assert.notEqual(await paper(), dark, 'the choice is kept');
    await button.click();
    await button.click();
    assert.equal(await button.textContent(), 'Theme: auto');
    assert.equal(await paper(), dark);
    await seen.close();
  });

  await tests.test('everything is reached with Tab, with a visible focus', async () => {
    const seen = await page();
    await seen.go(path('heat'));
    await seen.page.evaluate(() => document.activeElement.blur());
    const reached = [];
    for (let i = 0; i < 60; i++) {
      await seen.page.keyboard.press('Tab');
      const at = await seen.page.evaluate(() => {
        const element = document.activeElement;
        const style = getComputedStyle(element);
        return {name: (element.getAttribute('aria-label') ?? element.textContent).slice(0, 40),
          body: element === document.body,
          outline: parseFloat(style.outlineWidth) > 0 && style.outlineStyle !== 'none'};
      });
      if (at.body) break;
      assert.ok(at.outline, `no focus ring on ${at.name}`);
      reached.push(at.name);
    }
    assert.equal(reached[0], 'Skip to the content');
    for (const name of ['Overview', 'Regressions', 'Config × M: save as CSV', 'Heat map of']) {
      assert.ok(reached.some((one) => one.startsWith(name)), `${name} is not reached: ${reached}`);
    }
    await seen.close();
  });

  await tests.test('the heat map is walked with arrow keys, sorted with s, opened with Enter', async () => {
    const seen = await page();
    await seen.go(path('heat'));
    const heat = seen.page.locator('[data-chart=heat]');
    await heat.focus();
    await seen.page.keyboard.press('End');
    await seen.page.keyboard.press('Home');
    const read = () => seen.page.locator('.readout').evaluate((list) =>
      Object.fromEntries([...list.children].map((pair) =>
        [pair.firstChild.textContent, pair.lastChild.textContent])));
    const ladder = [...new Set(t.m)].sort((a, b) => a - b);
    assert.equal(Number((await read()).M), ladder[0]);
    await seen.page.keyboard.press('s');
    await seen.page.keyboard.press('Home');
    // Sorted by the first M, its fastest is on top.
    const times = t.id.map((_, i) => i).filter((i) => t.m[i] === ladder[0] && t.median_ns[i] &&
      answer.outcomes[t.outcome[i]] === 'measured');
    const fastest = Math.min(...times.map((i) => t.median_ns[i]));
    const top = await read();
    assert.equal(top['of the best'], '1.000×');
    assertShows(top.median, fastest / 1000, 'fastest');
    assert.match(seen.page.url(), new RegExp(`sort=m${ladder[0]}`));
    await seen.page.keyboard.press('ArrowDown');
    const second = await read();
    assert.notEqual(second.config, top.config);
    const trial = new URLSearchParams(seen.page.url().split('?')[1]).get('trial');
    await seen.page.keyboard.press('Enter');
    await seen.page.waitForFunction(() => location.hash.startsWith('#/trial?'));
    await settled(seen.page);
    assert.equal(new URLSearchParams(seen.page.url().split('?')[1]).get('id'), trial);
    assert.equal((await seen.page.locator('.panel .note').first().textContent()), second.config);
    // Back: the same cell, sort and order.
    await seen.page.goBack();
    await settled(seen.page);
    assert.match(seen.page.url(), new RegExp(`sort=m${ladder[0]}`));
    assert.equal((await read()).config, second.config);
    await seen.close();
  });

  await tests.test('a click on a cell opens its trial; filters narrow the rows and are linkable', async () => {
    const seen = await page();
    await seen.go(path('heat'));
    const where = seen.page.locator('.tools .where');
    const engine = answer.configs[0].match(/mma=(\w+)/)[1];
    await seen.page.getByLabel('Engine', {exact: true}).selectOption(engine);
    await seen.page.getByLabel('Text', {exact: true}).fill(`stages=${answer.configs[0].match(/stages=(\d+)/)[1]}`);
    const expected = answer.configs.filter((one) => one.includes(`mma=${engine}`) &&
      one.includes(`stages=${answer.configs[0].match(/stages=(\d+)/)[1]}`)).length;
    assert.match(await where.textContent(), new RegExp(`^${expected} of`));
    const url = seen.page.url();
    const fresh = await page();
    await fresh.page.goto(url);
    await settled(fresh.page);
    assert.equal(await fresh.page.locator('.tools .where').textContent(), await where.textContent());
    await fresh.close();
    await seen.page.getByLabel('Engine', {exact: true}).selectOption('');
    await seen.page.getByLabel('Text', {exact: true}).fill('');
    // The winner of the first column is on screen: find it with the pointer.
    await seen.page.getByLabel('Show', {exact: true}).selectOption('winners');
    const box = await seen.page.locator('[data-chart=heat]').boundingBox();
    let opened = false;
    for (let x = box.x + 345; x < box.x + box.width - 10 && !opened; x += 12) {
      await seen.page.mouse.move(x, box.y + 38 + 9);
      const trial = await seen.page.locator('.readout').textContent();
      if (!/winner/.test(trial)) continue;
      await seen.page.mouse.click(x, box.y + 38 + 9);
      await seen.page.waitForFunction(() => location.hash.startsWith('#/trial?'));
      opened = true;
    }
    assert.ok(opened, 'no winner under the pointer');
    await seen.close();
  });

  await tests.test('charts are stepped through with arrow keys and open with Enter', async () => {
    const seen = await page();
    await seen.go(path('roofline'));
    const rows = (await saveCsv(seen.page, 'Roofline')).filter((row) => row.series === 'tuned');
    await seen.page.locator('[data-chart=roofline]').focus();
    await seen.page.keyboard.press('Home');
    const tip = seen.page.locator('[data-chart=roofline] .tip');
    const text = await tip.innerText();
    if (rows.length > 0) {
      assert.match(text, new RegExp(`tuned at M = ${rows[0].m}\n`));
      assertShows(text.match(/([\d,.]+) µs/)[1], Number(rows[0].median_ns) / 1000, 'median');
    }
    const said = seen.page.locator('section.panel .hidden[aria-live]');
    assert.equal((await said.first().textContent()).split(', ')[0], text.split('\n')[0]);
    await seen.page.keyboard.press('End');
    await seen.page.keyboard.press('Enter');
    await seen.page.waitForFunction(() => location.hash.startsWith('#/trial?'));
    await seen.close();
  });

  await tests.test('series are switched off in chart, table, CSV and link alike', async () => {
    const seen = await page();
    await seen.go(path('roofline'));
    await seen.page.getByRole('button', {name: /^all trials/}).click();
    const rows = await showTable(seen.page, 'Roofline');
    assert.equal(rows.some((row) => row.Series === 'trials'), false);
    assert.match(seen.page.url(), /hide=trials/);
    await seen.close();
  });

  await tests.test('charts are saved as PNG, with their title', async () => {
    const seen = await page();
    for (const [view, title] of [['heat', 'Config × M'], ['roofline', 'Roofline'],
      ['coverage', 'Layers with a table']]) {
      await seen.go(path(view));
      const {name, bytes} = await save(seen.page, `${title}: save as PNG`);
      assert.match(name, /^hone-.*\.png$/);
      assert.equal(/MODELLED/.test(name), cls.modelled);
      assert.equal(bytes.subarray(1, 4).toString(), 'PNG');
      assert.ok(bytes.readUInt32BE(16) > 1000 && bytes.readUInt32BE(20) > 100, 'size');
      // Not blank: many colours when read back.
      const colours = await seen.page.evaluate(async (data) => {
        const image = await createImageBitmap(new Blob([
          Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]));
        const canvas = new OffscreenCanvas(image.width, image.height);
        const c = canvas.getContext('2d', {willReadFrequently: true});
        c.drawImage(image, 0, 0);
        const count = (y, height) => new Set(new Uint32Array(
          c.getImageData(0, y, image.width, height).data.buffer)).size;
        return {head: count(0, 90), body: count(100, image.height - 100)};
      }, bytes.toString('base64'));
      assert.ok(colours.head > 10 && colours.body > 10, `${title}: ${JSON.stringify(colours)}`);
    }
    await seen.close();
  });

  await tests.test('status is asked for every two seconds, and not while hidden', async () => {
    const seen = await page();
    let asked = 0;
    seen.page.on('request', (request) => {
      if (request.url().includes('/api/v1/status')) asked++;
    });
    await seen.go('overview');
    asked = 0;
    await seen.page.waitForTimeout(4500);
    assert.ok(asked >= 1 && asked <= 3, `${asked} in 4.5 s`);
    const hide = (hidden) => seen.page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', {value, configurable: true});
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await hide(true);
    await seen.page.waitForTimeout(2500);
    asked = 0;
    await seen.page.waitForTimeout(4500);
    assert.equal(asked, 0, 'asked while hidden');
    await hide(false);
    await seen.page.waitForTimeout(800);
    assert.equal(asked, 1, 'asked at once when seen again');
    await seen.close();
  });

  await tests.test('the jobs of honed are shown as they change', async () => {
    const seen = await page();
    const status = await get('status');
    let done = 3;
    const job = {id: 'a', kind: 'tune', problem: problem.problem, problem_text: problem.text,
      label: problem.label, state: 'running', phase: 'race', total: 10, elapsed_ns: 61e9, eta_ns: 5e9,
      trials: 7, failed: 1, m: 16, best_config: '', best_ns: 12345, default_ns: 23456, error: '',
      submitted_us: 1};
    await seen.page.route('**/api/v1/status', (route) => route.fulfill({json: {...status,
      health: {state: 'quarantined', detail: 'the sentinel failed'}, jobs: [{...job, done: done++}]}}));
    await seen.go('overview');
    const [row] = await readTable(seen.page, 'Jobs');
    assert.match(row.Progress, /[34] \/ 10/);
    assert.equal(row.Best, '12.345 µs');
    assert.equal(row.Elapsed, '1 min 01 s');
    await seen.page.waitForFunction(() => /[5-9] \/ 10/.test(document.body.textContent));
    assert.equal(await seen.page.locator('.top .badge.bad').textContent(), 'quarantined');
    await seen.close();
  });

  await tests.test('a new revision is offered, and shown on demand', async () => {
    const seen = await page();
    const status = await get('status');
    let revision = status.revision;
    await seen.page.route('**/api/v1/status', (route) => route.fulfill({json: {...status, revision}}));
    await seen.go(path('speedup'));
    const offer = seen.page.getByRole('button', {name: /is new: show it$/});
    assert.equal(await offer.count(), 0);
    revision++;
    await offer.waitFor();
    await offer.click();
    await offer.waitFor({state: 'hidden'});
    await seen.page.waitForSelector(`.top :text("revision ${revision}")`);
    await seen.close();
  });

  await tests.test('what goes wrong is said, and named', async () => {
    const seen = await page();
    await seen.go('nowhere');
    assert.match(await seen.page.locator('.error').textContent(), /no view "nowhere"/);
    await seen.go(fragment('heat', {class: cls.class, problem: 'ab'.repeat(32)}));
    assert.match(await seen.page.locator('.error').textContent(), /problem is not in the database: abab/);
    await seen.page.route('**/api/v1/coverage*', (route) => route.fulfill({status: 400,
      json: {error: {field: 'class', message: 'must be 64 hex digits'}}}));
    await seen.go(path('coverage'));
    assert.equal(await seen.page.locator('.error').textContent(), 'class: must be 64 hex digits');
    await seen.page.route('**/api/v1/status', (route) => route.abort());
    await seen.page.waitForSelector('.offline:not([hidden])');
    assert.match(await seen.page.locator('.offline').textContent(), /^honed does not answer since/);
    await seen.page.unroute('**/api/v1/status');
    await seen.page.waitForSelector('.offline', {state: 'hidden'});
    // The browser itself reports what failed on purpose.
    for (let i = seen.troubles.length - 1; i >= 0; i--) {
      if (/Failed to load resource/.test(seen.troubles[i])) seen.troubles.splice(i, 1);
    }
    await seen.close();
  });

  await tests.test('an answer that did not change is not sent again', async () => {
    const seen = await page();
    const statuses = [];
    seen.page.on('response', (response) => {
      if (response.url().includes('/api/v1/trials')) statuses.push(response.status());
    });
    await seen.go(path('heat'));
    await seen.page.locator('nav').getByText('Roofline').click();
    await seen.page.waitForSelector('[data-chart=roofline]');
    assert.deepEqual(statuses, [200, 304]);
    await seen.close();
  });
}
