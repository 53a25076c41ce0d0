# What a call of an op costs in Python, in processor time above the call of the C ABI: against a library whose functions
# return at once, so that all that is measured is the binding's. PyTorch's own product of two small matrices stands
# beside, for scale.
#   PYTHONPATH=build/python python3 tests/bench/python_calls.py [seconds]      QUERN_PYTHON=ctypes: without _fast
# With --cuda in front of the seconds: on a GPU by the real library, the time that the processor spends on a call of a
# small problem, the GPU's own not waited for, beside the same call in C and torch.mm of the same matrices.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    torch = None


def stub(folder):
    """A libquern that does nothing, made of the package's own list of functions."""
    from quern import _abi

    special = {
        "quern_abi_version": f"unsigned quern_abi_version(void) {{ return {_abi.QUERN_ABI_VERSION}; }}",
        "quern_context_create": "int quern_context_create(const void *o, void **c, void *e) "
        "{ static int made; (void)o; (void)e; *c = &made; return 0; }",
    }
    lines = [special.get(name, f"int {name}(void) {{ return 0; }}") for name in _abi.FUNCTIONS]
    source, library = folder / "stub.c", folder / "libquern.so"
    source.write_text("\n".join(lines))
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-w", source, "-o", library], check=True)
    return str(library)


def spent_on(call, count):
    start = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - start


