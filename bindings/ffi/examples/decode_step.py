# A step of decoding on `host` through cffi: paged attention of two sequences, then a product with a weight. Keys of
# zeros weigh all values alike and the values of key j are j, so that the right answer is known.
#   python3 decode_step.py      QUERN_LIBRARY: libquern's path; QUERN_CHECKOUT: where bindings/ffi/quern.ffi.h is
# SPDX-License-Identifier: Apache-2.0
import os
import struct
import sys
from pathlib import Path

from cffi import FFI

BATCH, HEADS, KV_HEADS, DIM, PAGE_SIZE, PAGES, MAX_PAGES, COLUMNS = 2, 4, 2, 64, 4, 8, 3, 8
WIDTH = HEADS * DIM

ffi = FFI()
checkout = os.environ.get("QUERN_CHECKOUT") or Path(__file__).resolve().parents[3]
ffi.cdef((Path(checkout) / "bindings" / "ffi" / "quern.ffi.h").read_text())
quern = ffi.dlopen(os.environ.get("QUERN_LIBRARY", "libquern.so.1"))


class QuernError(Exception):
    def __init__(self, error):
        self.status, self.native = error.status, error.native
        super().__init__(ffi.string(error.text).decode())


def new(kind, **fields):
    """A struct that knows its size."""
    made = ffi.new(f"{kind} *", {"size": ffi.sizeof(kind), **fields})
    keep[made] = fields
    return made


def call(function, *arguments):
    error = new("quern_error")
    if function(*arguments, error) != quern.QUERN_OK:
        raise QuernError(error)


keep = {}  # what a struct points to lives as long as it: cffi's pointers own nothing


def aligned(element, values):
    """Memory of so many elements, or with these, aligned as ops and workspaces want it."""
    count = values if isinstance(values, int) else len(values)
    raw = ffi.new("char[]", count * ffi.sizeof(element) + 256)
    made = ffi.cast(f"{element} *", raw + -int(ffi.cast("uintptr_t", raw)) % 256)
    keep[made] = raw
    if not isinstance(values, int):
        made[0:count] = values
    return made


def tensor(memory, code, bits, *shape):
    extents = ffi.new("int64_t[]", shape)
    fields = {"data": memory, "device": (quern.kDLCPU, 0), "ndim": len(shape), "dtype": (code, bits, 1)}
    made = ffi.new("DLTensor *", {**fields, "shape": extents})
    keep[made] = memory, extents
    return made


def bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def run(op, context, kind, **fields):
    """An op with a workspace as large as it asks for."""
    args, size = new(kind, **fields), ffi.new("uint64_t *")
    call(getattr(quern, f"{op}_workspace"), context, args, size)
    args.workspace, args.workspace_size = aligned("char", size[0]), size[0]
    call(getattr(quern, op), context, args)


def decode(context):
    row = KV_HEADS * DIM
    q, k = aligned("uint16_t", [bf16(1)] * (BATCH * WIDTH)), aligned("uint16_t", PAGES * PAGE_SIZE * row)
    v = aligned("uint16_t", [bf16(float("nan"))] * (PAGES * PAGE_SIZE * row))
    lengths, table = [5, 9], [6, 1, 0, 3, 7, 2]
    for b, length in enumerate(lengths):
        for j in range(length):
            slot = table[b * MAX_PAGES + j // PAGE_SIZE] * PAGE_SIZE + j % PAGE_SIZE
            for i in range(row):
                v[slot * row + i] = bf16(j + 10 * (i // DIM))
    weight = aligned("uint16_t", [bf16((n + 1) / WIDTH) for n in range(COLUMNS) for _ in range(WIDTH)])
    attended, out = aligned("uint16_t", BATCH * WIDTH), aligned("float", BATCH * COLUMNS)

    cache = (quern.kDLBfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM)
    heads = (quern.kDLBfloat, 16, BATCH, HEADS, DIM)
    run(
        "quern_attention",
        context,
        "quern_attention_args",
        q=tensor(q, *heads),
        k=tensor(k, *cache),
        v=tensor(v, *cache),
        out=tensor(attended, *heads),
        lengths=tensor(aligned("int32_t", lengths), quern.kDLInt, 32, BATCH),
        page_table=tensor(aligned("int32_t", table), quern.kDLInt, 32, BATCH, MAX_PAGES),
        max_kv_len=MAX_PAGES * PAGE_SIZE,
        flags=quern.QUERN_ATTENTION_CAUSAL,
    )
    rows = tensor(attended, quern.kDLBfloat, 16, BATCH, WIDTH)
    sums = tensor(out, quern.kDLFloat, 32, BATCH, COLUMNS)
    matrix = tensor(weight, quern.kDLBfloat, 16, COLUMNS, WIDTH)
    run("quern_gemm", context, "quern_gemm_args", a=rows, b=matrix, out=sums)
    for b, length in enumerate(lengths):
        for n in range(COLUMNS):
            wanted = ((length - 1) / 2 + 5) * (n + 1)
            if not abs(out[b * COLUMNS + n] - wanted) <= 1e-3 * wanted:
                sys.exit(f"out[{b}][{n}] is {out[b * COLUMNS + n]}, it should be {wanted}")

    # The error path: an exception that says what is wrong.
    try:
        narrow = tensor(weight, quern.kDLBfloat, 16, COLUMNS, 32)
        run("quern_gemm", context, "quern_gemm_args", a=rows, b=narrow, out=sums)
        sys.exit("a product of two widths was not refused")
    except QuernError as error:
        assert error.status == quern.QUERN_INVALID and "b.shape[1] is 32" in str(error), error
    print(f"decode step: {out[0]:.1f} and {out[COLUMNS]:.1f}, as they should be")


def main():
    made = ffi.new("quern_context **")
    call(quern.quern_context_create, new("quern_context_options", device_type=quern.kDLCPU), made)
    try:
        decode(made[0])
    finally:
        quern.quern_context_destroy(made[0])


if __name__ == "__main__":
    main()
