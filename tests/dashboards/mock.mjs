// A stand-in for honed that serves the built page and made-up answers:
//   node mock.mjs [PORT]
import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {makeMock} from './mock_data.mjs';

const dist = join(dirname(fileURLToPath(import.meta.url)), '../../dashboards/web/dist');
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; " +
  "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
  "frame-ancestors 'none'";
const files = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/app.js': ['app.js', 'text/javascript; charset=utf-8'],
  '/app.css': ['app.css', 'text/css; charset=utf-8'],
};

export function startMock(port = 0) {
  const mock = makeMock();
  const answer = (path, query) => {
    const cls = mock.byClass.get(query.get('class'));
    const held = cls?.held.get(query.get('problem'));
    switch (path) {
      case 'status': return mock.status();
      case 'classes': return mock.classes;
      case 'problems': return cls?.problems;
      case 'table': return held?.table;
      case 'trials': return held?.trials;
      case 'trial': return mock.trial(query.get('id'));
      case 'coverage': return cls && mock.coverage(cls);
      case 'sessions': return cls && mock.sessions(cls);
      case 'noise': return mock.noise.get(query.get('class'));
      case 'regressions': return mock.regressions.get(query.get('class'));
      default: return undefined;
    }
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost');
    response.setHeader('Content-Security-Policy', csp);
    response.setHeader('Cache-Control', 'no-cache');
    const file = files[url.pathname];
    if (file) {
      response.setHeader('Content-Type', file[1]);
      response.end(readFileSync(join(dist, file[0])));
      return;
    }
    const path = url.pathname.replace(/^\/api\/v1\//, '');
    if (path === 'source') {
      response.setHeader('Content-Type', 'text/plain; charset=utf-8');
      response.end(`// ${url.searchParams.get('config')}\n` +
        'extern "C" __global__ void hone_gemm() {}\n'.repeat(40));
      return;
    }
    const value = answer(path, url.searchParams);
    response.setHeader('Content-Type', 'application/json');
    if (value === undefined || value === null) {
      response.statusCode = 404;
      response.end(JSON.stringify({error: {field: path, message: 'not found'}}));
      return;
    }
    const body = JSON.stringify(value);
    const etag = `"${createHash('sha256').update(body).digest('hex').slice(0, 16)}"`;
    response.setHeader('ETag', etag);
    if (request.headers['if-none-match'] === etag) {
      response.statusCode = 304;
      response.end();
      return;
    }
    response.end(body);
  });
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () =>
    resolve({url: `http://127.0.0.1:${server.address().port}`, close: () => server.close()})));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log((await startMock(Number(process.argv[2] ?? 8686))).url);
}
