# The README and the pages: every block of C, Python and shell is run as it stands, on `host`, in the order of its page
# and in a folder of its own; their links lead somewhere.
#
# The folder looks like a checkout that was built: ./dev installs what the tests are run with and builds nothing. What
# would take minutes (a whole model for a GPU) is listed, unless QUERN_TEST_WHOLE_PAGES is set.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import quern.library

ROOT = Path(__file__).resolve().parents[2]
TOP = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "capi/THIRD_PARTY_NOTICES.md")
]
PAGES = [*TOP, *sorted(ROOT.glob("sources/*/README.md")), *sorted(ROOT.glob("bindings/*/README.md"))]
BUILD = Path(quern.library.library()._name).resolve().parents[1]

DEV = """#!/bin/sh
case $1 in
  install) cmake --install {build} --prefix "$2" >/dev/null ;;
  *) echo "dev $*: not in this test" ;;
esac
"""
SHELL = """
set -e
pip() {{ {python} -m pip "$@" --quiet --no-deps --no-build-isolation --no-index --target {site}; }}
quern() {{
  local more=
  case "$*" in manifest*) ;; *--config*) more={list_only} ;; esac
  command quern "$@" $more
}}
"""


def blocks(page):
    """(language, text) of every block that is marked with a language, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.S | re.M)


def name_of(page):
    return str(page.relative_to(ROOT))


def whole_program(text):
    return re.search(r"^int main\(void\)", text, re.M) is not None


class Reader:
    """Somebody who pastes one block after the other."""

    def __init__(self, folder, cache):
        self.folder = folder / "checkout"
        self.folder.mkdir()
        for name in ("bindings", "capi", "jit", "sources", "tests", "LICENSE"):
            (self.folder / name).symlink_to(ROOT / name)
        dev = self.folder / "dev"
        dev.write_text(DEV.format(build=BUILD))
        dev.chmod(0o755)
        (self.folder / ".venv" / "bin").mkdir(parents=True)
        (self.folder / ".venv" / "bin" / "activate").write_text("# NVRTC is found without it here\n")
        site, self.prefix = folder / "site", folder / "prefix"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "XDG_CACHE_HOME": str(cache),
            "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{site}:{BUILD / 'python'}",
            "QUERN_LIBRARY_DIR": str(BUILD / "lib"),
            "CC": compiler(),
        }
        list_only = "" if os.environ.get("QUERN_TEST_WHOLE_PAGES") else "--list-only"
        self.prelude = SHELL.format(python=sys.executable, site=site, list_only=list_only)

    def run(self, arguments):
        run = subprocess.run(
            arguments, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
        return run.stdout

    def python(self, text):
        self.run([sys.executable, "-c", text])

    def sh(self, text):
        self.run(["bash", "-c", self.prelude + text.replace("/opt/quern", str(self.prefix))])

    def c(self, text):
        """A program is built and run, anything else must compile."""
        source = self.folder / "app.c"
        if whole_program(text):
            source.write_text(text)
            library = BUILD / "lib" / "libquern.so"
            link = [f"-I{ROOT / 'capi'}", source, "-o", self.folder / "page", library, "-ldl"]
            self.run([compiler(), "-Wall", "-Wextra", "-Werror", *link, f"-Wl,-rpath,{library.parent}"])
            self.run([self.folder / "page"])
            return
        if "\n}\n" not in text:  # statements without their function
            text = f"void example(void) {{\n{text}  (void)options;\n}}\n"
        part = self.folder / "part.c"
        part.write_text("#include <stdio.h>\n#include <quern.h>\n" + text)
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only"]
        self.run([compiler(), *flags, f"-I{ROOT / 'capi'}", part])


def compiler():
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    assert found, "a C compiler is needed"
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_a_page_runs_from_its_top(page, tmp_path, cache_folder, context):
    reader = Reader(tmp_path, cache_folder)
    for language, text in blocks(page):
        if "QUERN_KERNEL" in text and language == "c" and not whole_program(text):
            entry = re.search(r"QUERN_KERNEL\((\w+),", text)[1]
            assert context.kernel(text, entry).info.max_threads >= 1
        elif language in ("c", "python", "sh"):
            getattr(reader, language)(text)
        else:
            # CMake's are a test of their own, tests/install/subproject.
            assert language in ("cpp", "text", "diff", "cmake"), (
                f"{name_of(page)} has a block of {language}, which is not run"
            )


def test_the_readme_has_a_block_of_each_kind():
    languages = {language for language, _ in blocks(ROOT / "README.md")}
    assert {"c", "python", "sh"} <= languages
    assert any(whole_program(text) for language, text in blocks(ROOT / "README.md") if language == "c")


def test_every_op_has_a_page_and_a_row():
    readme = (ROOT / "README.md").read_text()
    for op in re.findall(r"^QUERN_OP\((\w+)", (ROOT / "sources" / "ops.def").read_text(), re.M):
        assert (ROOT / "sources" / op / "README.md").exists(), op
        assert f"| `{op}` |" in readme, op
        assert f"(sources/{op}/README.md)" in readme, op


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
