# Kernels of one's own from Python on the host target: specialised, cached, launched with arguments of every kind.
# SPDX-License-Identifier: Apache-2.0
import ctypes

import numpy as np
import pytest
import quern
from placed import Placed

AXPY = """
#include "quern/kernel.cuh"
#include "offset.h"

QUERN_KERNEL(axpy, 64, 1, float *y, const float *x, float a, int n) {
  const int i = static_cast<int>(q::block_index(0)) * 64 + static_cast<int>(q::thread_index());
  if (i < n) y[i] = a * x[i] + offset() * FACTOR;
}
"""
OFFSET = {"offset.h": "#pragma once\nQUERN_DEVICE float offset() { return 0.5f; }\n"}

PARAMS = """
#include "quern/kernel.cuh"

struct Params {
  double *out;
  long long big;
  double precise;
  signed char small;
};
QUERN_KERNEL(fill, 1, 1, QUERN_PARAM Params p) {
  p.out[0] = static_cast<double>(p.big);
  p.out[1] = p.precise;
  p.out[2] = p.small;
}
"""


class Params(ctypes.Structure):
    _fields_ = [
        ("out", ctypes.c_void_p),
        ("big", ctypes.c_int64),
        ("precise", ctypes.c_double),
        ("small", ctypes.c_int8),
    ]


@pytest.fixture
def axpy(context):
    return context.kernel(AXPY, "axpy", headers=OFFSET, constants={"FACTOR": 4}, name="axpy.cu")


def test_launch(axpy, rng):
    x = rng.standard_normal(1000, dtype=np.float32)
    y = np.full_like(x, np.nan)
    axpy.launch(-(-x.size // 64), 64, [y, x, 3.0, x.size])
    np.testing.assert_allclose(y, 3 * x.astype(np.float64) + 2, rtol=1e-6, atol=1e-6)


def test_the_address_is_the_first_element_s(axpy):
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    axpy.launch((1, 1, 1), (64,), [y[5:], x[2:], np.float32(1), np.int32(3)])
    assert y.tolist() == [0] * 5 + [4, 5, 6]


def test_a_byte_offset_is_part_of_the_address(axpy, context):
    memory, x = np.zeros(24, np.float32), np.arange(8, dtype=np.float32)
    y = memory[16:]
    axpy.launch(1, 64, [Placed(y, offset=64), Placed(x[4:], offset=16), np.float32(1), np.int32(4)])
    assert y.tolist() == [6, 7, 8, 9, 0, 0, 0, 0]
    assert not memory[:16].any()
    assert quern.address(Placed(y, offset=64), context) == y.ctypes.data


def test_struct_parameter(context):
    kernel = context.kernel(PARAMS, "fill")
    out = np.zeros(3)
    params = Params(quern.address(out, context), 2**40 + 1, 1 / 3, -7)
    kernel.launch(1, 1, [params])
    assert out.tolist() == [2.0**40 + 1, 1 / 3, -7]


def test_read_only_memory_needs_a_promise(axpy):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(quern.InvalidError, match=r"args\[1\]: the array is read-only"):
        axpy.launch(1, 64, [y, x, 1.0, 4])
    assert not y.any()
    axpy.launch(1, 64, [y, quern.Tensor(x, read_only=True), 1.0, 4])
    assert (y == 3).all()


def test_the_same_description_gives_the_same_kernel(context, axpy):
    again = context.kernel(AXPY, "axpy", headers=OFFSET, constants={"FACTOR": 4}, name="axpy.cu")
    other = context.kernel(AXPY, "axpy", headers=OFFSET, constants={"FACTOR": 5}, name="axpy.cu")
    assert again.info.key == axpy.info.key != other.info.key
    assert len(axpy.info.key) == 32
    assert "FACTOR=4" in context.manifest() and "FACTOR=5" in context.manifest()


def test_a_second_context_compiles_nothing(axpy, cache_folder):
    with quern.Context("host", cache_path=cache_folder, miss="cached_only") as cached:
        kernel = cached.kernel(AXPY, "axpy", headers=OFFSET, constants={"FACTOR": 4}, name="axpy.cu")
        y = np.zeros(2, np.float32)
        kernel.launch(1, 64, [y, np.ones(2, np.float32), 1.0, 2])
        assert y.tolist() == [3, 3]
        assert (cached.stats().compiled, cached.stats().cache_hits) == (0, 1)
        with pytest.raises(quern.MissError):
            cached.kernel(AXPY, "axpy", headers=OFFSET, constants={"FACTOR": 987}, name="axpy.cu")


def test_a_compiler_error_names_the_file_and_line(context):
    with pytest.raises(quern.CompileError, match=r"broken\.cu:2") as caught:
        context.kernel(
            '#include "quern/kernel.cuh"\nQUERN_KERNEL(k, 1, 1, int n) { nonsense; }\n', "k", name="broken.cu"
        )
    assert "nonsense" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda k, y: k.launch(1, 64, [y, y, 1.0, 2**31]), r"args\[3\]: 2147483648 given; allowed is an integer from"),
        (lambda k, y: k.launch(1, 64, [y, y, 1.0, "4"]), r"args\[3\]: str given"),
        (lambda k, y: k.launch(1, 64, [y, y, 1.0]), "arg"),
        (lambda k, y: k.launch(1, 63, [y, y, 1.0, 4]), "block"),
        (lambda k, y: k.launch((1, 1, 1, 1), 64, [y, y, 1.0, 4]), "grid: .* one to three extents"),
        (lambda k, y: k.launch(-1, 64, [y, y, 1.0, 4]), "grid_x: -1 given; allowed is an integer from 0"),
        (lambda k, y: k.launch(1, 64, [y, y, 1.0, 4], stream=7), "stream: 7 given; the host target has no streams"),
    ],
)
def test_bad_launches(axpy, call, complaint):
    y = np.full(4, 9, np.float32)
    with pytest.raises(quern.InvalidError, match=complaint):
        call(axpy, y)
    assert (y == 9).all()


def test_bad_descriptions(context):
    with pytest.raises(quern.InvalidError, match="no_such.h"):
        context.kernel('#include "no_such.h"\n', "k")
    with pytest.raises(quern.InvalidError, match="entry"):
        context.kernel(AXPY, "not a name", headers=OFFSET)
    with pytest.raises(quern.InvalidError, match="constants: 'a\\\\x00b' given; allowed is a string without NUL"):
        context.kernel(AXPY, "axpy", headers=OFFSET, constants={"a\0b": 1})
    with pytest.raises(quern.InvalidError, match="sm_12345"):
        context.kernel(AXPY, "axpy", headers=OFFSET, target="sm_12345")
