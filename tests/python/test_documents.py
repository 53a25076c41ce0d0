# The README and the reference pages: their Python examples run, their C examples compile, and run where they are
# programs for the host target; their links lead somewhere.
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
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("sources/*/README.md"))]


def blocks(language):
    """(page, number from 1, text) of every block of a language."""
    found = []
    for page in PAGES:
        texts = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)
        found += [(page, number, text) for number, text in enumerate(texts, 1)]
    return found


def name_of(block):
    return f"{block[0].relative_to(ROOT)}#{block[1]}"


@pytest.mark.parametrize("block", blocks("python"), ids=name_of)
def test_python_examples_run(block, cache_folder):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache_folder)}
    run = subprocess.run([sys.executable, "-c", block[2]], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def is_kernel(block):
    return "QUERN_KERNEL" in block[2]


@pytest.mark.parametrize("block", [block for block in blocks("c") if is_kernel(block)], ids=name_of)
def test_kernels_compile(context, block):
    entry = re.search(r"QUERN_KERNEL\((\w+),", block[2])[1]
    assert context.kernel(block[2], entry).info.max_threads >= 1


@pytest.mark.parametrize("block", [block for block in blocks("c") if not is_kernel(block)], ids=name_of)
def test_c_examples_compile(block, tmp_path):
    text, source = block[2], tmp_path / "example.c"
    if "\n}\n" not in text:  # statements without their function
        text = f"void example(void) {{\n{text}  (void)options;\n}}\n"
    source.write_text("#include <stdio.h>\n#include <quern.h>\n" + text)
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only"]
    run = subprocess.run(
        [compiler, *flags, f"-I{ROOT / 'capi'}", str(source)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def is_host_program(block):
    return "int main(void)" in block[2] and ".device_type = kDLCPU}" in block[2]


@pytest.mark.parametrize("block", [block for block in blocks("c") if is_host_program(block)], ids=name_of)
def test_c_programs_run(block, tmp_path, cache_folder):
    source, program, library = tmp_path / "example.c", tmp_path / "example", Path(quern.library.library()._name)
    source.write_text(block[2])
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    link = [f"-I{ROOT / 'capi'}", str(source), "-o", str(program), str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, "-std=c99", *link], check=True)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache_folder)}
    run = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
