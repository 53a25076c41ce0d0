# The sources of the site, as ./dev site makes them, without MkDocs: every page that links has a page to link to, every
# op and every part of quern.h is there. `./dev site` itself also looks at the HTML (bindings/site/check.py).
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "bindings" / "site"


def module(name):
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, SITE / "build.py", folder], check=True, capture_output=True)
    return folder / "docs"


def links(text):
    """Where a page's links lead, those in code left out."""
    plain = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", plain))


def test_every_link_has_a_page(docs):
    pages = list(docs.rglob("*.md"))
    assert len(pages) > 100
    followed = 0
    for page in pages:
        if "files" in page.relative_to(docs).parts:
            continue  # files of the repository, shown as they are
        for link in links(page.read_text(encoding="utf-8")):
            path = link.partition("#")[0]
            if "://" in link or not path:
                continue
            followed += 1
            assert (page.parent / path).exists(), f"{page.relative_to(docs)} links to {link}"
    assert followed > 150


def test_every_op_and_part_of_the_header_is_there(docs):
    build = module("build")
    for op in build.read_ops((ROOT / "sources" / "ops.def").read_text(encoding="utf-8")):
        text = (docs / "ops" / f"{op}.md").read_text(encoding="utf-8")
        assert f"}} quern_{op}_args;" in text, f"{op}: its struct is not on its page"
    header = (ROOT / "capi" / "quern.h").read_text(encoding="utf-8")
    shown = "".join(page.read_text(encoding="utf-8") for page in (docs / "header").glob("*.md"))
    for name in re.findall(r"\b(quern_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)):
        assert name in shown
    menu = (docs.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in re.findall(r"[\w/]+\.md", menu):
        assert (docs / page).exists(), page


def test_the_checker_sees_what_is_wrong(tmp_path):
    check = module("check")
    (tmp_path / "a.html").write_text('<a href="b.html#here">x</a><a id="there" href="#there">y</a>', encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">z</a><a href="https://example.org">w</a>')
    assert check.faults(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="b.html#nowhere">x</a><a href="../out.html">y</a><script src="https://example.org/s.js"></script>'
    )
    found = check.faults(tmp_path)
    assert len(found) == 3
    assert "no such place" in found[0] and "leads nowhere" in found[1] and "fetched from elsewhere" in found[2]
