# `pip install` of the package: complete, libquern and the compile helper inside, and working far from the checkout.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
from pathlib import Path

import quern
from quern.library import library

ROOT = Path(__file__).resolve().parents[2]
NOTICES = ("LICENSE", "THIRD_PARTY_NOTICES.md")
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
    for name in ("quern.h", "header.py", "THIRD_PARTY_NOTICES.md"):
        shutil.copy(ROOT / "capi" / name, checkout / "capi")
    (checkout / "sources").mkdir()
    shutil.copy(ROOT / "sources" / "ops.def", checkout / "sources")
    shutil.copy(ROOT / "LICENSE", checkout)
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
    module = {"_fast.abi3.so"} if (Path(quern.__file__).parent / "_fast.abi3.so").exists() else set()
    assert installed == sources | {"_abi.py", "libquern.so.1", "quern-compile-helper", "quern", *NOTICES} | module
    assert os.access(target / "quern" / "quern-compile-helper", os.X_OK)
    run = subprocess.run(
        [sys.executable, "-c", USE],
        env={**environment, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == f"{target / 'quern' / 'libquern.so.1'} 42\n"
    # The command comes along, and finds the library beside it.
    version = subprocess.run(
        [target / "bin" / "quern", "--version"],
        env={**environment, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.startswith(f"quern {quern.__version__} ")
    assert not list((checkout / "bindings" / "python").glob("build")), "left in the source tree"
    assert not list((checkout / "bindings" / "python").glob("*.egg-info"))


def test_without_a_built_library_it_fails_at_once(tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "bindings" / "python", checkout / "bindings" / "python")
    (checkout / "capi").mkdir()
    shutil.copy(ROOT / "capi" / "quern.h", checkout / "capi")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    run = subprocess.run(
        [*pip, "--target", tmp_path / "site", checkout / "bindings" / "python"],
        env={name: value for name, value in os.environ.items() if not name.startswith("QUERN_")},
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0
    assert "there is no libquern.so" in run.stdout + run.stderr
    assert "./dev build" in run.stdout + run.stderr
