// The page: navigation, what is selected, live status, and one view at a time.
import {ApiError, get, type DeviceClass, type Problem, type Status} from './api';
import type {Ctx} from './context';
import {h, replace} from './dom';
import {count, deviceName} from './format';
import {badge, modelledBadge, tableBadges} from './panel';
import {href, parseRoute, type Route} from './route';
import {nextTheme, onTheme, startTheme, themeChoice} from './theme';
import {views, type View} from './views/index';

const pollMs = 2000;

const app = document.getElementById('app')!;
const nav = h('nav', {'aria-label': 'Views'});
const deviceBox = h('div', {class: 'device'});
const classSelect = h('select', {'aria-label': 'Device class'});
const problemSelect = h('select', {'aria-label': 'Problem', class: 'problem'});
const offline = h('div', {class: 'offline', role: 'alert', hidden: true});
const heading = h('h1', {tabindex: -1});
// What must be known of all that the view shows.
const caveats = h('span', {});
const fresh = h('button', {type: 'button', class: 'tool', hidden: true, onclick: () => render(true)});
let shownRevision: number | null = null;
const content = h('div', {class: 'content'});
const main = h('main', {id: 'main'}, offline,
  h('div', {class: 'title'}, heading, caveats, fresh), content);
const forever = new AbortController().signal;

let status: Status | null = null;
let listeners: ((status: Status) => void)[] = [];
let current = new AbortController();

function themeButton(): HTMLElement {
  const button = h('button', {type: 'button', class: 'tool', onclick: nextTheme});
  const say = () => {
    button.textContent = `Theme: ${themeChoice()}`;
  };
  say();
  onTheme(say, forever);
  return button;
}

function showDevice(now: Status): void {
  const {device, health} = now;
  const good = health.state === 'ok';
  replace(deviceBox,
    h('strong', {}, device ? deviceName(device.name) : 'no device'),
    device?.modelled && modelledBadge(),
    badge(good ? 'ok' : health.state === 'quarantined' ? 'bad' : 'warn', health.state,
      health.detail || now.unavailable || ''),
    h('span', {class: 'quiet'}, `revision ${now.revision ?? '–'}`));
}

async function poll(): Promise<void> {
  try {
    status = await get<Status>('status', {}, forever);
    offline.hidden = true;
    showDevice(status);
    fresh.hidden = shownRevision === null || status.revision === shownRevision;
    fresh.textContent = `Revision ${status.revision} is new: show it`;
    for (const listener of listeners) listener(status);
  } catch (error) {
    if (offline.hidden) {
      offline.hidden = false;
      offline.textContent = `${error instanceof Error ? error.message : error} since ` +
        `${new Date().toISOString().slice(11, 19)}Z; what is shown is from before. Trying again.`;
    }
  }
}

// One poll at a time, none while the page is hidden.
function startPolling(): void {
  let timer = 0;
  const loop = async () => {
    timer = 0;
    if (document.hidden) return;
    await poll();
    timer = window.setTimeout(loop, pollMs);
  };
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && timer === 0) void loop();
  });
  timer = window.setTimeout(loop, pollMs);
}

function explain(error: unknown): HTMLElement {
  const text = error instanceof Error ? error.message : String(error);
  const field = error instanceof ApiError && error.field ? `${error.field}: ` : '';
  return h('p', {class: 'error', role: 'alert'}, field + text);
}

function choose<T>(list: T[], wanted: string | null, id: (one: T) => string, fallback: () => T | null,
    what: string): T | null {
  if (!wanted) return fallback();
  const found = list.find((one) => id(one) === wanted);
  if (!found) throw new Error(`This ${what} is not in the database: ${wanted}`);
  return found;
}

function fillSelects(classes: DeviceClass[], cls: DeviceClass | null, problems: Problem[],
    problem: Problem | null, view: View): void {
  replace(classSelect, classes.map((one) => h('option',
    {value: one.class, selected: one === cls},
    `${deviceName(one.name)}${one.modelled ? ' (MODELLED)' : ''} · ${count(one.trials)} trials`)));
  replace(problemSelect, problems.map((one) => h('option',
    {value: one.problem, selected: one === problem, title: one.text},
    `${one.label}${one.table?.stale ? ' (stale)' : ''} · ${count(one.trials)} trials`)));
  classSelect.disabled = classes.length === 0;
  problemSelect.disabled = problems.length === 0 || view.needs !== 'problem';
}

