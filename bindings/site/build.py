# Makes the site's sources: pages that exist in the repository, moved to where a reader looks for them, with quern.h cut
# into a reference beside them. MkDocs makes HTML of that (./dev site).
# SPDX-License-Identifier: Apache-2.0
"""usage: build.py FOLDER    writes FOLDER/mkdocs.yml and FOLDER/docs"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "capi"))
from header import read_ops  # noqa: E402

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
SECTION = re.compile(r"^/\* ---- (.+?)(?: -{3,}.*)?(?: \*/)?$")
LANGUAGES = {".h": "c", ".hpp": "cpp", ".cuh": "cuda", ".py": "python", ".def": "c", ".toml": "toml", ".json": "json"}
PICTURES = (".svg", ".png")

# Where what page of the repository goes. The folders `pages` and `sources/OP` are added by themselves.
PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "deployment/security.md",
    "CONTRIBUTING.md": "extend/contributing.md",
    "bindings/README.md": "start/index.md",
    "bindings/python/README.md": "start/python.md",
    "bindings/cpp/README.md": "start/cpp.md",
    "bindings/rust/README.md": "start/rust.md",
    "bindings/go/README.md": "start/go.md",
    "bindings/node/README.md": "start/node.md",
    "bindings/java/README.md": "start/java.md",
    "bindings/csharp/README.md": "start/csharp.md",
    "bindings/zig/README.md": "start/zig.md",
    "bindings/ffi/README.md": "start/ffi.md",
    "bindings/tvm_ffi/README.md": "start/tvm_ffi.md",
    "bindings/jax/README.md": "start/jax.md",
    "bindings/ggml/README.md": "start/ggml.md",
    "bindings/cli/README.md": "start/command.md",
    "bindings/engine/README.md": "start/engine.md",
    "bindings/packages/README.md": "start/packages.md",
    "sources/NAMES.md": "ops/names.md",
    "sources/kernel/README.md": "extend/kernels.md",
    "sources/expression/README.md": "extend/expressions.md",
    "sources/README.md": "extend/ops.md",
    "sources/common/README.md": "extend/device_layer.md",
    "tests/bench/README.md": "figures.md",
    "capi/THIRD_PARTY_NOTICES.md": "third_party_notices.md",
}
TITLES = {
    "start": "Quick start",
    "concepts": "Concepts",
    "ops": "Ops",
    "header": "quern.h",
    "deployment": "Deployment",
    "extend": "Your own",
}
# The order of pages within a part of the site; what is not named follows by its name.
ORDER = {
    "start": [
        "index",
        "packages",
        "c",
        "python",
        "cpp",
        "rust",
        "go",
        "node",
        "java",
        "csharp",
        "zig",
        "ffi",
        "tvm_ffi",
        "jax",
        "ggml",
        "command",
        "engine",
    ],
    "concepts": ["specialisation", "cache", "warm", "misses", "graphs", "targets"],
    "deployment": ["containers", "air_gapped", "fleets", "security"],
    "extend": ["kernels", "expressions", "contributing", "ops", "device_layer"],
}


class Site:
    """What stands where: pages of the repository by their path there, and files that they link to."""

    def __init__(self, folder: Path) -> None:
        self.docs = folder / "docs"
        self.places = {Path(page): Path(place) for page, place in PLACES.items() if (ROOT / page).exists()}
        for op in read_ops((ROOT / "sources" / "ops.def").read_text(encoding="utf-8")):
            page = Path("sources") / op / "README.md"
            if (ROOT / page).exists():
                self.places[page] = Path("ops") / f"{op}.md"
        for page in sorted((HERE / "pages").rglob("*.md")):
            self.places[page.relative_to(ROOT)] = page.relative_to(HERE / "pages")
        self.places[Path("capi/quern.h")] = Path("header/index.md")
        self.waiting: list[Path] = []  # files that a page links to and that are shown as they are

    def target(self, page: Path, link: str) -> str:
        """A link of `page`, as it is to stand on the site."""
        name, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:") or not name:
            return link
        path = Path(os.path.normpath(page.parent / name))
        if (ROOT / path).is_dir():
            path = path / "README.md" if (ROOT / path / "README.md").exists() else self.listing(path)
        if path not in self.places:
            if not (ROOT / path).exists() and path not in self.places:
                raise SystemExit(f"{page}: links to {link}, which is not there")
            self.places[path] = Path("pictures") / path.name if path.suffix in PICTURES else shown_at(path)
            self.waiting.append(path)
        here = self.places[page].parent
        return os.path.relpath(self.places[path], here) + (f"#{anchor}" if anchor else "")

    def listing(self, folder: Path) -> Path:
        """A page that stands for a folder without one of its own."""
        page = folder / "README.md"
        if page not in self.places:
            self.places[page] = Path("files") / folder / "index.md"
            names = sorted(each.name + ("/" if each.is_dir() else "") for each in (ROOT / folder).iterdir())
            lines = [f"# {folder}/", "", "| file |", "|---|", *(f"| `{name}` |" for name in names if name[0] != ".")]
            self.write(self.places[page], "\n".join(lines) + "\n")
        return page

    def write(self, place: Path, text: str) -> None:
        if place.parts[0] == "files":  # found behind the pages that are written to be read
            text = f"---\nsearch:\n  boost: 0.1\n---\n{text}"
        file = self.docs / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def page(self, page: Path) -> str:
        """A page's text, its links leading to where things are on the site."""
        text, moved, at = (ROOT / page).read_text(encoding="utf-8"), "", 0
        for code in [*FENCE.finditer(text), None]:
            end = code.start() if code else len(text)
            moved += LINK.sub(lambda m: m[1] + self.target(page, m[2]) + m[3], text[at:end])
            if code:
                moved, at = moved + code[0], code.end()
        return moved

    def make(self) -> None:
        sections = cut_header()
        owners = struct_owners(sections)
        for page, place in list(self.places.items()):
            if page.suffix != ".md" or not (ROOT / page).exists():
                continue
            text = self.page(page)
            if place.parent == Path("ops") and (struct := f"quern_{place.stem}_args") in owners:
                section = owners[struct]
                text += (
                    f"\n## In quern.h\n\n```c\n{declaration(sections, section, struct)}```\n\n"
                    f"All of this part of the header: [{section_title(section)}](../header/{slug(section)}.md).\n"
                )
            self.write(place, text)
        self.header(sections)
        while self.waiting:
            path = self.waiting.pop()
            if path.suffix in PICTURES:
                (self.docs / "pictures").mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, self.docs / self.places[path])
            elif path.suffix == ".md":
                self.write(self.places[path], self.page(path))
            else:
                text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
                language = LANGUAGES.get(path.suffix, "text")
                self.write(self.places[path], f"# {path}\n\n````{language}\n{text}\n````\n")

    def header(self, sections: dict[str, str]) -> None:
        """quern.h by its sections, and a page that lists them with what each declares."""
        lines = [
            "# quern.h",
            "",
            "The whole C interface. What holds everywhere stands first; each part has a page.",
            "",
            "| part | declares |",
            "|---|---|",
        ]
        for title, text in sections.items():
            wide = "---\nhide: [toc]\n---\n"  # the header's lines have up to 120 columns
            self.write(Path("header") / f"{slug(title)}.md", f"{wide}# {section_title(title)}\n\n```c\n{text}```\n")
            names = ", ".join(f"`{name}`" for name in declared(text))
            lines.append(f"| [{section_title(title)}]({slug(title)}.md) | {names} |")
        self.write(Path("header/index.md"), "\n".join(lines) + "\n")


