"""What was measured of one case, to and from JSON.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from .shapes import Case, Shape

OURS = "quern"
MEASURES = {"call_us": "call", "graph_us": "graph"}


@dataclass
class Side:
    """Of one library; None: not measured."""

    first_ms: float | None = None  # quern: where that compiled something
    difference: float | None = None
    call_us: float | None = None
    host_us: float | None = None
    graph_us: float | None = None
    error: str = ""


@dataclass
class Row:
    case: Case
    sides: dict[str, Side] = field(default_factory=dict)
    sets: int = 0  # of operands that a graph goes through
    calls: int = 0  # in a graph
    note: str = ""
    error: str = ""

    @property
    def ours(self) -> Side:
        return self.sides.get(OURS, Side())

    @property
    def peer(self) -> Side:
        return next((side for name, side in self.sides.items() if name != OURS), Side())

    def ratio(self, measure: str) -> float | None:
        """How many times as fast as its peer quern is."""
        ours, peer = getattr(self.ours, measure), getattr(self.peer, measure)
        return peer / ours if ours and peer else None

    def tflops(self, measure: str) -> float | None:
        us = getattr(self.ours, measure)
        return self.case.shape.flops / us / 1e6 if us else None

    def weights_tbs(self, measure: str) -> float | None:
        """TB/s of weights, read once."""
        us = getattr(self.ours, measure)
        return self.case.shape.weight_bytes(self.case.element_bytes) / us / 1e6 if us else None

    def errors(self) -> list[str]:
        own = [self.error] if self.error else []
        return own + [f"{name}: {side.error}" for name, side in self.sides.items() if side.error]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> Row:
        case = Case(**{**read["case"], "shape": Shape(**read["case"]["shape"])})
        return cls(**{**read, "case": case, "sides": {name: Side(**side) for name, side in read["sides"].items()}})


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None
