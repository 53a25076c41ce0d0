"""A picture as SVG: marks in pixels, and scales that turn values into them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

INK, FAINT, GRID = "#1f2328", "#59636e", "#d8dee4"
# Told apart by people who see few colours too (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
    "#8c959f",
)

# Letters stand out from lines that they cross.
HALO = 'stroke="#ffffff" stroke-width="3" paint-order="stroke"'


class Scale:
    """Values from low to high onto pixels from first to last, in proportion or by their logarithms."""

    def __init__(self, low: float, high: float, first: float, last: float, log: bool = False) -> None:
        self._of = math.log if log else float
        self._low, self._high = self._of(low), self._of(high)
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)


class Picture:
    def __init__(self, width: int, height: int, title: str, subtitle: str = "") -> None:
        self.width, self.height = width, height
        self._marks: list[str] = []
        self._title = title
        self.text(20, 28, title, size=17, weight=600)
        if subtitle:
            self.text(20, 48, subtitle, size=12, colour=FAINT)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 12,
        colour: str = INK,
        anchor: str = "start",
        weight: int = 400,
    ) -> None:
        self._marks.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"'
            f' font-weight="{weight}" {HALO}>{escape(text)}</text>'
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = GRID, width: float = 1, dash: str = ""
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"'
            f' stroke-width="{width:g}"{dashed}/>'
        )

    def path(self, points: list[tuple[float, float]], colour: str, width: float = 2, dash: str = "") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._marks.append(
            f'<polyline points="{through}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
        )

    def dot(self, x: float, y: float, colour: str, radius: float = 4.5, hollow: bool = False) -> None:
        fill = "#ffffff" if hollow else colour
        self._marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{colour}" stroke-width="1.8"/>'
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._marks.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" fill="{colour}"/>'
        )

    def legend(self, x: float, y: float, entries: list[tuple[str, str]]) -> None:
        """Names behind squares of their colours, side by side from x on."""
        for name, colour in entries:
            self.box(x, y - 9, 11, 11, colour)
            self.text(x + 16, y, name, size=12)
            x += 16 + 6.6 * len(name) + 20

    def write(self, path: Path) -> None:
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}"'
            f' viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self._title)}"'
            " font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n"
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n'
            + "\n".join(self._marks)
            + "\n</svg>\n",
            encoding="utf-8",
        )
