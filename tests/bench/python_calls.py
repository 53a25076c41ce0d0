# What a call of an op costs in Python, in processor time above the call of the C ABI: against a library whose functions
# return at once, so that all that is measured is the binding's. PyTorch's own product of two small matrices stands
# beside, for scale.
#   PYTHONPATH=build/python python3 tests/bench/python_calls.py [seconds]      QUERN_PYTHON=ctypes: without _fast
# SPDX-License-Identifier: Apache-2.0
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


def microseconds(call, seconds):
    """Processor time of one call: the least of five runs."""
    count, spent = 100, 0.0
    while spent < seconds / 5:
        start = time.process_time()
        for _ in range(count):
            call()
        spent = time.process_time() - start
        count *= 2
    runs = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(count // 2):
            call()
        runs.append((time.process_time() - start) / (count // 2))
    return 1e6 * min(runs)


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
    if hasattr(context.gemm, "bind"):
        yield "gemm, bound", context.gemm.bind(a, b)
        yield "attention, bound", context.attention.bind(q, pages, pages, **paged)


def main():
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