function fillNav(route: Route, cls: DeviceClass | null, problem: Problem | null): void {
  replace(nav, h('ul', {}, views.map((view) => h('li', {}, h('a', {
    href: href(view.id, {
      class: cls?.class, problem: problem?.problem,
    }),
    'aria-current': view.id === route.view ? 'page' : null,
  }, view.name)))));
}

async function render(focus: boolean): Promise<void> {
  current.abort();
  current = new AbortController();
  const {signal} = current;
  listeners = [];
  const route = parseRoute(location.hash);
  if (!route.view) route.view = 'overview';
  const view = views.find((one) => one.id === route.view);
  main.setAttribute('aria-busy', 'true');
  try {
    if (!view) throw new Error(`There is no view "${route.view}".`);
    heading.textContent = view.name;
    replace(caveats);
    document.title = `${view.name} · Hone`;
    const [now, classes] = await Promise.all([
      get<Status>('status', {}, signal), get<DeviceClass[]>('classes', {}, signal),
    ]);
    status = now;
    shownRevision = now.revision;
    fresh.hidden = true;
    showDevice(now);
    const cls = choose(classes, route.params.get('class'), (one) => one.class,
      () => classes.find((one) => one.class === now.device?.class && one.trials + one.tables > 0) ??
        classes.find((one) => one.trials > 0) ?? classes[0] ?? null, 'device class');
    const problems = cls ? await get<Problem[]>('problems', {class: cls.class}, signal) : [];
    // A problem that only the other class knows is not an error of the reader.
    const problem = choose(problems, route.params.get('problem'), (one) => one.problem,
      () => problems.find((one) => one.trials > 0) ?? problems[0] ?? null, 'problem');
    if (cls) route.params.set('class', cls.class);
    if (problem && view.needs === 'problem') route.params.set('problem', problem.problem);
    const canonical = href(route.view, route.params);
    if (canonical !== location.hash) history.replaceState(null, '', canonical);
    fillNav(route, cls, problem);
    fillSelects(classes, cls, problems, problem, view);

    if (view.needs === 'problem' && !problem) {
      throw new Error('Nothing has been tuned for this device class yet. Try: ' +
        'hone tune --n 8192 --k 8192 --b int4 --group 128');
    }
    if (view.needs === 'class' && !cls) throw new Error('The database knows no device yet.');
    if (view.needs !== 'none' && cls?.modelled) {
      replace(caveats, modelledBadge(), 'Times come from an analytic model, not from a GPU.');
    }
    const table = view.needs === 'problem' ? problem?.table : null;
    if (table) caveats.append(...tableBadges(table, false));
    const ctx: Ctx = {
      route, status: now, classes, cls, problems, problem, signal,
      onStatus: (listener) => listeners.push(listener),
      subject: () => [view.needs === 'problem' && problem?.label, cls?.name,
        table && `revision ${table.revision}`, table?.stale && 'STALE',
        table?.origin === 'imported' && !table.verified && 'UNVERIFIED',
        `honed ${now.version}`].filter(Boolean).join(' · '),
      file: (what) => ['hone', what, view.needs === 'problem' && problem?.label,
        cls?.modelled && 'MODELLED'].filter(Boolean).join('-'),
    };
    const next = h('div', {});
    await view.render(ctx, next);
    if (signal.aborted) return;
    replace(content, next);
  } catch (error) {
    if (signal.aborted) return;
    if (nav.childElementCount === 0) fillNav(route, null, null);
    replace(content, explain(error));
  }
  main.removeAttribute('aria-busy');
  if (focus) {
    scrollTo(0, 0);
    heading.focus({preventScroll: true});
  }
}

classSelect.addEventListener('change', () => {
  location.hash = href(parseRoute(location.hash).view, {class: classSelect.value});
});
problemSelect.addEventListener('change', () => {
  const {view, params} = parseRoute(location.hash);
  location.hash = href(view === 'trial' ? 'trials' : view,
    {class: params.get('class'), problem: problemSelect.value});
});
nav.addEventListener('click', (event) => {
  // The view one is in, again: that is how to see what is new.
  const link = (event.target as Element).closest('a');
  if (link && link.hash === location.hash) void render(true);
});
addEventListener('hashchange', () => void render(true));

startTheme();
replace(app,
  h('a', {class: 'skip', href: '#main', onclick: (event: Event) => {
    event.preventDefault();
    heading.focus();
  }}, 'Skip to the content'),
  h('header', {class: 'top'},
    h('span', {class: 'brand'}, 'Hone'), deviceBox,
    h('div', {class: 'selects'}, classSelect, problemSelect, themeButton())),
  h('div', {class: 'body'}, nav, main));
void render(false);
startPolling();
