"""What the first call of a kernel takes, by its parts.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from .results import newest, source
from .svg import BLUE, FAINT, GREEN, GREY, INK, ORANGE, Picture, Scale

PARTS = {
    "context": ("opening driver, device and cache", GREY),
    "compiler": ("opening NVRTC", ORANGE),
    "compile": ("compiling and loading", BLUE),
    "launch": ("first launch", GREEN),
}
GOALS = {True: 700, False: 400}  # ms; of a process's first kernel, of each further


def first_call() -> Picture:
    """A bar a kernel: the first of a process, which opens NVRTC too, each further, and the same from the disk cache."""
    result = newest(r"device(_\d+)?", having="cold")
    cold = result["cold"]
    made, loaded = cold["empty"]["kernels"], cold["cached"]["kernels"]
    # The last kernel is the first one's twin, but for its page size: what the first takes more is NVRTC's opening.
    opening = max(made[0]["ready_ms"] - made[-1]["ready_ms"], 0)
    rows = []
    for i, kernel in enumerate(made):
        parts = {"compile": kernel["ready_ms"], "launch": kernel.get("launched_ms", 0)}
        if i == 0:
            parts = {
                "context": cold["empty"].get("context_ms", 0),
                "compiler": opening,
                "compile": kernel["ready_ms"] - opening,
                "launch": kernel.get("launched_ms", 0),
            }
        rows.append((kernel["name"], ("first of a process", "further")[i > 0], parts, GOALS[i == 0]))
    for i, kernel in enumerate(loaded):
        parts = {"compile": kernel["ready_ms"], "launch": kernel.get("launched_ms", 0)}
        rows.append((kernel["name"], ("first, from the disk cache", "further, from the cache")[i > 0], parts, 1))
    top, step, left, right = 106, 34, 320, 830
    picture = Picture(900, top + step * len(rows) + 56, "The first call of an attention kernel, ms", source(result))
    bottom = top + step * len(rows)
    x = Scale(0, 800, left, right)
    used = [part for part in PARTS if any(parts.get(part) for *_, parts, _ in rows)]
    picture.legend(20, 74, [PARTS[part] for part in used])
    for tick in range(0, 801, 100):
        picture.line(x(tick), top, x(tick), bottom)
        picture.text(x(tick), bottom + 18, str(tick), colour=FAINT, anchor="middle")
    for i, (name, when, parts, goal) in enumerate(rows):
        y, at = top + i * step + 6, 0.0
        picture.text(left - 12, y + 10, name, anchor="end")
        picture.text(left - 12, y + 23, when, size=10.5, colour=FAINT, anchor="end")
        for part, ms in parts.items():
            if ms:
                picture.box(x(at), y, x(at + ms) - x(at), 20, PARTS[part][1])
                at += ms
        behind = x(at)
        if goal >= 10:
            picture.line(x(goal), y - 4, x(goal), y + 24, INK, 1.5, "3 2")
        else:
            behind = max(behind, x(0) + 2)
        picture.text(behind + 6, y + 14, f"{at:.0f} ms" if at >= 10 else f"{at:.2f} ms", size=11)
    picture.text(x(700) + 5, top + 22, "goal", size=11, colour=FAINT)
    picture.line(left, top, left, bottom, INK)
    return picture
