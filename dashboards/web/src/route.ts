// Where the reader is, as the URL's fragment: #/heat?class=…&problem=…. All of
// what a view shows and selects is in it, so that any state can be linked.

export interface Route {
  view: string;
  params: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, '');
  const mark = text.indexOf('?');
  return {
    view: mark < 0 ? text : text.slice(0, mark),
    params: new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)),
  };
}

export type Params = Record<string, string | number | null | undefined>;

export function href(view: string, params: Params | URLSearchParams): string {
  const search = params instanceof URLSearchParams ? params : new URLSearchParams();
  if (!(params instanceof URLSearchParams)) {
    for (const [key, value] of Object.entries(params)) {
      if (value !== null && value !== undefined && value !== '') search.set(key, String(value));
    }
  }
  const text = search.toString();
  return `#/${view}${text ? '?' + text : ''}`;
}

// Keeps a selection in the URL without leaving the view.
export function note(changes: Params): void {
  const {view, params} = parseRoute(location.hash);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') params.delete(key);
    else params.set(key, String(value));
  }
  const next = href(view, params);
  if (next !== location.hash) history.replaceState(null, '', next);
}