def shown_at(path: Path) -> Path:
    """Where a file is shown that is no page, or a page that has no place of its own."""
    return Path("files") / (path if path.suffix == ".md" else Path(f"{path}.md"))


def slug(title: str) -> str:
    return re.sub(r"\W+", "_", title.lower()).strip("_")


def section_title(title: str) -> str:
    return title[0].upper() + title[1:]


def cut_header() -> dict[str, str]:
    """quern.h by its sections: title and text."""
    sections, title = {"Conventions": ""}, "Conventions"
    for line in (ROOT / "capi" / "quern.h").read_text(encoding="utf-8").split("\n"):
        if found := SECTION.match(line):
            if found[1].startswith("end of"):
                continue
            title = found[1].split(":")[0].strip(" -")
            sections.setdefault(title, "")
            # What goes on behind the title is a comment of the section's own.
            if not line.endswith("*/"):
                sections[title] += "/*\n"
            continue
        sections[title] += line + "\n"
    return {title: text.strip("\n") + "\n" for title, text in sections.items()}


def struct_owners(sections: dict[str, str]) -> dict[str, str]:
    """The section that declares each struct."""
    return {name: title for title, text in sections.items() for name in re.findall(r"^\} (quern_\w+);", text, re.M)}


def declared(text: str) -> list[str]:
    """Functions, structs and enums of a section, once each."""
    found = re.findall(r"^(?:[\w* ]+?\b)(quern_\w+)\(|^\} (quern_\w+);|^(enum quern_\w+) \{", text, re.M)
    names = [a or b or c for a, b, c in found]
    calls = re.compile(r"_(workspace|prepare)$")
    return [name for name in dict.fromkeys(names) if not calls.search(name)]


def declaration(sections: dict[str, str], section: str, struct: str) -> str:
    """A struct as it stands in the header, with the comment above it."""
    text = sections[section]
    end = text.index(f"}} {struct};")
    start = text.rindex("typedef struct", 0, end)
    above = re.search(r"/\*(?:(?!\*/).)*\*/\n\Z", text[:start], re.S)
    return text[above.start() if above else start : text.index("\n", end) + 1]


def navigation(site: Site) -> list[str]:
    """The menu, as mkdocs.yml has it."""
    lines = ["nav:", "  - Start: index.md"]
    for part, title in TITLES.items():
        folder = site.docs / part
        order = ORDER.get(part, ["index"])
        pages = sorted(
            (page for page in folder.glob("*.md")),
            key=lambda page: (order.index(page.stem) if page.stem in order else len(order), page.stem),
        )
        lines.append(f"  - {title}:")
        if part == "header":  # in the header's own order
            lines.append("      - Overview: header/index.md")
            lines += [f"      - {json.dumps(section_title(name))}: header/{slug(name)}.md" for name in cut_header()]
            continue
        lines += [f"      - {part}/{page.name}" for page in pages]
    lines += ["  - Figures: figures.md", "  - Changes: changelog.md"]
    return lines


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    shutil.rmtree(folder / "docs", ignore_errors=True)
    site = Site(folder)
    site.make()
    shutil.copy(HERE / "extra.css", site.docs / "extra.css")
    settings = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text(settings + "\n".join(navigation(site)) + "\n", encoding="utf-8")
    print(f"{sum(1 for _ in site.docs.rglob('*.md'))} pages in {site.docs}")


if __name__ == "__main__":
    main()
