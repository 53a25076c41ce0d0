# The compiled module: what it is given arrives in the args structs as ctypes puts it there, what it leaves goes to
# ctypes, and nothing is kept or lost. Skipped where QUERN_PYTHON=ctypes or where it was not built.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest
import quern
from quern import _abi, compiled, dtypes, ops, structs

pytestmark = pytest.mark.skipif(not compiled.used(), reason="quern._fast is not used")

TENSOR = ctypes.POINTER(_abi.DLTensor)
TENSORS = ctypes.POINTER(TENSOR)
RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
WORKSPACE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p
)


def tensor_of(tensor):
    """What a DLTensor says, its strides written out."""
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return address, shape, strides, (tensor.dtype.code, tensor.dtype.bits), tensor.device.device_type


def contents(struct):
    """All that a struct says, through its pointers."""
    said = {}
    for name, kind, *_ in struct._fields_:
        value = getattr(struct, name)
        if kind is TENSOR:
            value = tensor_of(value.contents) if value else None
        elif kind is TENSORS:
            items = [value[i] for i in range(getattr(struct, f"{name[:-1]}_count"))]
            value = [tensor_of(item.contents) if item else None for item in items]
        elif kind is ctypes.POINTER(ctypes.c_float):
            value = list(value[: getattr(struct, f"{name[:-1]}_count")])
        elif kind is ctypes.POINTER(_abi.quern_expression):
            value = ctypes.cast(value, ctypes.c_void_p).value
        elif hasattr(kind, "_type_") and isinstance(kind._type_, type) and issubclass(kind._type_, ctypes.Structure):
            value = contents(value.contents) if value else None
        said[name] = value
    return said


class Listener:
    """Stands where the library's calls of an op would be, for both ways."""

    def __init__(self, monkeypatch):
        self.said = []
        self.run, self.workspace = RUN(self._run), WORKSPACE(lambda context, args, size, error: 0)
        monkeypatch.setattr(ops, "call", self._ctypes_call)

    def _run(self, context, args, error):
        self.said.append(contents(self.kind.from_address(args)))
        return 0

    def _ctypes_call(self, name, context, args, *size):
        if not name.endswith("_workspace"):
            self.said.append(contents(args._obj))

    def describe(self, op):
        self.kind = _abi.OPS[op].args
        addresses = [ctypes.cast(call, ctypes.c_void_p).value for call in (self.run, self.workspace)]
        return op, compiled.describe(_abi.OPS[op]), *addresses


@pytest.fixture
def listener(monkeypatch, context):
    made = Listener(monkeypatch)
    yield made
    compiled._set_up(compiled._module, ops.Ops.call)


def set_up(listed, slow):
    functions = (compiled.from_status, slow, compiled._expression_address, compiled.stream_handle, compiled.capturing)
    readers = (compiled._kind_of, compiled._dtype_of, compiled._grad_mode, dtypes.code_of)
    compiled._module.set_up(listed, functions, readers)


def examples(op, rng, context):
    """A value for every argument of an op, by its kind: fields in any order, flags on and off."""
    parts, arguments = compiled.describe(_abi.OPS[op])
    for name, field, _, _, _, _, enumerators in arguments:
        if field == 0:
            yield name, bool(rng.integers(2))
        elif field == 1:
            yield name, np.zeros(rng.integers(1, 9, rng.integers(1, 5)), rng.choice(["f2", "f4", "i4", "u1", "i8"])).T
        elif field == 2:
            yield name, [np.zeros(n, np.float32) for n in (3, 5)]
        elif field == 9:
            yield name, [1, 2.5]
        elif field == 10:
            yield name, context.expression("silu(acc) * 2")
        elif field in (7, 8):
            yield name, rng.choice([0.25, 3, -1.5]).item()
        elif enumerators:
            yield name, rng.choice(list(enumerators)).item()
        else:
            yield name, int(rng.integers(1, 100))


@pytest.mark.parametrize("op", _abi.OPS)
def test_every_argument_arrives_as_through_ctypes(op, listener, context, rng):
    given_elsewhere = []
    set_up([listener.describe(op)], lambda *args, **named: given_elsewhere.append(named))
    for _ in range(20):
        given = dict(examples(op, rng, context))
        chosen = [name for name in given if rng.random() < 0.7]
        rng.shuffle(chosen)
        arguments = {name: given[name] if rng.random() < 0.9 else None for name in chosen}
        context.call(op, **arguments)
        ops.Ops.call(context, op, **arguments)
        by_module, by_ctypes = listener.said[-2:]
        assert by_module == by_ctypes, arguments
    assert not given_elsewhere and len(listener.said) == 40


class Exporter:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldExporter(Exporter):
    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()


