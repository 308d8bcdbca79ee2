// Builds dist/{index.html,app.js,app.css}, which are committed: honed embeds
// them, and its build needs no npm. With --check, says whether they are what
// the sources give.
import {build} from 'esbuild';
import {readFileSync, mkdirSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const read = (path) => readFileSync(join(here, path), 'utf8').trim();

// The licences of what is bundled travel inside app.js.
const notices = [
  'Hone: Apache License 2.0. Contains the software below.',
  'Apache ECharts (Apache License 2.0, as Hone; https://www.apache.org/licenses/LICENSE-2.0)\n\n' +
    read('node_modules/echarts/NOTICE'),
  'Apache ECharts embeds parts of d3.js:\n\n' + read('node_modules/echarts/licenses/LICENSE-d3'),
  'zrender:\n\n' + read('node_modules/zrender/LICENSE'),
  'tslib:\n\n' + read('node_modules/tslib/LICENSE.txt'),
].join('\n\n' + '-'.repeat(72) + '\n\n');

const result = await build({
  absWorkingDir: here,
  entryPoints: {app: 'src/app.ts'},
  outdir: 'dist',
  bundle: true,
  write: false,
  minify: true,
  format: 'iife',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  define: {'process.env.NODE_ENV': '"production"'},
  banner: {js: '/*!\n' + notices.replaceAll('*/', '* /') + '\n*/'},
});
const css = await build({
  absWorkingDir: here,
  entryPoints: {app: 'src/app.css'},
  outdir: 'dist',
  write: false,
  minify: true,
});
const files = {
  'app.js': result.outputFiles[0].text,
  'app.css': css.outputFiles[0].text,
  'index.html': read('src/index.html') + '\n',
};

if (process.argv.includes('--check')) {
  const stale = Object.keys(files).filter((name) => {
    try {
      return readFileSync(join(here, 'dist', name), 'utf8') !== files[name];
    } catch {
      return true;
    }
  });
  if (stale.length) {
    console.error(`dist/ is not what the sources give: ${stale.join(', ')}. Run npm run build.`);
    process.exit(1);
  }
} else {
  mkdirSync(join(here, 'dist'), {recursive: true});
  for (const [name, text] of Object.entries(files)) writeFileSync(join(here, 'dist', name), text);
}
