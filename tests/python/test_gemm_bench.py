# The parts of tests/bench/gemm_peers.py that need no GPU: what it times, which figures are met, and that a case that
# crashes or hangs costs no other.
# SPDX-License-Identifier: Apache-2.0
import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import gemm_peers
from gemm import report
from gemm.figures import figures
from gemm.rows import Row, Side, geometric_mean
from gemm.shapes import GATHERED, KINDS, SECTIONS, TWELVE, Case, Shape, cases


def row(case, ours_us, peer_us=None, **ours):
    sides = {"quern": Side(call_us=ours_us, graph_us=ours_us, **ours)}
    if peer_us is not None:
        sides["peer"] = Side(call_us=peer_us, graph_us=peer_us)
    return Row(case, sides)


def rows_of(kind, ratio):
    return [row(Case(kind, kind, shape), 10.0, 10.0 * ratio) for shape in TWELVE]


def met(rows):
    return {figure.name: figure.met for figure in figures(rows)}


def test_shapes():
    shape = Shape.parse("16x4096x7168")
    assert (shape.m, shape.n, shape.k, str(shape)) == (16, 4096, 7168, "16x4096x7168")
    assert shape.flops == 2 * 16 * 4096 * 7168
    assert Shape(2, 3, 5, groups=4).read_bytes(2) == 4 * (2 + 3) * 5 * 2
    for wrong in ("16x4096", "16x0x3", "ax2x3", "1x2x3x4"):
        with pytest.raises(ValueError, match="is no shape"):
            Shape.parse(wrong)


def test_arguments_are_refused(capsys):
    for wrong in (["--only", "fp4"], ["--shapes", "16"], ["--rounds", "3"]):
        with pytest.raises(SystemExit):
            gemm_peers.read_arguments(wrong)
    assert "allowed are block, tensor" in capsys.readouterr().err


def test_cases_are_those_chosen():
    arguments = gemm_peers.read_arguments(["--only", "row,masked", "--shapes", "16x8x8,4096x8x8"])
    chosen = cases(arguments.only, arguments.shapes)
    assert [str(case) for case in chosen] == ["row 16x8x8", "row 4096x8x8", "masked 256x4096x7168 block"]
    every = cases(SECTIONS)
    assert len(every) == len(set(map(str, every))) == 4 * 12 + 2 * 3 + 8
    assert cases(SECTIONS, TWELVE[:1])[: len(KINDS)] == [Case(kind, kind, TWELVE[0]) for kind in KINDS]
    assert [case.element_bytes for case in every if case.variant in ("row", "nn", GATHERED)] == [1] * 12 + [2] * 3 + [
        1
    ] * 2


def test_operands_stored_the_other_way_round():
    chosen = cases(["nn", "tn"])
    assert [str(case) for case in chosen] == [
        f"{kind} {shape}" for kind in ("nn", "tn") for shape in ("4096x7168x16384", "4096x4096x7168", "8192x8192x8192")
    ]
    result = met([row(case, 10.0, 9.8 if case.section == "nn" else 9.6) for case in chosen])
    assert result["nn / cuBLASLt, M >= 4096, call: every shape"]
    assert not result["tn / cuBLASLt, M >= 4096, graph: every shape"]
    lines = [report.line(row(case, 10.0, 9.0)) for case in chosen]
    assert all(report.heading(case).startswith("\nbf16, ") for case in chosen) and all("0.90" in line for line in lines)


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([]) is None


def test_ratios_against_goals():
    assert all(met(rows_of("block", 1.11)).get(name) for name in met(rows_of("block", 1.11)) if "DeepGEMM" in name)
    few, many = "block / DeepGEMM, M <= 128, graph", "block / DeepGEMM, M >= 4096, call"
    slow = met(rows_of("block", 1.05))
    assert not slow[f"{few}: mean"] and slow[f"{few}: every shape"] and slow[f"{many}: mean"]
    rows = rows_of("tensor", 1.2)
    rows[0].sides["peer"].call_us = 9.6
    name = "tensor / cuBLASLt, M <= 128, {}: every shape"
    assert not met(rows)[name.format("call")] and met(rows)[name.format("graph")]