def microseconds(call, seconds):
    """Processor time of one call: the least of five runs."""
    count, spent = 100, 0.0
    while spent < seconds / 5:
        spent = spent_on(call, count)
        count *= 2
    return 1e6 * min(spent_on(call, count // 2) for _ in range(5)) / (count // 2)


# Launches that a GPU queues before it makes the processor wait: fewer than that at a time.
QUEUE = 400


def microseconds_on_gpu(call, seconds, count=QUEUE):
    """The least of the runs that fit into this time, each of as many launches as are queued without waiting."""
    runs, end = [], time.monotonic() + seconds
    spent_on(call, 20)
    while len(runs) < 5 or time.monotonic() < end:
        torch.cuda.synchronize()
        runs.append(spent_on(call, count))
    torch.cuda.synchronize()
    return 1e6 * min(runs) / count


LOOP = """
#include <stdint.h>
int32_t repeat(int32_t (*call)(void *, const void *, void *), void *context, const void *args, int32_t count) {
  int32_t failed = 0;
  for (int32_t i = 0; i < count; ++i) failed |= call(context, args, 0);
  return failed;
}
"""


def in_c(folder, context, method, *arguments, **named):
    """What calls an op QUEUE times in C with the args struct that this method of the context would make."""
    from quern import bound, library

    source, made = folder / "loop.c", folder / "loop.so"
    if not made.exists():
        source.write_text(LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", made], check=True)
    repeat = ctypes.CDLL(str(made)).repeat
    recorder = bound._Recorder(context)
    getattr(type(context), method)(recorder, *arguments, **named)
    op, launch, _, owner = recorder._recorded
    call, handle = getattr(library.library(), f"quern_{op}"), ctypes.cast(context._handle, ctypes.c_void_p)

    def run(keep=owner):
        assert repeat(ctypes.cast(call, ctypes.c_void_p), handle, ctypes.byref(launch.args), QUEUE) == 0

    return run


def on_gpu(seconds):
    import quern

    def array(shape, dtype):
        return torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda")

    def say(what, time_of, beside=""):
        print(f"CUDA     {what:24} {time_of:7.2f} us{beside}", flush=True)

    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "through",
          "quern._fast" if quern.compiled.used() else "ctypes")  # fmt: skip
    with quern.Context("cuda") as context, tempfile.TemporaryDirectory() as folder, torch.no_grad():
        x, y, out = array((4, 64), "float16"), array((64, 32), "float16"), array((4, 32), "float16")
        product = microseconds_on_gpu(lambda: torch.mm(x, y), seconds)
        say("torch.mm", product)
        say("torch.mm, out given", microseconds_on_gpu(lambda: torch.mm(x, y, out=out), seconds))
        in_c_took = {}
        a, b, q, pages = (array(shape, "float16") for shape in ((4, 64), (32, 64), (4, 8, 64), (16, 16, 2, 64)))
        paged = {"lengths": array((4,), "int32"), "page_table": array((4, 4), "int32"), "causal": True}
        for method, arguments, named in (("gemm", (a, b), {}), ("attention", (q, pages, pages), paged)):
            repeated = in_c(Path(folder), context, method, *arguments, **named)
            in_c_took[method] = microseconds_on_gpu(repeated, seconds, 1) / QUEUE
            say(f"{method}, in C", in_c_took[method])
        for what, call in calls(context, array):
            took = microseconds_on_gpu(call, seconds)
            beside = f", {took / product:.2f} of torch.mm"
            if what.endswith("bound"):
                beside += f", {took - in_c_took[what.split(',')[0]]:.2f} us above C"
            say(what, took, beside)


def calls(context, array):
    """Calls by their names. `array`: (shape, dtype) to a framework's array."""
    a, b, out = array((4, 64), "float16"), array((32, 64), "float16"), array((4, 32), "float16")
    q, pages = array((4, 8, 64), "float16"), array((16, 16, 2, 64), "float16")
    lengths, table = array((4,), "int32"), array((4, 4), "int32")
    paged = {"lengths": lengths, "page_table": table, "causal": True}
    attended = array((4, 8, 64), "float16")
    yield "gemm", lambda: context.gemm(a, b)
    yield "gemm, out given", lambda: context.gemm(a, b, out=out)
    yield "attention", lambda: context.attention(q, pages, pages, **paged)
    yield "attention, out given", lambda: context.attention(q, pages, pages, out=attended, max_kv_len=64, **paged)
    yield "rmsnorm", lambda: context.rmsnorm(a, eps=1e-5)
    yield "softmax", lambda: context.softmax(a)
    yield "quantize", lambda: context.quantize(a, scale_kind="token")
    yield "sum", lambda: context.sum(a, -1)
    yield "add", lambda: context.add(a, a)
    yield "transpose", lambda: context.transpose(b)
    yield "concat", lambda: context.concat([b, b])
    yield "split in two", lambda: context.split(b, [16, 16])
    yield "slice", lambda: context.slice(b, slice(1, 9), slice(0, 32))
    yield "swiglu of one tensor", lambda: context.swiglu(a)
    yield "rmsnorm with a residual", lambda: context.rmsnorm(a, residual=a, eps=1e-5)
    yield "quantize by groups", lambda: context.quantize(a)
    logits, ids = array((4, 1000), "float32"), array((4,), "int32")
    yield "sample", lambda: context.sample(logits, temperature=0.8, top_k=50, top_p=0.9)
    yield "top_k", lambda: context.top_k(logits, 8)
    yield "gather", lambda: context.gather(b, ids)
    yield "rope", lambda: context.rope(q, positions=ids, theta=1e4)
    if hasattr(context.gemm, "bind"):
        yield "gemm, bound", context.gemm.bind(a, b)
        yield "attention, bound", context.attention.bind(q, pages, pages, **paged)


def main():
    if sys.argv[1:2] == ["--cuda"]:
        on_gpu(float(sys.argv[2]) if len(sys.argv) > 2 else 0.2)
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_LIBRARY"] = stub(Path(folder))
        import quern

        compiled = getattr(quern, "compiled", None)
        print("through", "quern._fast" if compiled is not None and compiled.used() else "ctypes")
        frameworks = {"NumPy": lambda shape, dtype: np.zeros(shape, dtype)}
        if torch is not None:
            torch.set_num_threads(1)
            frameworks["PyTorch"] = lambda shape, dtype: torch.zeros(shape, dtype=getattr(torch, dtype))
        with quern.Context("host") as context:
            for name, array in frameworks.items():
                for what, call in calls(context, array):
                    print(f"{name:8} {what:24} {microseconds(call, seconds):7.2f} us", flush=True)
        if torch is not None:
            a, b, out = torch.ones(4, 64), torch.ones(64, 32), torch.ones(4, 32)
            print(f"PyTorch  {'torch.mm':24} {microseconds(lambda: torch.mm(a, b), seconds):7.2f} us")
            print(
                f"PyTorch  {'torch.mm, out given':24} {microseconds(lambda: torch.mm(a, b, out=out), seconds):7.2f} us"
            )


if __name__ == "__main__":
    main()
