# Arrays of NumPy and anything with __dlpack__, borrowed as DLTensors: no copies, and nothing lost of what they say.
# SPDX-License-Identifier: Apache-2.0
import gc
import sys
import types
import weakref

import ml_dtypes
import numpy as np
import pytest
import quern
from placed import Placed
from quern import _abi
from quern.tensor import borrow

HOST = (_abi.kDLCPU, 0)


class Exporter:
    """Not a NumPy array, but exports one's memory: with DLPack 1.0's keywords, or as before them."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)


def layout(borrowed):
    tensor = borrowed.tensor
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    return borrowed.address, borrowed.shape, strides, (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)


@pytest.mark.parametrize("wrap", [lambda a: a, Exporter, lambda a: Exporter(a, versioned=False)])
def test_layout_is_the_array_s_own(wrap):
    base = np.zeros((4, 6, 8), np.float16)
    for array in (base, base[1:, ::2, 3:], base.transpose(2, 0, 1), base[::-1], base[:0], np.zeros((), np.float32)):
        address, shape, strides, dtype = layout(borrow(wrap(array), "a", HOST))
        assert (address, shape) == (array.ctypes.data, array.shape)
        assert dtype == (_abi.kDLFloat, array.dtype.itemsize * 8, 1)
        if strides is not None and array.size:
            assert [stride * array.dtype.itemsize for stride in strides] == list(array.strides)


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        (ml_dtypes.bfloat16, _abi.kDLBfloat, 16),
        (ml_dtypes.float8_e4m3fn, _abi.kDLFloat8_e4m3fn, 8),
        (ml_dtypes.float8_e5m2, _abi.kDLFloat8_e5m2, 8),
        (np.int32, _abi.kDLInt, 32),
        (np.uint8, _abi.kDLUInt, 8),
        (np.float64, _abi.kDLFloat, 64),
    ],
)
def test_element_types(dtype, code, bits):
    borrowed = borrow(np.zeros(3, dtype), "a", HOST)
    assert layout(borrowed)[3] == (code, bits, 1)
    assert layout(borrow(quern.Shape((3,), dtype), "a", HOST))[3] == (code, bits, 1)


def test_bits_taken_as_another_type():
    bits = np.arange(6, dtype=np.uint16)
    borrowed = borrow(quern.Tensor(bits, dtype="bf16"), "a", HOST)
    assert layout(borrowed) == (bits.ctypes.data, (6,), [1], (_abi.kDLBfloat, 16, 1))
    with pytest.raises(quern.InvalidError, match="a: u16 elements cannot be taken as e4m3"):
        borrow(quern.Tensor(bits, dtype="e4m3"), "a", HOST)
    with pytest.raises(quern.InvalidError, match="dtype: 'f12' is no element type; known are f16"):
        quern.Tensor(bits, dtype="f12")


@pytest.mark.parametrize("wrap", [lambda a: a, Exporter])
def test_read_only_memory_is_no_output(wrap):
    array = np.zeros(4, np.float32)
    assert borrow(wrap(array), "out", HOST).writable("out").address == array.ctypes.data
    array.flags.writeable = False
    borrowed = borrow(wrap(array), "out", HOST)
    assert borrowed.address == array.ctypes.data
    with pytest.raises(quern.InvalidError, match="out: the array is read-only"):
        borrowed.writable("out")


def test_a_copy_is_no_output():
    array = np.zeros(4, np.float32)
    assert borrow(Placed(array), "out", HOST).writable("out").address == array.ctypes.data
    borrowed = borrow(Placed(array, copied=True), "out", HOST)
    assert borrowed.address == array.ctypes.data
    with pytest.raises(quern.InvalidError, match="out: the array was exported as a copy"):
        borrowed.writable("out")


def test_byte_offsets_count():
    array = np.arange(8, dtype=np.float32)
    borrowed = borrow(Placed(array, offset=64), "a", HOST)
    assert borrowed.address == array.ctypes.data
    assert borrowed.tensor.byte_offset == 64


def test_shape_has_no_memory():
    borrowed = borrow(quern.Shape((2, 3), "bf16", strides=(8, 1)), "q", (_abi.kDLCUDA, 1))
    assert layout(borrowed) == (0, (2, 3), [8, 1], (_abi.kDLBfloat, 16, 1))
    assert (borrowed.tensor.device.device_type, borrowed.tensor.device.device_id) == (_abi.kDLCUDA, 1)
    with pytest.raises(quern.InvalidError, match="strides: 1 given for 2 dimensions"):
        quern.Shape((2, 3), "f16", strides=(1,))


@pytest.mark.parametrize("wrap", [lambda a: a, Exporter, lambda a: Exporter(a, versioned=False)])
def test_memory_lives_as_long_as_it_is_borrowed(wrap):
    class Owned(np.ndarray):
        pass

    array = np.zeros(4, np.float32).view(Owned)
    gone = weakref.ref(array)
    borrowed = borrow(wrap(array), "a", HOST)
    del array
    gc.collect()
    assert gone() is not None
    del borrowed
    gc.collect()
    assert gone() is None


class NoCapsule:
    def __dlpack__(self, **options):
        return object()


class Refuses:
    def __dlpack__(self, **options):
        raise BufferError("needs a gradient")


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        ([1, 2], "q: list given; allowed is any array with __dlpack__"),
        (np.zeros(2, ">f4"), "q: elements of '>f4' are not in this machine's byte order"),
        (np.zeros(2, "f4,u1")["f0"], "q: strides of .* are no multiples"),
        (np.zeros(2, "f4,u1"), "q: .* is no element type"),
        (NoCapsule(), "q: __dlpack__ of NoCapsule gave"),
        (Refuses(), "q: Refuses does not give its memory away: needs a gradient"),
    ],
)
def test_bad_arrays_are_named(array, complaint):
    with pytest.raises(quern.InvalidError, match=complaint):
        borrow(array, "q", HOST)


def test_memory_on_another_device_is_refused():
    borrowed = borrow(quern.Shape((1,), "f32"), "args[0]", (_abi.kDLCUDA, 1))
    assert borrowed.on((_abi.kDLCUDA, 1), "args[0]") is borrowed
    for device in (HOST, (_abi.kDLCUDA, 0), (_abi.kDLROCM, 1)):
        with pytest.raises(quern.InvalidError, match=r"args\[0\]: lies on device 2:1"):
            borrowed.on(device, "args[0]")


class Parameter(Exporter):
    """As a torch.nn.Parameter is: without its gradient it is another tensor over the same memory."""

    requires_grad = True
    dtype = "torch.float32"

    def detach(self):
        detached = Parameter(self.array, self.versioned)
        detached.requires_grad = False
        return detached

    def __dlpack__(self, **options):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient")
        return super().__dlpack__(**options)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_parameter_is_taken_where_gradients_are_off(monkeypatch, enabled):
    torch = types.SimpleNamespace(Tensor=Parameter, is_grad_enabled=lambda: enabled)
    monkeypatch.setitem(sys.modules, "torch", torch)
    array = np.ones((2, 3), np.float32)
    if enabled:
        with pytest.raises(quern.InvalidError, match="x: the tensor requires a gradient.*no_grad"):
            borrow(Parameter(array), "x", HOST)
    else:
        assert borrow(Parameter(array), "x", HOST).address == array.ctypes.data
