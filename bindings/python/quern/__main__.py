# The command `quern` of an installed package, and `python -m quern`.
# SPDX-License-Identifier: Apache-2.0
"""Runs the command-line program that came with the package, or the one beside the library that is used."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from .library import library


def program() -> Path:
    """The command: in this package, or in bin/ beside the folder of the library."""
    package = Path(__file__).resolve().parent
    opened = Path(library()._name).resolve()
    places = [package / "quern", opened.parent.parent / "bin" / "quern"]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place
    sys.exit(f"quern: the command is not here; tried {', '.join(map(str, places))}")


def main() -> NoReturn:
    command = str(program())
    sys.stdout.flush()
    os.execv(command, ["quern", *sys.argv[1:]])


if __name__ == "__main__":
    main()