@pytest.mark.parametrize("wrap", [np.asarray, Exporter, OldExporter, quern.Tensor])
def test_arrays_of_all_kinds(wrap, listener, context):
    elsewhere = []
    set_up([listener.describe("gemm")], lambda *args, **named: elsewhere.append(named))
    base = np.zeros((6, 5, 4), np.float32)
    for array in (base, base[::-1, :, 1:], base.transpose(2, 0, 1), base[:0], np.zeros((), np.int8)):
        context.call("gemm", a=wrap(array), b=base)
        ops.Ops.call(context, "gemm", a=wrap(array), b=base)
        by_module, by_ctypes = (said["a"] for said in listener.said[-2:])
        # NumPy's own __dlpack__ says compact strides as it likes where there are no elements.
        assert by_module == by_ctypes or array.size == 0
    assert not elsewhere


@pytest.mark.parametrize(
    "argument",
    [
        {"a": [1, 2]},
        {"a": np.zeros(3, ">f4")},
        {"a": np.frombuffer(b"12345678", np.float32)},
        {"a": np.zeros(4, "f4,u1")["f0"]},
        {"a": quern.Tensor(np.zeros(3, np.float32), "bf16")},
        {"a": np.zeros((1,) * 12)},
        {"tf32": 1},
        {"max_sms": 2**31},
        {"max_sms": 1.5},
        {"activation": "tanhh"},
        {"nothing": 1},
        {"stream": 5},
        {"workspace": np.zeros((2, 2), np.uint8)},
        {"workspace": np.zeros(4, np.float32)},
        {"operands": (np.zeros(3),)},
        {"expression": 3},
        {"scalars": ["one"]},
    ],
    ids=str,
)
def test_what_is_not_plain_goes_through_ctypes(argument, listener, context):
    elsewhere = []
    set_up([listener.describe("gemm")], lambda *args, **named: elsewhere.append((args, named)))
    context.call("gemm", **argument)
    assert elsewhere == [((context, "gemm"), argument)] and not listener.said


def test_ops_that_the_module_was_not_told_go_through_ctypes(listener, context):
    elsewhere = []
    set_up([listener.describe("gemm")], lambda *args, **named: elsewhere.append((args, named)))
    context.call("rope", theta=3.0)
    context.call("no_such_op")
    context.call()
    assert elsewhere == [((context, "rope"), {"theta": 3.0}), ((context, "no_such_op"), {}), ((context,), {})]


def test_more_arguments_come_in_a_dict(listener, context):
    elsewhere = []
    set_up([listener.describe("gemm")], lambda *args, **named: elsewhere.append((args, named)))
    a, more = np.zeros((3, 32), np.float32), {"bias": np.zeros(3, np.float32), "tf32": True, "c": None}
    context.call("gemm", more, a=a, b=a)
    ops.Ops.call(context, "gemm", more, a=a, b=a)
    context.call("gemm", None, a=a, b=a, **more)
    assert listener.said[0] == listener.said[1] == listener.said[2] and not elsewhere
    context.call("gemm", more, a=a, b=a, no_such=1)
    context.call("gemm", [more], a=a)
    assert elsewhere[0] == ((context, "gemm", more), {"a": a, "b": a, "no_such": 1})
    assert elsewhere[1] == ((context, "gemm", [more]), {"a": a}) and len(listener.said) == 3


def test_the_alignment_that_is_found(listener, context):
    elsewhere = []
    set_up([listener.describe("copy")], lambda *args, **named: elsewhere.append(named))
    memory = np.zeros(4096, np.int8)
    memory = memory[-memory.ctypes.data % 64 :]
    for offsets in ((0, 0), (16, 4), (2, 8), (48, 1), (8, 64)):
        arrays = [memory[offset : offset + 512] for offset in offsets]
        given = {"inputs": [arrays[0], None], "outputs": [arrays[1], memory[:16]], "alignment": "found"}
        context.call("copy", **given)
        ops.Ops.call(context, "copy", **given)
        by_module, by_ctypes = (said["alignment"] for said in listener.said[-2:])
        assert by_module == by_ctypes == min(16, offsets[0] & -offsets[0] or 16, offsets[1] & -offsets[1] or 16)
    assert not elsewhere


def test_what_arrays_say(context):
    fast = compiled._module
    for array in (np.zeros((6, 0, 4), np.float32), np.zeros((3, 5), np.int8)[::-1].T, np.zeros((), np.float16)):
        assert fast.shape(array) == array.shape
        assert divmod(fast.element(array), 256) == dtypes.code_of(array.dtype)
    turned = fast.permuted(np.zeros((2, 3), np.uint8), (1, 0))
    assert fast.shape(turned) == (3, 2) and divmod(fast.element(fast.retyped(turned, 0, 8)), 256) == (0, 8)
    for other in (quern.Tensor(np.zeros(3)), [1], None, Exporter(np.zeros(3)), np.zeros((1,) * 9)):
        assert fast.shape(other) is None and fast.element(other) is None


