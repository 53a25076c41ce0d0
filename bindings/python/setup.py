# `pip install ./bindings/python` from a checkout that has been built (./dev build release): makes _abi.py from
# capi/quern.h and takes libquern, the compile helper, the command and, where it was built, the compiled module into the
# package, without their debugging information.
#   QUERN_LIBRARY_DIR      the folder with libquern.so, when it is neither build/release/lib nor build/lib
#   QUERN_WHEEL_PLATFORM   the wheel's platform, where the library was built for more than this machine: ./dev package
#                          says manylinux_2_28_x86_64, and holds what it made against it
#   QUERN_WITHOUT_LIBRARY  set: none is taken; the installed package finds libquern as quern/library.py says
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
HEADER = CHECKOUT / "capi" / "quern.h"
OPS = CHECKOUT / "sources" / "ops.def"


def header_number(name: str) -> str:
    """A number that quern.h defines."""
    if not HEADER.exists():
        sys.exit(f"{HEADER} is not there: install from a checkout of quern")
    found = re.search(rf"^#define {name} (\d+)$", HEADER.read_text(encoding="utf-8"), re.M)
    return found[1] if found else sys.exit(f"{HEADER} does not define {name}")


def version() -> str:
    return ".".join(header_number(f"QUERN_VERSION_{part}") for part in ("MAJOR", "MINOR", "PATCH"))


def binaries() -> dict[str, Path]:
    """What goes into the package, by its name there: the library by its SONAME, which the command asks for."""
    if os.environ.get("QUERN_WITHOUT_LIBRARY"):
        return {}
    named = os.environ.get("QUERN_LIBRARY_DIR")
    folders = [Path(named)] if named else [CHECKOUT / "build" / "release" / "lib", CHECKOUT / "build" / "lib"]
    built = [folder for folder in folders if (folder / "libquern.so").exists()]
    if not built:
        sys.exit(
            f"there is no libquern.so in {' or '.join(map(str, folders))}: build it first (./dev build release), "
            "name its folder in QUERN_LIBRARY_DIR, or set QUERN_WITHOUT_LIBRARY=1 to use one that is found at run time"
        )
    folder = built[0]
    places = {
        f"libquern.so.{header_number('QUERN_ABI_VERSION')}": folder / "libquern.so",
        "quern-compile-helper": folder / "quern-compile-helper",
        "quern": folder.parent / "bin" / "quern",
        "_fast.abi3.so": folder.parent / "python" / "quern" / "_fast.abi3.so",
    }
    return {name: place for name, place in places.items() if place.exists()}


class BuildPackage(build_py):
    def run(self) -> None:
        taken = binaries()
        super().run()
        package = Path(self.build_lib) / "quern"
        subprocess.run([sys.executable, HERE / "generate_abi.py", HEADER, package / "_abi.py", OPS], check=True)
        strip = shutil.which("strip")
        for name, binary in taken.items():
            shutil.copy(binary, package / name)  # a versioned name's content and its permissions
            if strip:
                subprocess.run([strip, "--strip-unneeded", package / name], check=True)
        for notice in (CHECKOUT / "LICENSE", CHECKOUT / "capi" / "THIRD_PARTY_NOTICES.md"):
            if notice.exists():
                shutil.copy(notice, package / notice.name)


class Wheel(bdist_wheel):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = not binaries()

    def get_tag(self) -> tuple[str, str, str]:
        # ctypes needs no particular Python, and _fast is for all that it knows; the library needs its platform.
        platform = os.environ.get("QUERN_WHEEL_PLATFORM") if not self.root_is_pure else None
        return ("py3", "none", platform or super().get_tag()[2])


class Binary(Distribution):
    def has_ext_modules(self) -> bool:
        return bool(binaries())  # what belongs to a platform is installed where such things are


with tempfile.TemporaryDirectory(prefix="quern-package-") as elsewhere:
    # Nothing is left in the checkout.
    setup(
        version=version(),
        distclass=Binary,
        cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel},
        options={"build": {"build_base": elsewhere}, "egg_info": {"egg_base": elsewhere}},
    )
