// Sorts `order`, a list of rows, by keys[row]; equal rows keep their order. A
// radix sort: a comparator called 1.7 million times would be felt.
export function sortByKey(order: Uint32Array, keys: Float64Array): void {
  const n = order.length;
  const bits = new Uint32Array(new Float64Array(1).buffer);
  const value = new Float64Array(bits.buffer);
  const words = [new Uint32Array(n), new Uint32Array(n)];
  for (let i = 0; i < n; i++) {
    value[0] = keys[order[i]] + 0;  // -0 is 0
    // So that integers order as the numbers do: flip the sign of positive ones,
    // and all bits of negative ones.
    const negative = bits[1] >>> 31;
    words[0][i] = negative ? ~bits[0] : bits[0];
    words[1][i] = negative ? ~bits[1] : bits[1] ^ 0x80000000;
  }
  let from: Uint32Array = new Uint32Array(n).map((_, i) => i);
  let to: Uint32Array = new Uint32Array(n);
  const counts = new Uint32Array(65536);
  for (const [word, shift] of [[0, 0], [0, 16], [1, 0], [1, 16]]) {
    const digits = words[word];
    counts.fill(0);
    for (let i = 0; i < n; i++) counts[(digits[i] >>> shift) & 65535]++;
    // One digit for all: nothing to move.
    if (n > 0 && counts[(digits[0] >>> shift) & 65535] === n) continue;
    let sum = 0;
    for (let d = 0; d < 65536; d++) {
      const here = counts[d];
      counts[d] = sum;
      sum += here;
    }
    for (let i = 0; i < n; i++) {
      const at = from[i];
      to[counts[(digits[at] >>> shift) & 65535]++] = at;
    }
    [from, to] = [to, from];
  }
  const old = order.slice();
  for (let i = 0; i < n; i++) order[i] = old[from[i]];
}