def test_a_shape_without_its_peer_misses():
    rows = rows_of("bf16", 2.0)
    del rows[3].sides["peer"]
    result = met(rows)
    assert not result["bf16 / cuBLASLt, M <= 128, call: every shape"]
    assert result["bf16 / cuBLASLt, M >= 4096, call: every shape"]


def test_rates():
    weights = Shape(64, 7168, 16384)
    us = weights.n * weights.k / 3.4e6
    assert met([row(Case("row", "row", weights), us * 0.99)])["row 64x7168x16384, graph: weights"]
    assert not met([row(Case("row", "row", weights), us * 1.01)])["row 64x7168x16384, graph: weights"]
    portable = Case("portable", GATHERED, Shape(4096, 7168, 16384))
    us = portable.shape.flops / 350e6
    assert list(met([row(portable, us * 0.99)]).values()) == [True, True]
    assert list(met([row(portable, us * 1.01)]).values()) == [False, False]
    bf16 = [Case("portable", "bf16", Shape(m, 7168, 16384)) for m in (4096, 16)]
    assert set(met([row(bf16[0], bf16[0].shape.flops / 499e6)]).values()) == {False}
    assert set(met([row(case, case.shape.flops / 501e6 if case.shape.m > 16 else 80.0) for case in bf16]).values()) == {
        True
    }
    programmatic = Case("programmatic", "block", Shape(16, 4096, 7168))
    assert met([row(programmatic, 10.9)]) == {"programmatic 16x4096x7168 block, graph": True}
    assert met([row(programmatic, 11.1, first_ms=701.0)]) == {
        "programmatic 16x4096x7168 block, graph": False,
        "first call of quern, the slowest": False,
    }


def test_rows_survive_json():
    given = row(Case("block", "block", Shape(16, 8, 128)), 2.0, 3.0, difference=math.pi, error="none", first_ms=4.0)
    assert Row.from_json(json.loads(json.dumps(given.to_json()))) == given
    assert given.ratio("call_us") == 1.5
    assert "FAILED: quern: none" in report.line(given) and "1.50" in report.line(given)


class Scripted:
    """Stands in for the worker processes, each of which says what is in its script, then that it ended."""

    def __init__(self, scripts):
        self.scripts, self.began = list(scripts), []

    def __call__(self, first, cache):
        self.began.append(first)
        self.left = [{"device": "none", "software": "none"}, *self.scripts.pop(0)]
        return self

    def next(self, patience):
        return self.left.pop(0) if self.left else "the process ended with -11"

    def end(self):
        pass


def supervised(monkeypatch, chosen, scripts):
    worker = Scripted([[said.to_json() for said in script] for script in scripts])
    monkeypatch.setattr(gemm_peers, "Worker", worker)
    _, rows = gemm_peers.supervise(gemm_peers.read_arguments([]), chosen, "nowhere")
    assert [row.case for row in rows] == chosen and not worker.scripts
    return worker.began, [row.errors() for row in rows]


def test_cases_that_crash_are_told_and_passed_over(monkeypatch):
    chosen = cases(["row"], TWELVE[:5])
    good = [row(case, 1.0) for case in chosen]
    ended = ["the process ended with -11"]
    # The second case ends its process, and so do both that follow it, each in a process of its own.
    began, errors = supervised(monkeypatch, chosen, [good[:1], [], [], good[4:]])
    assert began == [0, 2, 3, 4]
    assert errors[0] == [] and errors[4] == [] and errors[1:4] == [ended, ended, ended]


def test_an_error_that_takes_the_device_along_costs_one_case(monkeypatch):
    chosen = cases(["row"], TWELVE[:3])
    good = [row(case, 1.0) for case in chosen]
    lost = Row(chosen[1], error="an illegal address")
    began, errors = supervised(monkeypatch, chosen, [[good[0], lost], [good[2]]])
    assert began == [0, 2] and errors == [[], ["an illegal address"], []]
