// How a fleet serves, on `host`: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
//   node serving.js      QUERN_ADDON: quern.node's path where it is not beside index.js
// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const quern = require('../index.js');

const product = (type) => ({
  a: quern.tensor(null, type, [4, 64]), b: quern.tensor(null, type, [8, 64]), out: quern.tensor(null, type, [4, 8]),
});
const missed = {code: 'QUERN_MISS', status: quern.QUERN_MISS};

// Warms a cache, and makes a signed bundle of it. Returns what is in there, as a manifest.
const build = async (folder, bundle, secretKey) => {
  const events = [];
  const lines = [];
  const context = new quern.Context({
    cachePath: path.join(folder, 'cache'), logLevel: quern.QUERN_LOG_DEBUG, log: (level, text) => lines.push(text),
    event: (event) => events.push(event),
  });
  context.prepare('gemm', product('f32'));
  const manifest = context.manifest();
  assert(manifest.startsWith('gemm host '), manifest);
  // Told from the event loop, after what they tell of.
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert(events.some(({kind, op}) => kind === quern.QUERN_EVENT_COMPILED && op === 'gemm'), JSON.stringify(events));
  assert(lines.length > 0, 'nothing was logged');

  // Warming again finds all of it. A model is warmed in the same way; what `progress` returns can cancel.
  const seen = [];
  const results = context.warm({manifest, progress: (done, total, {key}) => void seen.push(key)});
  assert(results.length > 0 && seen.length === results.length, `${seen.length} told of ${results.length}`);
  assert(results.every(({outcome, op}) => outcome === quern.QUERN_WARM_HIT && op === 'gemm'), JSON.stringify(results));
  const listing = {
    model: {hiddenSize: 512, intermediateSize: 1024, layers: 2, heads: 8, kvHeads: 2, headDim: 64, vocabSize: 1000,
            dtype: quern.types.bf16},
    flags: quern.QUERN_WARM_LIST_ONLY | quern.QUERN_WARM_ALLOW_UNSERVED, targets: ['sm_90a'],
  };
  const needed = context.warm(listing).length;
  assert.throws(() => context.warm({...listing, progress: (done) => done === 2}), (error) => {
    assert.strictEqual(error.code, 'QUERN_PARTIAL');
    assert(error.results.length >= 2 && error.results.length < needed, `${error.results.length} of ${needed}`);
    return true;
  });
  // What it throws cancels as well, and comes out of the call.
  assert.throws(() => context.warm({...listing, progress: () => { throw new RangeError('enough'); }}), /enough/);
  assert.throws(() => context.warm({manfest: manifest}), /quern_warm_options has no field 'manfest'; there are flags/);

  assert(context.cacheVerify().length > 0, 'nothing was verified');
  const entries = context.cacheList('gemm');
  assert.strictEqual(entries.length, seen.length);
  const entry = context.cacheInspect(entries[0].key);
  assert(entry.image.length > 0 && entry.image.length === entry.imageSize, `an image of ${entry.image.length} bytes`);
  const stats = context.cacheStats();
  assert(stats.state === quern.QUERN_CACHE_READY && stats.path.startsWith(folder), JSON.stringify(stats));
  assert(context.cacheExport(bundle) >= seen.length, 'too few were exported');
  context.close();
  quern.signBundle(bundle, secretKey);
  return manifest;
};

// What a fleet's cache is looked after with.
const lookAfter = (folder) => {
  const context = new quern.Context({cachePath: path.join(folder, 'cache')});
  assert.strictEqual(context.deviceInfo().target, 'host');
  assert(context.doctor().length > 0 && context.failures().length === 0, 'nothing is here, or something failed');
  // Every kernel is run, and held against double precision.
  const verified = context.verify({prefix: 'gemm', seed: 7});
  assert(verified.length > 0 && verified.every(({outcome}) => outcome === quern.QUERN_VERIFY_AGREES),
         JSON.stringify(verified));
  const [tuned] = context.tune({manifest: 'gemm * dtype=f32 n=8 k=64', rows: [16], flags: quern.QUERN_TUNE_LIST_ONLY});
  assert(tuned.outcome === quern.QUERN_TUNE_ABSENT && tuned.rows === 16, JSON.stringify(tuned));
  assert.strictEqual(context.cacheTrim({flags: quern.QUERN_TRIM_ALL}).kept, 0);
  assert.throws(() => context.faults(), {code: 'QUERN_INVALID', message: /is not checked/});
  context.close();
  const checked = new quern.Context({flags: quern.QUERN_CONTEXT_CHECKED | quern.QUERN_CONTEXT_NO_CACHE});
  assert.deepStrictEqual(checked.faults(), []);
  checked.close();
};

