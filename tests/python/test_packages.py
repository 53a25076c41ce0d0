# Packages: one version everywhere, every recipe names what is linked, and the check of packages sees what is wrong. The
# packages themselves take a quarter of an hour to make: ./dev package, then bindings/packages/try_packages.sh.
# SPDX-License-Identifier: Apache-2.0
import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import quern
from quern.library import library

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "bindings" / "packages"
LINKED = {"sqlite", "sodium", "mbedtls", "xxhash"}  # statically, or from a header


def checker():
    spec = importlib.util.spec_from_file_location("check", PACKAGES / "check.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_versions_agree():
    version, abi = checker().header_version()
    assert quern.__version__ == quern.version() == version
    assert json.loads((PACKAGES / "vcpkg" / "quern" / "vcpkg.json").read_text())["version"] == version
    # The others read the header: with patterns that find it there.
    header = (ROOT / "capi" / "quern.h").read_text(encoding="utf-8")
    meta = (PACKAGES / "conda" / "meta.yaml").read_text()
    pattern = re.search(r"regex_pattern='(.+?)'\)", meta)[1].encode().decode("unicode_escape")
    assert ".".join(re.search(pattern, header).groups()) == version
    conan = (PACKAGES / "conan" / "conanfile.py").read_text()
    assert re.search(r"#define QUERN_VERSION_MAJOR (\d+)", header) and "QUERN_VERSION_{part}" in conan
    real = Path(library()._name).resolve()
    dynamic = subprocess.run(["readelf", "--dynamic", real], capture_output=True, text=True, check=True).stdout
    assert "SONAME) " in dynamic and f"[libquern.so.{abi}]" in dynamic
    assert re.search(rf"^version = \"{version}\"$", (ROOT / "bindings/rust/quern/Cargo.toml").read_text(), re.M)


@pytest.mark.parametrize("recipe", ["vcpkg/quern/vcpkg.json", "conan/conanfile.py", "conda/meta.yaml"])
def test_recipes_name_what_is_linked(recipe):
    text = (PACKAGES / recipe).read_text().lower()
    for name in LINKED:
        assert name in text, name
    if recipe.endswith(".py"):
        ast.parse(text)
    else:
        assert "apache-2.0" in text
    notices = (ROOT / "capi" / "THIRD_PARTY_NOTICES.md").read_text().lower()
    assert all(name in notices.replace(" ", "") for name in LINKED)


def test_the_check_sees_what_is_wrong(tmp_path):
    check = checker()
    version, abi = check.header_version()
    run = [sys.executable, PACKAGES / "check.py", tmp_path]
    empty = subprocess.run(run, capture_output=True, text=True)
    assert empty.returncode == 1 and "not three Debian packages and a wheel" in empty.stdout
    # What was built here is for this machine, and not stripped.
    package = tmp_path / "tree" / "quern"
    package.mkdir(parents=True)
    shutil.copy(Path(library()._name).resolve(), package / f"libquern.so.{abi}")
    found = check.tree_faults(tmp_path / "tree", "here", abi)
    assert any("needs glibc 2.3" in fault for fault in found)
    assert not any("exports" in fault or "lacks" in fault or "is not named" in fault for fault in found)
    wheel = tmp_path / f"quern-{version}-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("quern/LICENSE", "")
    found = check.check_wheel(wheel, version, abi)
    assert any("is not named for version" in fault for fault in found)
    assert any("lacks quern/libquern.so" in fault for fault in found)
