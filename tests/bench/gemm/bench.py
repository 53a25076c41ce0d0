"""Runs one case: looks at every side's result, times the sides in turns, call by call and as graphs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from quern import Context

from .clock import Clock
from .operands import LIMIT, Operands, dense, dense_reference, difference, grouped, grouped_reference
from .rows import Row, Side
from .shapes import GATHERED, KINDS, PORTABLE_TARGET, Case
from .sides import CUBLASLT, DEEPGEMM, QUERN, Call, Peers, Quern, product_line

# A graph goes through so many bytes of operands, and has at least so many calls.
ROTATED_BYTES, GRAPH_CALLS = 512 << 20, 20

Maker = Callable[[Operands], Call]


@dataclass
class Plan:
    """What a case multiplies, and how each side does."""

    operands: Operands
    reference: Callable[[Operands], torch.Tensor]
    makers: dict[str, Maker] = field(default_factory=dict)
    as_calls: bool = True


class Wrong(RuntimeError):
    """A result that is not the product."""


class Bench:
    def __init__(
        self, clock: Clock, cache: str, device: str, peers: Peers, programmatic: bool, tune: bool = False
    ) -> None:
        self.clock, self.device, self._cache = clock, device, cache
        self._peers, self._programmatic, self._tune = peers, programmatic, tune
        self.flush_us = clock.flush_us()

    def run(self, case: Case, seed: int) -> Row:
        """Errors are in the row."""
        row = Row(case)
        torch.manual_seed(seed)
        try:
            target = PORTABLE_TARGET if case.section == "portable" else None
            if self._tune and case.variant in KINDS and case.section not in ("masked", "contiguous"):
                with Context(self.device, cache_path=self._cache, target=target) as context:
                    tuned = context.tune(manifest=product_line(case.variant, case.shape), rows=[case.shape.m])[0]
                row.note = (
                    f"{tuned.choice} tuned, {tuned.model_microseconds / tuned.microseconds:.2f} times the model's"
                )
            # A context of its own says which kernel was taken; what is compiled is shared through the cache.
            with Context(self.device, cache_path=self._cache, target=target) as context:
                quern = Quern(context, self.device, self.clock.stream.cuda_stream or None)
                self._measure(self._plan(case, quern), row, quern)
                row.note = ", ".join(filter(None, [quern.variants(), row.note]))
        except Exception as error:
            row.error = _text(error)
        # The next case's memory lies as if that case were alone, not among what is left of this one's: calls of some
        # microseconds feel how many pages their operands are spread over.
        gc.collect()
        torch.cuda.empty_cache()
        return row

    def _plan(self, case: Case, quern: Quern) -> Plan:
        if case.section in ("masked", "contiguous"):
            return self._grouped(case, quern)
        if case.section == "portable":
            return self._portable(case, quern)
        kind, programmatic = case.variant, self._programmatic or case.section == "programmatic"
        launch = {"programmatic": True, "constant_b": True} if programmatic else {}
        plan = Plan(dense(kind, case.shape, self.device), lambda given: dense_reference(kind, given))
        plan.makers[QUERN] = lambda given: quern.dense(kind, given, **launch)
        # A launch that overlaps with what is before it would begin in the flush.
        plan.as_calls = not programmatic
        cublaslt, deepgemm = self._peers.cublaslt, self._peers.deepgemm
        if KINDS[kind].peer == CUBLASLT and cublaslt:
            plan.makers[CUBLASLT] = lambda given: cublaslt.dense(kind, given)
        elif KINDS[kind].peer == DEEPGEMM and deepgemm:
            plan.makers[DEEPGEMM] = lambda given: deepgemm.dense(kind, given, programmatic)
        return plan

    def _grouped(self, case: Case, quern: Quern) -> Plan:
        shape, contiguous = case.shape, case.section == "contiguous"
        plan = Plan(grouped(shape, contiguous, self.device), grouped_reference)
        whole = torch.arange(shape.groups + 1, dtype=torch.int32, device=self.device) * shape.m
        counts = torch.full((shape.groups,), shape.m, dtype=torch.int32, device=self.device)
        rows = {"offsets": whole} if contiguous else {"counts": counts}
        plan.makers[QUERN] = lambda given: quern.grouped(given, **rows)
        deepgemm = self._peers.deepgemm
        if deepgemm and contiguous:
            experts = torch.arange(shape.groups, dtype=torch.int32, device=self.device).repeat_interleave(shape.m)
            plan.makers[DEEPGEMM] = lambda given: deepgemm.contiguous(given, experts)
        elif deepgemm:
            plan.makers[DEEPGEMM] = lambda given: deepgemm.masked(given, counts, shape.m)
        return plan

    def _portable(self, case: Case, quern: Quern) -> Plan:
        shape = case.shape
        if case.variant == GATHERED:
            made = dense("row", shape, self.device)
            rows = torch.arange(shape.m, dtype=torch.int32, device=self.device)
            offsets = torch.tensor([0, shape.m], dtype=torch.int32, device=self.device)
            return Plan(
                replace(made, b=made.b[None], scale_b=made.scale_b[None]),
                lambda given: dense_reference("row", replace(given, b=given.b[0], scale_b=given.scale_b[0])),
                {QUERN: lambda given: quern.grouped(given, offsets=offsets, indices=rows)},
            )
        kind = case.variant
        return Plan(
            dense(kind, shape, self.device),
            lambda given: dense_reference(kind, given),
            {QUERN: lambda given: quern.dense(kind, given)},
        )

    def _measure(self, plan: Plan, row: Row, quern: Quern) -> None:
        calls = self._checked(plan, row, quern)
        if plan.as_calls and calls:
            for side, times in self.clock.of_calls(calls).items():
                row.sides[side].call_us, row.sides[side].host_us = times.us, times.host_us
                if times.host_us > 0.8 * self.flush_us:
                    row.note += f"{'; ' if row.note else ''}{side}'s call takes the host {times.host_us:.0f} us"
        self._graphs(plan, row, set(calls))

    def _checked(self, plan: Plan, row: Row, quern: Quern) -> dict[str, Call]:
        """The first call of each side; those that gave the product."""
        given, reference = plan.operands, plan.reference(plan.operands)
        calls = {}
        for name, make in plan.makers.items():
            side = row.sides[name] = Side()
            try:
                call = make(given)
                given.poison()
                compiled = quern.compiled()
                first_ms = self.clock.once_ms(call)
                if name != QUERN or quern.compiled() > compiled:
                    side.first_ms = first_ms
                side.difference = difference(given.out, reference)
                if not side.difference < LIMIT:
                    raise Wrong(f"1 - 2<x,y>/(x^2+y^2) is {side.difference:.3g}; allowed: below {LIMIT:g}")
                calls[name] = call
            except Exception as error:
                side.error = _text(error)
        return calls

    def _graphs(self, plan: Plan, row: Row, sides: set[str]) -> None:
        shape = row.case.shape
        row.sets = max(2, math.ceil(ROTATED_BYTES / shape.read_bytes(row.case.element_bytes)))
        row.calls = math.ceil(GRAPH_CALLS / row.sets) * row.sets
        sets = [plan.operands, *(plan.operands.twin() for _ in range(row.sets - 1))]
        graphs = {}
        for name in plan.makers:
            if name not in sides:
                continue
            try:
                calls = [plan.makers[name](given) for given in sets]
                for call in calls:
                    call()
                expected = plan.operands.out.clone() if name == QUERN else None
                graphs[name] = self.clock.capture(calls * (row.calls // row.sets))
                if expected is not None:
                    self._expect_bits(graphs[name], sets, expected)
            except Exception as error:
                graphs.pop(name, None)
                row.sides[name].error = f"as a graph: {_text(error)}"
        if graphs:
            for name, times in self.clock.of_graphs(graphs).items():
                row.sides[name].graph_us = times.us / row.calls

    def _expect_bits(self, graph: torch.cuda.CUDAGraph, sets: list[Operands], expected: torch.Tensor) -> None:
        """Same operands, same bits, wherever they lie."""
        for given in sets:
            given.poison()
        graph.replay()
        self.clock.synchronise()
        wrong = sum(not torch.equal(given.out, expected) for given in sets)
        if wrong:
            raise Wrong(f"{wrong} of {len(sets)} outputs have other bits than the first call's")


def _text(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"
