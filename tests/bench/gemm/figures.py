"""The goals that quern's matrix products on a Hopper GPU are held against, and whether rows meet them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .rows import MEASURES, OURS, Row, geometric_mean
from .shapes import FEW_ROWS, GATHERED, KINDS, MANY_ROWS

FIRST_CALL_MS = 700
WEIGHTS_TBS, PORTABLE_WEIGHTS_TBS = 3.4, 2.8
PROGRAMMATIC_US = 11
MASKED_TFLOPS, CONTIGUOUS_TFLOPS = 1000, 1300
PORTABLE_TFLOPS = {GATHERED: 350, "bf16": 500}  # of many rows


@dataclass(frozen=True)
class Goal:
    """Least ratios to the peer; None: none is set."""

    every: float | None
    mean: float | None


# By kind: few rows, many rows.
RATIOS = {
    "block": (Goal(1.00, 1.10), Goal(1.00, 1.02)),
    "tensor": (Goal(0.97, 1.05), Goal(0.97, 1.00)),
    "row": (Goal(None, 1.05), Goal(None, 1.05)),
    "bf16": (Goal(0.97, None), Goal(0.97, None)),
    "nn": (Goal(0.97, None), Goal(0.97, None)),
    "tn": (Goal(0.97, None), Goal(0.97, None)),
}


@dataclass(frozen=True)
class Figure:
    name: str
    value: float | None  # None: not measured, which is not met
    goal: float
    unit: str
    at_most: bool = False
    of: str = ""  # which row it is of, how many of how many

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def __str__(self) -> str:
        value = "not measured" if self.value is None else f"{self.value:.4g} {self.unit}"
        bound = f"{'<=' if self.at_most else '>='} {self.goal:g}"
        verdict = "met" if self.met else "MISSED"
        return f"  {self.name:58} {value:>15}  {bound:>8}  {verdict:6}  {self.of}".rstrip()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def figures(rows: list[Row]) -> list[Figure]:
    """Every goal that these rows bear on, for both ways of timing where the goal names none."""
    return [*_ratios(rows), *_rates(rows), *_first_calls(rows)]


def _ratios(rows: list[Row]) -> Iterator[Figure]:
    ranges = (("M <= 128", lambda m: m <= FEW_ROWS), ("M >= 4096", lambda m: m >= MANY_ROWS))
    for kind, goals in RATIOS.items():
        for (name, wanted), goal in zip(ranges, goals, strict=True):
            chosen = [row for row in rows if row.case.section == kind and wanted(row.case.shape.m)]
            for measure, how in MEASURES.items():
                if chosen:
                    everything = sum(wanted(shape.m) for shape in KINDS[kind].shapes)
                    title = f"{kind} / {KINDS[kind].peer}, {name}, {how}"
                    yield from _of_range(chosen, title, measure, everything, goal)


def _of_range(rows: list[Row], name: str, measure: str, everything: int, goal: Goal) -> Iterator[Figure]:
    ratios = {str(row.case.shape): row.ratio(measure) for row in rows}
    known = {shape: ratio for shape, ratio in ratios.items() if ratio is not None}
    part = "" if len(known) >= everything else f"{len(known)} of {everything} shapes"
    # A shape without a ratio misses the goal of every shape.
    if goal.every is not None:
        least = min(known, key=known.__getitem__) if len(known) == len(ratios) else None
        of = ", ".join(filter(None, [least, part]))
        yield Figure(f"{name}: every shape", known[least] if least else None, goal.every, "x", of=of)
    if goal.mean is not None:
        yield Figure(f"{name}: mean", geometric_mean(known.values()), goal.mean, "x", of=part)


def _rates(rows: list[Row]) -> Iterator[Figure]:
    for row in rows:
        case = row.case
        shape = str(case.shape)
        tflops: float | None = {"masked": MASKED_TFLOPS, "contiguous": CONTIGUOUS_TFLOPS}.get(case.section)
        tbs = None
        if case.section in ("block", "tensor", "row") and shape in ("64x7168x16384", "128x7168x16384"):
            tbs = WEIGHTS_TBS
        if case.section == "portable":
            tflops = PORTABLE_TFLOPS.get(case.variant) if case.shape.m > FEW_ROWS else None
            tbs = None if tflops else PORTABLE_WEIGHTS_TBS
        for measure, how in MEASURES.items():
            if tflops:
                yield Figure(f"{case}, {how}", row.tflops(measure), tflops, "TFLOP/s", of=row.note)
            if tbs:
                yield Figure(f"{case}, {how}: weights", row.weights_tbs(measure), tbs, "TB/s", of=row.note)
        if case.section == "programmatic":
            yield Figure(f"{case}, graph", row.ours.graph_us, PROGRAMMATIC_US, "us", at_most=True)


def _first_calls(rows: list[Row]) -> Iterator[Figure]:
    compiled = {str(row.case): row.ours.first_ms for row in rows if row.ours.first_ms is not None}
    if not compiled:
        return
    slowest = max(compiled, key=lambda case: compiled[case] or 0)
    of = f"{slowest}; {len(compiled)} calls compiled"
    yield Figure(f"first call of {OURS}, the slowest", compiled[slowest], FIRST_CALL_MS, "ms", at_most=True, of=of)