def entered(function, call):
    """Whether a call reaches a Python function."""
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code))
    try:
        call()
    finally:
        sys.setprofile(None)
    return function.__code__ in seen


def test_plain_calls_stay_in_the_module(context):
    a, b = np.ones((3, 32), np.float16), np.ones((5, 32), np.float16)
    assert not entered(ops.Ops.call, lambda: context.gemm(a, b, bias=np.ones(5, np.float32), activation="silu"))
    a.flags.writeable = False
    assert entered(ops.Ops.call, lambda: context.gemm(a, b))


def test_views_are_those_that_numpy_makes(listener, context, rng):
    elsewhere = []
    set_up([listener.describe("copy")], lambda *args, **named: elsewhere.append(named))
    fast = compiled._module
    for array in (np.zeros((6, 5, 4), np.float32), np.zeros((9, 12, 7), np.int8)[::-2, 3:, 1:].swapaxes(0, 2)):
        axes = tuple(rng.permutation(3).tolist())
        axis, extent = axes[0], array.shape[axes[0]]
        sizes = rng.multinomial(extent, [0.3, 0.3, 0.4]).tolist()
        made = [fast.permuted(array, axes), *fast.parts(array, sizes, axis), fast.unflattened(array, axis, extent)]
        expected = [array.transpose(axes), *np.split(array, np.cumsum(sizes)[:-1], axis)]
        expected += [np.expand_dims(array, axis)]
        for index in (
            (..., 1),
            (slice(None, None, 2),),
            (-1, slice(1, -1), 0),
            (slice(9, 2), ...),
            (),
            (0, ..., slice(-2, 90)),
        ):
            made += [fast.sliced(array, index), fast.sliced(made[0], index)]
            expected += [array[index], expected[0][index]]
        count = sys.getrefcount(array)
        for view, like in zip(made, expected, strict=True):
            assert view.shape == like.shape and view.array is array
            assert view.address == like.ctypes.data or like.size == 0
            steps = zip(view.strides, like.strides, like.shape, strict=True)
            assert all(step * array.itemsize == expected for step, expected, n in steps if n > 1)
            context.call("copy", inputs=[view, None], outputs=[view])
            ops.Ops.call(context, "copy", inputs=[view, None], outputs=[view])
            assert listener.said[-1] == listener.said[-2]
        assert not elsewhere
        del view, made
        assert sys.getrefcount(array) < count
        whole = (*array.shape[:1], 2 * array.shape[1], *array.shape[2:])
        assert fast.joined([array, array], -2) == (1, [array.shape[1]] * 2, whole)
        assert fast.retyped(array, *fast.permuted(array, axes).dtype).shape == array.shape


def test_what_no_view_is_made_of(context):
    array, fast = np.zeros((6, 4), np.float32), compiled._module
    read_only = np.zeros((6, 4), np.float32)
    read_only.flags.writeable = False
    for given in (read_only, [1, 2], quern.Tensor(array), Exporter(array), np.zeros((1,) * 9)):
        assert fast.permuted(given, (1, 0)) is None and fast.parts(given, [2, 4], 0) is None
        assert fast.joined([array, given], 0) is None and fast.sliced(given, ()) is None
        assert fast.unflattened(given, 0, 1) is None and fast.retyped(given, 0, 32) is None
    for axes in ((0, 0), (0,), (0, 2), (-1, 0), (0, 1.0), [1, 0]):
        assert fast.permuted(array, axes) is None
    for sizes, axis in (([2, 3], 0), ([7], 0), ([-1, 7], 0), ([6], 2), ([6], -1), ((2, 4), 0), ([2, 2**70], 0)):
        assert fast.parts(array, sizes, axis) is None
    integers = ((6,), (-7,), (2**70,), (-(2**70),), (True,), (1.0,), 0)
    for index in (*integers, (0, 0, 0), (..., ...), (slice(None, None, -1),), (None,), ([0],)):
        assert fast.sliced(array, index) is None
    for arrays, axis in (
        ([], 0),
        ([array], 2),
        ([array], -3),
        ([array], 2**70),
        ([array, array[:, 1:]], 0),
        ([array, array[0]], 0),
    ):
        assert fast.joined(arrays, axis) is None
    for axis, inner in ((0, 4), (0, 0), (2, 1), (-1, 1)):
        assert fast.unflattened(array, axis, inner) is None
    assert fast.unflattened(np.zeros((1,) * 8), 0, 1) is None and fast.retyped(array, 0, 16) is None
    with pytest.raises(TypeError):
        fast.View()
    # An output that ctypes refuses: it reads the view beside it, and says what is wrong.
    with pytest.raises(quern.InvalidError, match=r"outputs\[0\]: the array is read-only"):
        context.transpose(array, out=read_only.reshape(4, 6))
    assert (context.transpose(read_only) == 0).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda context, x: context.transpose(x),
        lambda context, x: context.slice(x, ..., slice(1, 3)),
        lambda context, x: context.split(x, [1, 5]),
        lambda context, x: context.concat([x, x], 1),
        lambda context, x: context.repeat_interleave(x, 2),
        lambda context, x: context.pad(x, [(1, 0), (2, 3)]),
        lambda context, x: context.swiglu(x),
        lambda context, x: context.any(x, 0),
    ],
)
def test_moves_stay_in_the_module(call, context):
    x = np.ones((6, 4), np.float32)
    assert not entered(ops.Ops.call, lambda: call(context, x))


