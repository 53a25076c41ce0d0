# What packages promise, held against what is in them: the C library they need, what they link to and export, versions
# that agree, licences that come along.
# SPDX-License-Identifier: Apache-2.0
"""usage: check.py FOLDER    with *.deb and *.whl, as ./dev package makes them"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLIBC = (2, 28)
# What every Linux has; all else comes along, linked statically.
ALLOWED = {f"lib{name}.so.{number}" for name, number in (("c", 6), ("m", 6), ("pthread", 0), ("dl", 2), ("rt", 1))} | {
    "ld-linux-x86-64.so.2"
}


def header_version() -> tuple[str, str]:
    """The version and the ABI's number, as quern.h states them."""
    text = (ROOT / "capi" / "quern.h").read_text(encoding="utf-8")
    number = {name: re.search(rf"#define QUERN_{name} (\d+)", text)[1] for name in names()}
    return ".".join(number[f"VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")), number["ABI_VERSION"]


def names() -> list[str]:
    return ["VERSION_MAJOR", "VERSION_MINOR", "VERSION_PATCH", "ABI_VERSION"]


def told(*command: str | Path) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def binary_faults(file: Path, where: str, abi: str) -> list[str]:
    """What is wrong with a program or a library."""
    found = []
    for version in re.findall(r"GLIBC_(\d+)\.(\d+)", told("objdump", "-T", file)):
        if tuple(map(int, version)) > GLIBC:
            found.append(f"{where} needs glibc {'.'.join(version)}, newer than {GLIBC[0]}.{GLIBC[1]}")
    dynamic = told("readelf", "--dynamic", file)
    for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
        if needed not in ALLOWED | {f"libquern.so.{abi}"}:
            found.append(f"{where} needs {needed}")
    if "debug_info" in told("readelf", "--sections", file):
        found.append(f"{where} has debugging information")
    if "libquern.so" in file.name:
        if f"[libquern.so.{abi}]" not in dynamic:
            found.append(f"{where} is not named libquern.so.{abi} inside")
        exported = set(re.findall(r" [A-Z] (\w+)", told("nm", "--dynamic", "--defined-only", file)))
        wanted = set((ROOT / "tests" / "abi" / "symbols.txt").read_text(encoding="utf-8").split())
        for name in sorted(name for name in exported ^ wanted if not name.startswith("QUERN_")):
            found.append(f"{where} {'exports' if name in exported else 'lacks'} {name}")
    return found


def tree_faults(folder: Path, what: str, abi: str) -> list[str]:
    """What is wrong with an unpacked package."""
    found = []
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF":
            found += binary_faults(file, f"{what}: {file.relative_to(folder)}", abi)
    return found


def check_deb(deb: Path, version: str, abi: str) -> list[str]:
    found = []
    if told("dpkg-deb", "--field", deb, "Version").strip() != version:
        found.append(f"{deb.name} is not of version {version}")
    name = told("dpkg-deb", "--field", deb, "Package").strip()
    with tempfile.TemporaryDirectory() as folder:
        told("dpkg-deb", "--extract", deb, folder)
        found += tree_faults(Path(folder), deb.name, abi)
        files = {str(file.relative_to(folder)) for file in Path(folder).rglob("*")}
    wanted = {
        f"libquern{abi}": ["libquern.so." + abi, "quern-compile-helper", "LICENSE", "THIRD_PARTY_NOTICES.md"],
        "libquern-dev": ["include/quern.h", "include/quern.hpp", "libquern.so", "quern.pc", "quern-config.cmake"],
        "quern": ["bin/quern", "man1/quern.1", "completions/quern"],
    }
    for ending in wanted.get(name, []):
        if not any(file.endswith(ending) for file in files):
            found.append(f"{deb.name} lacks {ending}")
    return found if name in wanted else [*found, f"{deb.name}: nobody knows the package {name}"]


def check_wheel(wheel: Path, version: str, abi: str) -> list[str]:
    found = []
    if not wheel.name.startswith(f"quern-{version}-py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"):
        found.append(f"{wheel.name} is not named for version {version} and glibc {GLIBC[0]}.{GLIBC[1]}")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        found += tree_faults(Path(folder), wheel.name, abi)
        for name in (
            f"libquern.so.{abi}",
            "quern-compile-helper",
            "quern",
            "LICENSE",
            "THIRD_PARTY_NOTICES.md",
            "_abi.py",
        ):
            if not (Path(folder) / "quern" / name).exists():
                found.append(f"{wheel.name} lacks quern/{name}")
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    version, abi = header_version()
    debs, wheels = sorted(folder.glob("*.deb")), sorted(folder.glob("*.whl"))
    found = [] if len(debs) == 3 and len(wheels) == 1 else [f"{folder}: not three Debian packages and a wheel"]
    for deb in debs:
        found += check_deb(deb, version, abi)
    for wheel in wheels:
        found += check_wheel(wheel, version, abi)
    for fault in found:
        print(fault)
    if not found:
        for file in [*debs, *wheels]:
            print(f"{file.stat().st_size:>9} {file}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
