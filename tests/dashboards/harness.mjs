// What the page's tests share: a small test runner, a browser that notes all
// that must not happen, and readers of what the page shows.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';

export {assert};

export class Tests {
  failures = [];
  count = 0;

  constructor(only) {
    this.only = only;
  }

  async test(name, body) {
    if (this.only && !name.includes(this.only)) return;
    this.count++;
    const start = Date.now();
    try {
      await body();
      console.log(`ok      ${name} (${Date.now() - start} ms)`);
    } catch (error) {
      this.failures.push(name);
      console.log(`FAILED  ${name}\n${error.stack ?? error}`.replaceAll('\n', '\n        '));
    }
  }
}

// Keeps quiet to the outside, and needs neither GPU nor sandbox.
export const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

// A page in a fresh profile. `troubles` collects console errors, violations of
// the content policy, exceptions and requests that leave the origin.
export async function openPage(browser, base, options = {}) {
  const context = await browser.newContext({
    viewport: {width: 1280, height: 800}, colorScheme: 'light', acceptDownloads: true,
    reducedMotion: 'reduce', ...options,
  });
  const page = await context.newPage();
  const troubles = [];
  const origin = new URL(base).origin;
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') {
      troubles.push(`console: ${message.text()} (${message.location().url})`);
    }
  });
  page.on('pageerror', (error) => troubles.push(`exception: ${error.stack ?? error}`));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(origin + '/') && !url.startsWith('data:') &&
        !url.startsWith(`blob:${origin}/`)) {
      troubles.push(`request to ${url}`);
    }
  });
  await page.exposeFunction('honeViolation', (text) => troubles.push(`content policy: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) =>
      window.honeViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  const seen = {page, context, troubles, base};
  // Goes to a view and waits until it is drawn.
  seen.go = async (fragment) => {
    await page.goto(`${base}/#/${fragment}`);
    await settled(page);
  };
  seen.close = async () => {
    await context.close();
    assert.deepEqual(troubles, []);
  };
  return seen;
}

export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('main') &&
    !document.querySelector('main').hasAttribute('aria-busy') &&
    document.querySelector('.content')?.childElementCount > 0);
  // Charts are drawn once they have a size.
  await page.evaluate(() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(done))));
}

export function api(base) {
  return async (path, query = {}) => {
    const answer = await fetch(`${base}/api/v1/${path}?${new URLSearchParams(query)}`);
    assert.equal(answer.status, 200, `${path} answered ${answer.status}`);
    return answer.json();
  };
}

export function fragment(view, params) {
  return `${view}?${new URLSearchParams(params)}`;
}

// The rows of the table in the panel with this title, as objects by heading;
// all pages of it.
export async function readTable(page, title) {
  const panel = page.locator('section.panel', {has: page.locator('h2', {hasText: title})}).first();
  const rows = [];
  for (;;) {
    rows.push(...await panel.evaluate((section) => {
      const tables = section.querySelectorAll('table');
      const table = tables[tables.length - 1];
      const heads = [...table.querySelectorAll('thead th')].map((cell) => cell.textContent);
      return [...table.querySelectorAll('tbody tr')].filter((row) => !row.querySelector('.empty'))
        .map((row) => Object.fromEntries([...row.children].map((cell, i) =>
          [heads[i], cell.textContent])));
    }));
    const next = panel.getByRole('button', {name: 'Next'});
    if (await next.count() === 0 || await next.last().isDisabled()) return rows;
    await next.last().click();
  }
}

export async function showTable(page, title) {
  await page.getByRole('button', {name: `${title}: show as a table`}).click();
  return readTable(page, title);
}

// The facts of a panel: its <dl> as an object.
export function readFacts(page, title) {
  return page.locator('section.panel', {has: page.locator('h2', {hasText: title})}).first()
    .evaluate((section) => Object.fromEntries([...section.querySelectorAll('dl > div')]
      .map((pair) => [pair.querySelector('dt').textContent, pair.querySelector('dd').textContent])));
}

export async function save(page, button) {
  const [download] = await Promise.all([
    page.waitForEvent('download'), page.getByRole('button', {name: button}).click()]);
  return {name: download.suggestedFilename(), bytes: readFileSync(await download.path())};
}

// Strict CSV, as the page writes it.
export function parseCsv(text) {
  const rows = [];
  let row = [];
  let cell = '';
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === '"' && text[i + 1] === '"') cell += text[++i];
      else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"') quoted = true;
    else if (c === ',' || c === '\n') {
      row.push(cell);
      cell = '';
      if (c === '\n') {
        rows.push(row);
        row = [];
      }
    } else cell += c;
  }
  const [heads, ...rest] = rows;
  return rest.map((one) => Object.fromEntries(heads.map((head, i) => [head, one[i]])));
}

export async function saveCsv(page, title) {
  const {name, bytes} = await save(page, `${title}: save as CSV`);
  assert.match(name, /^hone-.*\.csv$/);
  return parseCsv(bytes.toString('utf8'));
}

export const number = (text) => Number(text.replaceAll(',', '').replace(/[^0-9.eE+-].*$/, ''));

// `shown` is `value` as the page writes it, to the last digit shown.
export function assertShows(shown, value, what) {
  if (value === null || value === undefined) {
    assert.equal(shown, '–', what);
    return;
  }
  const digits = (shown.split('.')[1] ?? '').match(/^\d*/)[0].length;
  assert.ok(Math.abs(number(shown) - value) <= 0.5000001 * 10 ** -digits + 1e-9,
    `${what}: shows ${shown}, the API says ${value}`);
}

export function near(actual, expected, what) {
  assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.max(1, Math.abs(expected)),
    `${what}: ${actual}, expected ${expected}`);
}
