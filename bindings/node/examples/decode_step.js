// One step of decoding on `host`: paged attention of two sequences, then a product with a weight and a bias. Keys of
// zeros weigh all values alike and the values of key j are j, so that the right answer is known.
//   node decode_step.js      QUERN_ADDON: quern.node's path where it is not beside index.js
// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert');
const quern = require('../index.js');

const [BATCH, HEADS, KV_HEADS, DIM, PAGE_SIZE, PAGES, MAX_PAGES, COLUMNS] = [2, 4, 2, 64, 4, 8, 3, 8];
const WIDTH = HEADS * DIM;
const ROW = KV_HEADS * DIM;

const context = new quern.Context({device: 'host'});
const lengths = [5, 9];
const table = [6, 1, 0, 3, 7, 2];
const v = quern.zeros('bf16', [PAGES, PAGE_SIZE, KV_HEADS, DIM]);
v.data.fill(quern.bf16(NaN));
lengths.forEach((length, b) => {
  for (let j = 0; j < length; ++j) {
    const slot = table[b * MAX_PAGES + Math.floor(j / PAGE_SIZE)] * PAGE_SIZE + j % PAGE_SIZE;
    for (let i = 0; i < ROW; ++i) v.data[slot * ROW + i] = quern.bf16(j + 10 * Math.floor(i / DIM));
  }
});
const q = quern.zeros('bf16', [BATCH, HEADS, DIM]);
q.data.fill(quern.bf16(1));
const weight = quern.zeros('bf16', [COLUMNS, WIDTH]);
weight.data.forEach((_, i) => (weight.data[i] = quern.bf16((Math.floor(i / WIDTH) + 1) / WIDTH)));
const attended = quern.zeros('bf16', [BATCH, HEADS, DIM]);
const out = quern.zeros('f32', [BATCH, COLUMNS]);

context.attention({
  flags: quern.QUERN_ATTENTION_CAUSAL, q, k: quern.zeros('bf16', v.shape), v, out: attended,
  lengths: quern.of('i32', [BATCH], lengths), page_table: quern.of('i32', [BATCH, MAX_PAGES], table),
  max_kv_len: MAX_PAGES * PAGE_SIZE,
});
const rows = quern.reshape(attended, [BATCH, WIDTH]);
const bias = quern.of('f32', [COLUMNS], [...Array(COLUMNS).keys()]);
context.gemm({a: rows, b: weight, bias, out});
lengths.forEach((length, b) => {
  for (let n = 0; n < COLUMNS; ++n) {
    const wanted = ((length - 1) / 2 + 5) * (n + 1) + n;
    const got = out.data[b * COLUMNS + n];
    assert(Math.abs(got - wanted) <= 1e-3 * wanted, `out[${b}][${n}] is ${got}, it should be ${wanted}`);
  }
});

// A formula of one's own, over columns and a number: the same sums, twice.
const doubled = quern.zeros('f32', out.shape);
context.gemm({a: rows, b: weight, out: doubled, expression: '(acc + col0) * scalar0', operands: [bias], scalars: [2]});
doubled.data.forEach((got, i) => assert(Math.abs(got - 2 * out.data[i]) <= 1e-3 * got, `${got} is not twice`));

// The error path: an exception with the library's own text. Shapes beyond their array are refused before.
const narrow = quern.reshape(weight, [COLUMNS, 32]);
assert.throws(() => context.gemm({a: rows, b: narrow, out}),
              {code: 'QUERN_INVALID', status: quern.QUERN_INVALID, message: /b\.shape\[1\] is 32/});
assert.throws(() => context.gemm({a: rows, b: weight, out, alhpa: 1}), /gemm has no argument 'alhpa'/);
assert.throws(() => context.gemm({a: rows, b: quern.reshape(weight, [9, WIDTH]), out}), /b: the shape reaches beyond/);
context.close();
assert.throws(() => context.gemm({a: rows, b: weight, out}), /context: is closed/);
console.log(`decode step: ${out.data[0].toFixed(1)} and ${out.data[COLUMNS].toFixed(1)}, as they should be`);
