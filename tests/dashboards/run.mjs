// The tests of the page that honed serves, in a real browser:
//   node run.mjs --honed=PATH --db=FILE [--screenshots=DIR]
// starts that honed on a copy of the database. Or HONED_URL names a running
// one, or --mock takes a stand-in with made-up answers. Exits non-zero when a
// test fails. Needs npm (playwright-core, by the lock file) and a Chromium.
import {execFileSync, spawn} from 'node:child_process';
import {copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {api, assert, flags, Tests} from './harness.mjs';
import {startMock} from './mock.mjs';
import {speedTests} from './speed.mjs';
import {useTests} from './use.mjs';
import {viewTests} from './views.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const {values: options} = parseArgs({options: {
  honed: {type: 'string'}, db: {type: 'string'}, screenshots: {type: 'string'},
  chromium: {type: 'string', default: process.env.CHROMIUM ?? '/usr/bin/chromium'},
  // Where playwright-core is installed, unless it is here already.
  work: {type: 'string', default: join(tmpdir(), 'hone-dashboards-test')},
  only: {type: 'string'}, mock: {type: 'boolean', default: false},
}});

function playwright() {
  if (!existsSync(join(here, 'node_modules', 'playwright-core'))) {
    mkdirSync(options.work, {recursive: true});
    const lock = readFileSync(join(here, 'package-lock.json'), 'utf8');
    const installed = join(options.work, 'installed-lock.json');
    if (!existsSync(installed) || readFileSync(installed, 'utf8') !== lock) {
      for (const name of ['package.json', 'package-lock.json']) {
        copyFileSync(join(here, name), join(options.work, name));
      }
      execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--silent'],
        {cwd: options.work, stdio: 'inherit'});
      copyFileSync(join(here, 'package-lock.json'), installed);
    }
    return createRequire(join(options.work, 'x.js'))('playwright-core');
  }
  return createRequire(import.meta.url)('playwright-core');
}

// honed on a copy of the database; its log says where it serves.
async function startHoned(folder) {
  const database = join(folder, 'hone.db');
  copyFileSync(options.db, database);
  if (existsSync(`${options.db}-wal`)) copyFileSync(`${options.db}-wal`, `${database}-wal`);
  const honed = spawn(options.honed, [`--db=${database}`, `--listen=${join(folder, 'sock')}`,
    `--cache=${join(folder, 'cache')}`, '--http=127.0.0.1:0', '--device=auto'],
  {stdio: ['ignore', 'ignore', 'pipe']});
  const url = await new Promise((resolve, reject) => {
    let log = '';
    honed.on('error', reject);
    honed.on('exit', (code) => reject(new Error(`honed ended with ${code}: ${log}`)));
    honed.stderr.setEncoding('utf8').on('data', (text) => {
      log += text;
      for (const line of log.split('\n')) {
        if (!line.includes('"serving"')) continue;
        const {http} = JSON.parse(line);
        if (http) resolve(`http://${http}`);
        else reject(new Error(`honed serves no page: ${log}`));
        return;
      }
    });
    setTimeout(() => reject(new Error(`honed does not serve: ${log}`)), 60_000).unref();
  });
  return {url, close: () => new Promise((resolve) => {
    honed.removeAllListeners('exit');
    honed.on('exit', resolve);
    honed.kill('SIGTERM');
  })};
}

const {chromium} = playwright();
const folder = mkdtempSync(join(tmpdir(), 'hone-web-'));
const tests = new Tests(options.only);
let server = null;
let browser = null;
try {
  if (process.env.HONED_URL) server = {url: process.env.HONED_URL, close: () => {}};
  else if (options.mock) server = await startMock();
  else if (options.honed && options.db) server = await startHoned(folder);
  else throw new Error('needs --honed=PATH and --db=FILE, or HONED_URL, or --mock');
  const base = server.url.replace(/\/$/, '');
  if (options.screenshots) mkdirSync(options.screenshots, {recursive: true});
  browser = await chromium.launch({executablePath: options.chromium, args: flags});

  const web = join(here, '../../dashboards/web');
  await tests.test('the committed page is complete, small and what is served', async () => {
    execFileSync(process.execPath, [join(web, 'check_size.mjs')], {stdio: 'pipe'});
    for (const [path, name] of [['/', 'index.html'], ['/app.js', 'app.js'], ['/app.css', 'app.css']]) {
      const answer = await fetch(base + path);
      const policy = answer.headers.get('content-security-policy');
      assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
      assert.ok(await answer.text() === readFileSync(join(web, 'dist', name), 'utf8'),
        `${path} is not the committed ${name}: honed was built from another one`);
    }
  });

  // Each class of devices is looked at, by the problem with a table that has
  // most trials; imported tables have none.
  const get = api(base);
  const subjects = [];
  for (const cls of await get('classes')) {
    const problems = (await get('problems', {class: cls.class}))
      .sort((a, b) => (b.table ? 1 : 0) - (a.table ? 1 : 0) || b.trials - a.trials);
    if (problems.length > 0) subjects.push({cls, problem: problems[0]});
  }
  const tuned = subjects.find((one) => one.problem.trials > 0);
  if (!tuned) throw new Error('the database has no trials');
  for (const subject of subjects) await viewTests(tests, browser, base, subject, options.screenshots);
  await useTests(tests, browser, base, tuned);
  await speedTests(tests, browser, base, tuned);
} catch (error) {
  tests.failures.push('set-up');
  console.error(error);
} finally {
  await browser?.close();
  await server?.close();
  rmSync(folder, {recursive: true, force: true});
}
console.log(tests.failures.length ? `${tests.failures.length} of ${tests.count} failed: ` +
  tests.failures.join('; ') : `all ${tests.count} passed`);
process.exit(tests.failures.length || tests.count === 0 ? 1 : 0);