def test_errors_of_the_library_are_the_same(context):
    a, b = np.ones((3, 32), np.float16), np.ones((5, 24), np.float16)
    said = []
    for call in (context.call, lambda op, **named: ops.Ops.call(context, op, **named)):
        with pytest.raises(quern.InvalidError) as raised:
            call("gemm", a=a, b=b, out=np.empty((3, 5), np.float16))
        said.append((str(raised.value), raised.value.status, raised.value.native))
    assert said[0] == said[1] and "b.shape[1]" in said[0][0]


def test_nothing_is_kept(cache_folder):
    made = quern.Context("host", cache_path=cache_folder)
    a, b = np.ones((3, 32), np.float16), np.ones((5, 32), np.float16)
    count = sys.getrefcount(a)
    made.gemm(a, b)
    assert sys.getrefcount(a) == count
    bound = made.gemm.bind(a, b)
    gone = weakref.ref(made)
    del made
    assert (bound()[0, 0], gone() is not None) == (32, True)
    del bound
    gc.collect()
    assert gone() is None and sys.getrefcount(a) == count


def test_the_environment_chooses():
    said = "from quern import compiled; print(compiled.used())"
    for choice, expected in (("ctypes", "False"), ("compiled", "True"), ("", "True")):
        run = subprocess.run(
            [sys.executable, "-c", said],
            env={**os.environ, "QUERN_PYTHON": choice},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == expected
    run = subprocess.run(
        [sys.executable, "-c", said], env={**os.environ, "QUERN_PYTHON": "fast"}, capture_output=True, text=True
    )
    assert "QUERN_PYTHON: 'fast' given; allowed are compiled and ctypes" in run.stderr


def test_descriptions_have_every_argument():
    for op, declared in _abi.OPS.items():
        known = {argument[0] for argument in compiled.describe(declared)[1]}
        for kind in (declared.args, *structs.pointed_to(declared.args).values()):
            elsewhere = {"stream", "workspace", "workspace_size", *structs.counts(kind), *structs.pointed_to(kind)}
            assert structs.field_kinds(kind).keys() - known - elsewhere == set(), op


def test_a_failed_launch_gives_up_its_workspace(listener, context):
    asked, seen, needed = [], [], 64

    def workspace(context, args, size, error):
        asked.append(needed)
        size[0] = needed
        return 0

    def run(context, args, error):
        given = _abi.quern_gemm_args.from_address(args)
        if given.workspace_size < needed:
            return int(_abi.QUERN_INVALID)
        seen.append(given.workspace)
        return int(_abi.QUERN_DRIVER) if len(seen) == 2 else 0

    calls = [RUN(run), WORKSPACE(workspace)]
    addresses = [ctypes.cast(call, ctypes.c_void_p).value for call in calls]
    set_up([("gemm", compiled.describe(_abi.OPS["gemm"]), *addresses)], ops.Ops.call)
    taken = []

    def take(*_):
        taken.append(np.zeros(max(512, needed), np.uint8))
        return taken[-1], taken[-1].ctypes.data, taken[-1].size

    device = (_abi.kDLCPU, 0)
    launcher = compiled._module.Launcher(1, device, weakref.ref(context), take, lambda stream: None)
    launcher.call("gemm")
    with pytest.raises(quern.DriverError):
        launcher.call("gemm")
    launcher.call("gemm")
    launcher.call("gemm")
    assert seen[0] == seen[1] and seen[2] == seen[3] and len(taken) == 2
    launcher.forget()
    launcher.call("gemm")
    assert len(taken) == 3
    # Nobody asks but for a call that is refused what it has; one that needs more gets it.
    assert len(asked) == 3
    needed = 1024
    launcher.call("gemm")
    assert len(asked) == len(taken) == 4 and seen[-1] != seen[-2]
    needed = 64
    launcher.call("gemm")
    assert len(asked) == 4 and seen[-1] == seen[-2]
