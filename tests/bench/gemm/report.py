"""The tables of rows and of figures.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from .figures import Figure
from .rows import MEASURES, Row, geometric_mean
from .shapes import FEW_ROWS, KINDS, MANY_ROWS, Case

TITLES = {
    **{kind.name: f"{kind.title}, beside {kind.peer}" for kind in KINDS.values()},
    "programmatic": "fp8, block scales, graph of programmatic launches, beside DeepGEMM's",
    "masked": "fp8, block scales, masked groups of 4 experts, beside DeepGEMM",
    "contiguous": "fp8, block scales, contiguous groups of 4 experts, beside DeepGEMM",
    "portable": "the portable kernels, alone",
}
HEADING = (
    f"  {'M x N x K':17}{'error':>8}{'call us':>9}{'peer':>9}{'x':>6}{'graph us':>10}{'peer':>9}{'x':>6}"
    f"{'TFLOP/s':>9}{'TB/s':>6}{'first ms':>10}{'peer':>8}  variant"
)


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{value:{width}.{digits}f}" if value is not None else "-".rjust(width)


def heading(case: Case) -> str:
    return f"\n{TITLES[case.section]}\n{HEADING}"


def line(row: Row) -> str:
    ours, peer = row.ours, row.peer
    error = f"{ours.difference:8.0e}" if ours.difference is not None else "-".rjust(8)
    text = f"  {row.case.shape!s:17}{error}"
    for measure, width in (("call_us", 9), ("graph_us", 10)):
        text += _number(getattr(ours, measure), width, 1) + _number(getattr(peer, measure), 9, 1)
        text += _number(row.ratio(measure), 6, 2)
    # As a graph, where the time of an event is none of the kernel's.
    weights = row.weights_tbs("graph_us") if row.case.shape.m <= FEW_ROWS else None
    text += _number(row.tflops("graph_us"), 9, 0) + _number(weights, 6, 2)
    text += _number(ours.first_ms, 10, 0) + _number(peer.first_ms, 8, 0)
    variant = row.case.variant if row.case.section == "portable" else ""
    text += "  " + ", ".join(filter(None, [variant, row.note]))
    return "\n".join([text.rstrip(), *(f"    FAILED: {error}" for error in row.errors())])


def means(rows: list[Row]) -> list[str]:
    """Of each kind's ratios, few and many rows apart."""
    lines = []
    for kind in KINDS:
        text = ""
        for name, low, high in (("M <= 128", 1, FEW_ROWS), ("M >= 4096", MANY_ROWS, None)):
            chosen = [
                row
                for row in rows
                if row.case.section == kind and low <= row.case.shape.m and (high is None or row.case.shape.m <= high)
            ]
            for measure, how in MEASURES.items():
                ratios = [ratio for row in chosen if (ratio := row.ratio(measure)) is not None]
                if ratios:
                    mean = geometric_mean(ratios)
                    text += f"   {name} {how} {mean:.3f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)})"
        if text:
            lines.append(f"  {kind:7}{text}")
    return ["\ngeometric means of the ratios (least to greatest, number of shapes)", *lines] if lines else []


def verdicts(figures: list[Figure]) -> list[str]:
    if not figures:
        return []
    met = sum(figure.met for figure in figures)
    return [f"\nfigures: {met} of {len(figures)} met", *map(str, figures)]
