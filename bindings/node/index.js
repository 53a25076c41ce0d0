// quern for Node.js: contexts, tensors over typed arrays, ops by their names.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const addon = require(process.env.QUERN_ADDON || './quern.node');
const {constants} = addon;

// Element types: the typed array that holds them, DLPack's code and bits.
const TYPES = {
  f32: [Float32Array, constants.kDLFloat, 32], f64: [Float64Array, constants.kDLFloat, 64],
  f16: [Uint16Array, constants.kDLFloat, 16], bf16: [Uint16Array, constants.kDLBfloat, 16],
  e4m3: [Uint8Array, constants.kDLFloat8_e4m3fn, 8], e5m2: [Uint8Array, constants.kDLFloat8_e5m2, 8],
  i8: [Int8Array, constants.kDLInt, 8], i16: [Int16Array, constants.kDLInt, 16],
  i32: [Int32Array, constants.kDLInt, 32], i64: [BigInt64Array, constants.kDLInt, 64],
  u8: [Uint8Array, constants.kDLUInt, 8], u16: [Uint16Array, constants.kDLUInt, 16],
  u32: [Uint32Array, constants.kDLUInt, 32], u64: [BigUint64Array, constants.kDLUInt, 64],
};

const DEVICES = {
  host: constants.kDLCPU, host64: constants.kDLCPU, cuda: constants.kDLCUDA, rocm: constants.kDLROCM,
};
const deviceOf = (device) => {
  const [, name, id] = /^(host|host64|cuda|rocm)(?::(\d+))?$/.exec(device) || [];
  if (name === undefined) throw new TypeError(`device: '${device}' given; allowed are host, host64, cuda:N, rocm:N`);
  return {deviceType: DEVICES[name], deviceId: Number(id || 0)};
};

// Element types by their names, as a model's dtype takes them.
const types = Object.fromEntries(Object.entries(TYPES).map(([name, [, code, bits]]) => [name, {code, bits}]));

const kindOf = (type) => {
  if (!(type in TYPES)) throw new TypeError(`type: '${type}' given; allowed are ${Object.keys(TYPES).join(', ')}`);
  return TYPES[type];
};

// A tensor over a typed array (or null, for prepare and workspace), its elements being of `type`.
const tensor = (data, type, shape, strides) => {
  const [holder, code, bits] = kindOf(type);
  if (data !== null && !(data instanceof holder)) throw new TypeError(`data: a ${holder.name} holds ${type}`);
  return {data, shape, strides, code, bits};
};

// A tensor with zeroed memory of its own, aligned as kernels want it.
const zeros = (type, shape) => {
  const [holder] = kindOf(type);
  const count = shape.reduce((product, extent) => product * extent, 1);
  return tensor(new holder(addon.allocate(count * holder.BYTES_PER_ELEMENT), 0, count), type, shape);
};

// The same with these numbers.
const of = (type, shape, numbers) => {
  const made = zeros(type, shape);
  made.data.set(numbers);
  return made;
};

// A tensor over memory at an address, a number or a BigInt: of a GPU ('cuda:0'), or the host's. What is there, and how
// long it stays, is the caller's to know: a launch reads it after the call has returned.
const at = (address, device, type, shape, strides) => {
  const [, code, bits] = kindOf(type);
  return {address, ...deviceOf(device), shape, strides, code, bits};
};

// The same memory with another shape.
const reshape = (given, shape) => ({...given, shape, strides: undefined});

const words = new Uint32Array(1);
const floats = new Float32Array(words.buffer);

// The bits of the bfloat16 nearest to a number, ties to even; and the number that such bits are.
const bf16 = (number) => {
  floats[0] = number;
  return Number.isNaN(number) ? 0x7fc0 : ((words[0] + 0x7fff + ((words[0] >>> 16) & 1)) >>> 16) & 0xffff;
};
const fromBf16 = (bits) => {
  words[0] = bits << 16;
  return floats[0];
};


// One device, its kernels and its cache. For every op a method with the fields of its args struct:
// context.gemm({a, b, out}); prepare and workspace take the op's name and the same. A workspace is made on `host` as an
// op asks, and kept. A call blocks until it is done, on `host`, or launched.
class Context {
  #handle;
  #workspace = null;
  #isHost;

  // device: null for none, for warming and looking after caches. options: the fields of quern_context_options.
  constructor({device = 'host', ...options} = {}) {
    const where = device === null ? {} : deviceOf(device);
    this.#isHost = where.deviceType === DEVICES.host;
    if (device === 'host64') where.target = device;
    this.#handle = addon.open({...where, ...options});
  }

  run(op, given) {
    if (this.#isHost && given.workspace === undefined) {
      const bytes = addon.workspace(this.#handle, op, given);
      if (bytes > (this.#workspace?.data.length ?? 0)) this.#workspace = zeros('u8', [bytes]);
      if (bytes > 0) given = {...given, workspace: this.#workspace};
    }
    addon.run(this.#handle, op, given);
  }

  prepare(op, given) {
    addon.prepare(this.#handle, op, given);
  }

  workspace(op, given) {
    return addon.workspace(this.#handle, op, given);
  }

  // The addon's.
  get handle() {
    return this.#handle;
  }

  // No call may be in flight.
  close() {
    addon.close(this.#handle);
  }
}

// What is told, and given, has the fields of quern.h's structs. A call that fails with a list of which there is some
// has that as `results` of its error.
for (const call of ['deviceInfo', 'stats', 'cacheStats', 'warm', 'load', 'tune', 'verify', 'unload', 'cancel',
                    'manifest', 'cacheList', 'cacheVerify', 'cacheExport', 'cacheImport', 'doctor', 'failures',
                    'faults']) {
  Context.prototype[call] = function(...given) {
    return addon[call](this.handle, ...given);
  };
}

// Whether nothing is being compiled in the background any more, after at most so many milliseconds.
Context.prototype.wait = function(milliseconds) {
  return addon.wait(this.handle, milliseconds);
};

Context.prototype.cacheTrim = function(options = {}) {
  return addon.cacheTrim(this.handle, options);
};

// The one entry whose key begins with `key`, its image as a Buffer.
Context.prototype.cacheInspect = function(key) {
  return addon.cacheInspect(this.handle, key)[0];
};

// A kernel of the caller's own; null for a target that is not the device's.
Context.prototype.kernel = function(desc) {
  const made = addon.kernel(this.handle, desc);
  return made === null ? null : new Kernel(this, made);
};

class Kernel {
  #context;
  #made;

  constructor(context, made) {
    this.#context = context;
    this.#made = made;
  }

  info() {
    return addon.kernelInfo(this.#context.handle, this.#made);
  }

  // An argument is a tensor, which gives the address of its data, or a typed array of one element, given by value.
  launch(how, ...given) {
    addon.launch(this.#context.handle, this.#made, how, given);
  }
}

for (const op of addon.ops) {
  Context.prototype[op] = function(given) {
    this.run(op, given);
  };
}

module.exports = {
  Context, Kernel, tensor, zeros, of, at, reshape, bf16, fromBf16, types, ops: addon.ops, address: addon.address,
  makeKeys: addon.makeKeys, publicKey: addon.publicKey, signBundle: addon.signBundle, ...constants,
};