const from = (bundle, trusted) => new quern.Context({
  missPolicy: quern.QUERN_MISS_CACHED_ONLY, flags: quern.QUERN_CONTEXT_NO_CACHE, bundles: [bundle],
  trustedKeys: [trusted],
});

// Takes kernels from a signed bundle alone.
const serve = (bundle, trusted, manifest) => {
  const context = from(bundle, trusted);
  const loaded = context.load({manifest}).length;
  const {cacheHits, compiled} = context.stats();
  assert(cacheHits === loaded && compiled === 0, `${cacheHits} hits, ${compiled} compiled, ${loaded} loaded`);
  context.prepare('gemm', product('f32'));
  assert.throws(() => context.prepare('gemm', product('bf16')), missed);
  assert(context.wait(0) && context.cancel() === 0, 'something is compiled in the background');
  assert.strictEqual(context.unload('gemm'), loaded);
  context.close();
};

// A kernel of the caller's own, over memory by its address: so is a GPU's given.
const scale = (folder) => {
  const context = new quern.Context({cachePath: path.join(folder, 'cache')});
  const kernel = context.kernel({
    entry: 'scale', name: 'scale.cu', constants: {BY: '3.0f'}, source: `#include "quern/kernel.cuh"
QUERN_KERNEL(scale, 256, 1, float *x, int n) {
  const int i = q::block_index(0) * 256 + q::thread_index();
  if (i < n) x[i] *= BY;
}
`,
  });
  assert.strictEqual(kernel.info().key.length, 32);
  const x = quern.of('f32', [1000], [...Array(1000).keys()]);
  const same = quern.at(quern.address(x), 'host', 'f32', [1000]);
  kernel.launch({grid: [4], block: [256]}, same, Int32Array.of(1000));
  assert(x.data[1] === 3 && x.data[999] === 2997, `scaled to ${x.data[1]} and ${x.data[999]}`);
  assert.throws(() => kernel.launch({grid: [4], block: [256]}, same, 1000), /arguments\[1\]: a quern.tensor is wanted/);
  // Ops take such tensors as well: here every second number, by its stride.
  const half = quern.zeros('f32', [500]);
  context.copy({inputs: [quern.at(quern.address(x), 'host', 'f32', [500], [2])], outputs: [half]});
  assert(half.data[1] === 6 && half.data[499] === 2994, `copied ${half.data[1]} and ${half.data[499]}`);
  assert.throws(() => context.copy({inputs: [quern.at(quern.address(x), 'cuda:0', 'f32', [500])], outputs: [half]}),
                {code: 'QUERN_INVALID', message: /inputs\[0\]/});
  context.close();
};

const main = async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quern-serving-'));
  try {
    const bundle = path.join(folder, 'kernels.bundle');
    const {secretKey, publicKey} = quern.makeKeys();
    assert.strictEqual(quern.publicKey(secretKey), publicKey);
    serve(bundle, publicKey, await build(folder, bundle, secretKey));
    // A bundle that none of the trusted keys has signed serves nothing.
    const stranger = from(bundle, quern.makeKeys().publicKey);
    assert.throws(() => stranger.prepare('gemm', product('f32')), missed);
    stranger.close();
    // The same bundle in another cache.
    const other = new quern.Context({
      device: null, cachePath: path.join(folder, 'other'), trustedKeys: [publicKey],
    });
    assert(other.cacheImport(bundle) > 0, 'nothing was imported');
    other.close();
    scale(folder);
    lookAfter(folder);
    assert.throws(() => new quern.Context({target: 'sm_90\0a'}), /target: a NUL given at byte 5/);
    assert.throws(() => new quern.Context({bundle}), /quern_context_options has no field 'bundle'; there are flags/);
  } finally {
    fs.rmSync(folder, {recursive: true});
  }
  console.log('serving: a signed bundle served, what it lacks was a miss');
};

main();
