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

const DEVICES = {host: constants.kDLCPU, cuda: constants.kDLCUDA, rocm: constants.kDLROCM};

// One device, its kernels and its cache. For every op a method with the fields of its args struct:
// context.gemm({a, b, out}); prepare and workspace take the op's name and the same. A workspace is made on `host` as an op
// asks, and kept. A call blocks until it is done, on `host`, or launched.
class Context {
  #handle;
  #workspace = null;
  #isHost;

  constructor({device = 'host', missPolicy, flags, cachePath, target} = {}) {
    const [, name, id] = /^(host|host64|cuda|rocm)(?::(\d+))?$/.exec(device) || [];
    if (name === undefined) throw new TypeError(`device: '${device}' given; allowed are host, host64, cuda:N, rocm:N`);
    this.#isHost = name.startsWith('host');
    this.#handle = addon.open({
      deviceType: this.#isHost ? DEVICES.host : DEVICES[name], deviceId: Number(id || 0), missPolicy, flags, cachePath,
      target: target || (name === 'host64' ? name : undefined),
    });
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

  close() {
    addon.close(this.#handle);
  }
}

for (const op of addon.ops) {
  Context.prototype[op] = function(given) {
    this.run(op, given);
  };
}

module.exports = {Context, tensor, zeros, of, reshape, bf16, fromBf16, ops: addon.ops, ...constants};
