"""How the ratios of random products are distributed, by kind and class of M, and whether that meets the goals.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MEASURES = {"call_us": "call", "graph_us": "graph"}
CLASSES = [(1, 32), (33, 128), (129, 512), (513, 2048), (2049, 8192)]
WORST = 10


@dataclass(frozen=True)
class Goal:
    """Least geometric mean, and what share of products reaches at least a ratio; None: none below that."""

    mean: float
    share: float
    reaches: float
    least: float | None = None


GOALS = {
    "bf16": Goal(1.03, 0.95, 0.95, 0.88),
    "tensor": Goal(1.03, 0.95, 0.95, 0.88),
    "row": Goal(1.08, 0.98, 0.97),
    "block": Goal(1.05, 0.95, 0.97),
    "grouped": Goal(1.03, 0.95, 0.97),
    "contiguous": Goal(1.03, 0.95, 0.97),
    "masked": Goal(1.03, 0.95, 0.97),
}


def name_of(of_class: tuple[int, int]) -> str:
    low, high = of_class
    return f"<= {high}" if low == 1 else f"{low} to {high}" if high < CLASSES[-1][1] else f">= {low}"


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def summarise(ratios: list[float], goal: Goal) -> dict[str, Any]:
    """Of at least one ratio."""
    ordered = sorted(ratios)
    mean = math.exp(sum(math.log(ratio) for ratio in ordered) / len(ordered))
    reach = sum(ratio >= goal.reaches for ratio in ordered) / len(ordered)
    met = mean >= goal.mean and reach >= goal.share and (goal.least is None or ordered[0] >= goal.least)
    return {
        "count": len(ordered),
        "mean": mean,
        "least": ordered[0],
        "q05": quantile(ordered, 0.05),
        "median": quantile(ordered, 0.5),
        "q95": quantile(ordered, 0.95),
        "reach": reach,
        "met": met,
    }


def summary(products: list[Any]) -> list[dict[str, Any]]:
    """One entry for each kind, class of M (and all together) and measure that has ratios."""
    entries = []
    for kind, goal in GOALS.items():
        for of_class in [None, *CLASSES]:
            chosen = [
                product
                for product in products
                if product.kind == kind
                and not product.error
                and (of_class is None or of_class[0] <= product.shape.m <= of_class[1])
            ]
            for measure, how in MEASURES.items():
                ratios = [ratio for product in chosen if (ratio := product.ratio(measure)) is not None]
                if ratios:
                    name = "all" if of_class is None else name_of(of_class)
                    entries.append({"kind": kind, "rows": name, "measure": how, **summarise(ratios, goal)})
    return entries


def lines(entries: list[dict[str, Any]]) -> list[str]:
    text = [
        "\nratios to the peer (above 1: quern is faster)",
        f"  {'kind':8}{'M':>14}{'':>7}{'count':>7}{'mean':>8}{'least':>8}"
        f"{'5 %':>8}{'median':>8}{'95 %':>8}{'reach':>8}",
    ]
    for entry in entries:
        figures = "".join(f"{entry[name]:8.3f}" for name in ("mean", "least", "q05", "median", "q95"))
        goal = GOALS[entry["kind"]]
        text.append(
            f"  {entry['kind']:8}{entry['rows']:>14}{entry['measure']:>7}{entry['count']:7d}{figures}"
            f"{100 * entry['reach']:7.1f}% >= {goal.reaches:g}{'' if entry['met'] else '  missed'}"
        )
    return text


def worst(products: list[Any], kind: str) -> list[Any]:
    """The ten with the least ratio, as a call or as a graph."""

    def least(product: Any) -> float:
        return min((ratio for measure in MEASURES if (ratio := product.ratio(measure)) is not None), default=math.inf)

    there = [
        product for product in products if product.kind == kind and not product.error and least(product) < math.inf
    ]
    return sorted(there, key=least)[:WORST]


def line(product: Any) -> str:
    text = f"  {product.name:36}"
    for measure in MEASURES:
        times, ratio = getattr(product, measure), product.ratio(measure)
        ours, peer = times.get("quern"), times.get(product.peer)
        text += "".join(f"{time:9.1f}" if time else f"{'-':>9}" for time in (ours, peer))
        text += f"{ratio:6.2f}" if ratio else f"{'-':>6}"
    return f"{text}  {product.error or product.note}"
