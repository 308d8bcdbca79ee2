// The page must stay small: at most 300 kB over the wire, gzipped.
import {gzipSync} from 'node:zlib';
import {readdirSync, readFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const limit = 300_000;
const expected = ['app.css', 'app.js', 'index.html'];
const dist = join(dirname(fileURLToPath(import.meta.url)), 'dist');
const found = readdirSync(dist).sort();
if (found.join() !== expected.join()) {
  console.error(`dist/ holds ${found.join(', ')}; expected exactly ${expected.join(', ')}`);
  process.exit(1);
}
let total = 0;
for (const name of expected) {
  const bytes = gzipSync(readFileSync(join(dist, name)), {level: 6}).length;
  total += bytes;
  console.log(`${name.padEnd(12)}${String(bytes).padStart(9)} bytes gzipped`);
}
console.log(`${'all'.padEnd(12)}${String(total).padStart(9)} of ${limit}`);
if (total > limit) process.exit(1);
