# `pip install` of the package: complete, libquern and the compile helper inside, and working far from the checkout.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
from pathlib import Path

from quern.library import library

ROOT = Path(__file__).resolve().parents[2]
USE = """
import sys, quern
from quern.library import library
source = '#include "quern/kernel.cuh"\\nQUERN_KERNEL(k, 1, 1, int *out) { *out = 42; }\\n'
import ctypes
out = ctypes.c_int()
with quern.Context("host", no_cache=True) as context:
    context.kernel(source, "k").launch(1, 1, [ctypes.c_void_p(ctypes.addressof(out))])
print(library()._name, out.value)
"""


def test_an_installed_package_needs_no_checkout(tmp_path):
    # From a copy, since setuptools leaves its build folder beside setup.py.
    checkout, target = tmp_path / "checkout", tmp_path / "site"
    shutil.copytree(ROOT / "bindings" / "python", checkout / "bindings" / "python")
    (checkout / "capi").mkdir()
    shutil.copy(ROOT / "capi" / "quern.h", checkout / "capi")
    built = str(Path(library()._name).resolve().parent)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("QUERN_", "PYTHONPATH"))}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*pip, "--target", target, checkout / "bindings" / "python"],
        env={**environment, "QUERN_LIBRARY_DIR": built},
        check=True,
    )
    sources = {path.name for path in (ROOT / "bindings" / "python" / "quern").iterdir() if path.is_file()}
    installed = {path.name for path in (target / "quern").iterdir() if path.is_file()}
    assert installed == sources | {"_abi.py", "libquern.so", "quern-compile-helper"}
    assert os.access(target / "quern" / "quern-compile-helper", os.X_OK)
    run = subprocess.run(
        [sys.executable, "-c", USE],
        env={**environment, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == f"{target / 'quern' / 'libquern.so'} 42\n"
