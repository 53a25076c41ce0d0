# Every link of a built site leads somewhere, to the place that it names, and nothing is fetched from elsewhere.
# SPDX-License-Identifier: Apache-2.0
"""usage: check.py FOLDER    of HTML, as ./dev site makes it"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, and what a reader follows.
FETCHED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
FOLLOWED = {("a", "href")}
KINDS = ("canonical", "next", "prev")  # of <link>, which nobody fetches


class Page(HTMLParser):
    """The places and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[tuple[str, bool]] = []  # and whether it is fetched
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.places.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "link" and given.get("rel") in KINDS:
            return
        for name, value in attributes:
            if value is not None and (tag, name) in FETCHED | FOLLOWED:
                self.links.append((value, (tag, name) in FETCHED))


@cache
def page(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


def faults(folder: Path) -> list[str]:
    """What is wrong with the site's links, a sentence each."""
    found = []
    folder = folder.resolve()
    for file in sorted(folder.rglob("*.html")):
        if file.name == "404.html":  # its links are from wherever it is shown
            continue
        for link, fetched in page(file).links:
            parts = urlsplit(link)
            where = f"{file.relative_to(folder)}: {link}"
            if parts.scheme in ("mailto", "data"):
                continue
            if parts.scheme or parts.netloc:
                if fetched:
                    found.append(f"{where} is fetched from elsewhere")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_relative_to(folder) or not target.exists():
                found.append(f"{where} leads nowhere")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).places:
                found.append(f"{where}: there is no such place in {target.relative_to(folder)}")
    return found


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    found = faults(folder)
    for fault in found:
        print(fault)
    pages = list(folder.rglob("*.html"))
    links = sum(len(page(file).links) for file in pages if file.name != "404.html")
    print(f"{len(pages)} pages, {links} links, {len(found)} of them wrong")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
