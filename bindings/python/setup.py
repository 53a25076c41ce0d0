# `pip install ./bindings/python` from a checkout: makes _abi.py from capi/quern.h and, where libquern has been built,
# takes it and the compile helper into the package. QUERN_LIBRARY_DIR names the folder with libquern.so when it is not
# the checkout's build/lib; without a library the installed package finds libquern as quern/library.py says.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
HEADER = CHECKOUT / "capi" / "quern.h"
OPS = CHECKOUT / "sources" / "ops.def"


def binaries() -> list[Path]:
    """libquern.so and the compile helper beside it."""
    named = os.environ.get("QUERN_LIBRARY_DIR")
    folder = Path(named) if named else CHECKOUT / "build" / "lib"
    found = [folder / name for name in ("libquern.so", "quern-compile-helper") if (folder / name).exists()]
    if named and not found:
        sys.exit(f"QUERN_LIBRARY_DIR: there is no libquern.so in {folder}")
    return found


class BuildPackage(build_py):
    def run(self) -> None:
        super().run()
        package = Path(self.build_lib) / "quern"
        if not HEADER.exists():
            sys.exit(f"{HEADER} is not there: install from a checkout of quern")
        subprocess.run([sys.executable, HERE / "generate_abi.py", HEADER, package / "_abi.py", OPS], check=True)
        for binary in binaries():
            shutil.copy(binary, package / binary.name)  # a versioned name's content and its permissions


class Wheel(bdist_wheel):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = not binaries()

    def get_tag(self) -> tuple[str, str, str]:
        # ctypes needs no particular Python, the library its platform.
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel})
