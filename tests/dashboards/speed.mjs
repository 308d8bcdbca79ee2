// With 100,000 trials, each interaction is drawn within 100 ms, by the User
// Timing measures of the page: from the input to the frame that shows it.
import {api, assert, fragment, openPage, save, settled} from './harness.mjs';
import {hugeTrials} from './mock_data.mjs';

const limitMs = 100;
const trials = 100_000;

export async function speedTests(tests, browser, base, subject) {
  const {cls, problem} = subject;
  const query = {class: cls.class, problem: problem.problem};
  await tests.test('interactions with 100,000 trials take less than 100 ms', async () => {
    const template = await api(base)('trials', query);
    const body = JSON.stringify(hugeTrials(template, trials));
    const seen = await openPage(browser, base);
    const {page} = seen;
    await page.route('**/api/v1/trials*', (route) =>
      route.fulfill({contentType: 'application/json', headers: {ETag: '"huge"'}, body}));
    const frame = () => page.evaluate(() => new Promise((done) =>
      requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))));
    const times = {};
    const collect = async () => {
      await frame();
      for (const {name, duration} of await page.evaluate(() => {
        const found = performance.getEntriesByType('measure')
          .filter((entry) => entry.name.startsWith('hone:'))
          .map(({name, duration}) => ({name, duration}));
        performance.clearMeasures();
        return found;
      })) (times[name] ??= []).push(duration);
    };
    const started = Date.now();
    await seen.go(fragment('heat', {...query, cols: 'all'}));
    const load = Date.now() - started;
    assert.match(await page.locator('.tools .where').textContent(), /100,000 trials/);
    await collect();

    for (const sort of ['mean', 'min', 'measured', 'failed', 'config', 'wins']) {
      await page.getByLabel('Sort', {exact: true}).selectOption(sort);
      await collect();
    }
    for (const engine of ['wgmma', 'mma_sync', '']) {
      await page.getByLabel('Engine', {exact: true}).selectOption(engine);
      await collect();
    }
    for (const only of ['winners', 'ties', 'outcome:timeout', '']) {
      await page.getByLabel('Show', {exact: true}).selectOption(only);
      await collect();
    }
    for (const key of 'tma s') {
      await page.getByLabel('Text', {exact: true}).press(key === ' ' ? 'Space' : key);
      await collect();
    }
    await page.getByLabel('Text', {exact: true}).fill('');
    await collect();
    const heat = page.locator('[data-chart=heat]');
    const box = await heat.boundingBox();
    for (let i = 0; i < 12; i++) {
      await page.mouse.move(box.x + 400 + 20 * i, box.y + 60 + 15 * i);
      await collect();
    }
    await heat.focus();
    for (const key of ['ArrowDown', 'ArrowRight', 'PageDown', 'End', 'Home', 's']) {
      await page.keyboard.press(key);
      await collect();
    }
    await page.mouse.click(box.x + 460, box.y + 20);
    await collect();

    const {bytes} = await save(page, 'Config × M: save as PNG');
    assert.ok(bytes.readUInt32BE(20) > 10_000, 'a PNG of very many configs');

    await seen.go(fragment('trials', query));
    for (const name of ['Samples', 'Config', 'M', 'Median, µs']) {
      await page.getByRole('button', {name, exact: true}).click();
      await collect();
    }
    await page.getByRole('button', {name: 'Next'}).click();
    await collect();
    await page.getByLabel('M', {exact: true}).selectOption('64');
    await collect();

    await seen.go(fragment('roofline', query));
    const roof = await page.locator('[data-chart=roofline]').boundingBox();
    for (let i = 0; i < 12; i++) {
      await page.mouse.move(roof.x + 100 + 40 * i, roof.y + 300 - 12 * i);
      await collect();
    }
    for (let i = 0; i < 4; i++) {
      await page.getByRole('button', {name: /^all trials/}).click();
      await collect();
    }
    await settled(page);
    await seen.close();

    console.log(`        loaded and drawn in ${load} ms; of each kind the median and the slowest, ms:`);
    const slow = [];
    for (const [name, list] of Object.entries(times)) {
      list.sort((a, b) => a - b);
      const median = list[Math.floor(list.length / 2)];
      const most = list[list.length - 1];
      console.log(`        ${name.padEnd(22)}${String(list.length).padStart(3)} times ` +
        `${median.toFixed(0).padStart(5)}${most.toFixed(0).padStart(6)}`);
      // A machine that tests share may stall once: the second slowest counts
      // where there are several.
      const counted = list.length >= 4 ? list[list.length - 2] : most;
      if (counted >= limitMs) slow.push(`${name}: ${counted.toFixed(0)} ms`);
    }
    for (const name of ['heat.sort', 'heat.filter', 'heat.hover', 'heat.key', 'table.sort',
      'table.page', 'trials.filter', 'chart.hover', 'chart.legend']) {
      assert.ok(times[`hone:${name}`]?.length, `${name} was not measured`);
    }
    assert.deepEqual(slow, []);
  });
}
