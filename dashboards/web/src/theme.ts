// Light and dark, as the system says or as the reader chose; and the colours
// that canvases need, which CSS cannot reach.

export interface Palette {
  dark: boolean;
  paper: string;
  ink: string;
  muted: string;
  line: string;
  grid: string;
  accent: string;
  tuned: string;
  other: string;
  trials: string;
  third: string;
  bad: string;
}

const light: Palette = {
  dark: false, paper: '#ffffff', ink: '#16191d', muted: '#535c68', line: '#aab2bc',
  grid: '#e6e9ed', accent: '#0b5cad', tuned: '#005a9c', other: '#b84a00', trials: '#7b8591',
  third: '#00735a', bad: '#b3261e',
};
const dark: Palette = {
  dark: true, paper: '#171b1f', ink: '#e6e9ec', muted: '#a3adb8', line: '#5a6570',
  grid: '#2a3037', accent: '#7db8f5', tuned: '#62b5f0', other: '#f0a04b', trials: '#8b96a2',
  third: '#4fc3a1', bad: '#ff8a80',
};

export const fontMono = 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace';
export const fontSans = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

type Choice = 'auto' | 'light' | 'dark';
const key = 'hone-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function stored(): Choice {
  try {
    const value = localStorage.getItem(key);
    return value === 'light' || value === 'dark' ? value : 'auto';
  } catch {
    return 'auto';
  }
}

let choice: Choice = stored();

export function themeChoice(): Choice {
  return choice;
}

export function palette(): Palette {
  const isDark = choice === 'dark' || (choice === 'auto' && system.matches);
  return isDark ? dark : light;
}

function apply(): void {
  document.documentElement.dataset.theme = palette().dark ? 'dark' : 'light';
  for (const listener of listeners) listener();
}

export function nextTheme(): void {
  choice = choice === 'auto' ? 'light' : choice === 'light' ? 'dark' : 'auto';
  try {
    if (choice === 'auto') localStorage.removeItem(key);
    else localStorage.setItem(key, choice);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  apply();
}

export function startTheme(): void {
  system.addEventListener('change', apply);
  apply();
}

export function onTheme(listener: () => void, signal: AbortSignal): void {
  listeners.add(listener);
  signal.addEventListener('abort', () => listeners.delete(listener));
}
