"""What the benchmarks wrote: JSON files in tests/bench/results, named DATE_WHAT.json.

Each has "date", "machine" (or the device's name alone, as "device") and "command" beside what was measured.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "results"


def newest(what: str, having: str = "", folder: Path = FOLDER) -> dict[str, Any]:
    """The newest result named DATE_WHAT.json, WHAT by a regular expression, that has a part of the name `having`.

    Raises FileNotFoundError.
    """
    for path in sorted(folder.glob("*.json"), reverse=True):
        if re.fullmatch(rf"\d{{4}}-\d\d-\d\d_({what})", path.stem):
            result = json.loads(path.read_text(encoding="utf-8"))
            if not having or having in result:
                return result
    raise FileNotFoundError(f"{folder} has no DATE_{what}.json" + (f" with {having!r} in it" if having else ""))


def source(*results: dict[str, Any]) -> str:
    """Where and when they were measured, for the line under a picture's title."""
    machines = {result.get("machine") or result.get("device", "an unknown machine") for result in results}
    dates = {result["date"] for result in results}
    return f"{' and '.join(sorted(machines))}, {', '.join(sorted(dates))}"
