"""What stands beside a sampler (softmax, argmax, top-k, renormalising, verification) beside PyTorch, in one run.

    PYTHONPATH=build/python python3 tests/bench/selection_peers.py [--only WORD] [--json FILE]

Needs an NVIDIA GPU and PyTorch. Each result is first held against PyTorch's, then timed: a call out of a flushed L2
(median of 30) and a graph of 20 calls, in microseconds. PyTorch has no verification of drafts.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from kept import write
from quern import Context
from sampling_peers import SHAPES, call_us, graph_us, logits_of

KINDS = ("normal", "peaked", "equal", "two", "staircase", "denormal", "huge")


@dataclass
class Work:
    name: str
    run: Callable[[], object]
    check: Callable[[], float]  # how far from PyTorch's result: 0 where it must be the same
    most: float = 0.0  # that may be
    peer: Callable[[], object] | None = None


def softmaxes(context: Context) -> Iterator[Work]:
    for dtype in (torch.float32, torch.bfloat16):
        for rows, vocab in SHAPES:
            x = logits_of("normal", rows, vocab, dtype)
            t, out = torch.full((rows,), 0.8, device="cuda"), torch.empty(rows, vocab, device="cuda", dtype=dtype)
            name = f"softmax {'f32' if dtype == torch.float32 else 'bf16'} {rows}x{vocab}"

            def run(x=x, t=t, out=out):
                context.softmax(x, temperature=t, out=out)

            def check(x=x, out=out):
                return float((out.double() - torch.softmax(x.double() / 0.8, -1)).abs().max())

            yield Work(name, run, check, 1e-5 if dtype == torch.float32 else 5e-3, lambda x=x: torch.softmax(x, -1))


def argmaxes(context: Context) -> Iterator[Work]:
    for rows, vocab in SHAPES:
        x = logits_of("normal", rows, vocab)
        ids = torch.empty(rows, dtype=torch.int32, device="cuda")

        def run(x=x, ids=ids):
            context.argmax(x, ids=ids)

        def check(x=x, ids=ids):
            return float((x.gather(1, ids.long()[:, None]) != x.max(1, keepdim=True).values).sum())

        yield Work(f"argmax f32 {rows}x{vocab}", run, check, 0.0, lambda x=x: torch.argmax(x, -1))


def top_ks(context: Context) -> Iterator[Work]:
    problems = [(8, 131072, 2048, kind, False) for kind in KINDS]
    problems += [(8, 8192, 2048, "normal", False), (256, 131072, 2048, "normal", False)]
    problems += [(8, 131072, 2048, "normal", True), (32, 128256, 50, "normal", True), (1, 128256, 1, "normal", False)]
    for rows, n, k, kind, in_order in problems:
        x = logits_of(kind, rows, n)
        ids, values = (torch.empty(rows, k, dtype=d, device="cuda") for d in (torch.int32, torch.float32))

        def run(x=x, ids=ids, values=values, in_order=in_order):
            context.top_k(x, ids=ids, values=values, sorted=in_order)

        def check(x=x, ids=ids, values=values, k=k):
            mine = values.sort(1, descending=True).values
            wrong = (mine != x.topk(k, 1).values).sum() + (x.gather(1, ids.long()) != values).sum()
            distinct = (ids.sort(1).values.diff(dim=1) > 0).all() if k > 1 else True
            return float(wrong + (not distinct))

        name = f"top-k {k} of {rows}x{n}, {kind}{', sorted' if in_order else ''}"
        yield Work(name, run, check, 0.0, lambda x=x, k=k, o=in_order: torch.topk(x, k, 1, sorted=o))


def renormalisings(context: Context) -> Iterator[Work]:
    if not hasattr(context, "renormalise"):
        return
    for name, given in (("top-k 50", {"top_k": 50}), ("top-p 0.9", {"top_p": 0.9}), ("min-p 0.05", {"min_p": 0.05})):
        for rows, vocab in SHAPES:
            probs = torch.softmax(logits_of("normal", rows, vocab), -1)
            out = torch.empty_like(probs)

            def run(probs=probs, out=out, given=given):
                context.renormalise(probs, out=out, **given)

            def check(out=out):
                return float((out.double().sum(1) - 1).abs().max())

            yield Work(f"renormalise {name} {rows}x{vocab}", run, check, 1e-5)


def edits_of(batch: int, n: int, vocab: int) -> Iterator[tuple[str, dict]]:
    """Penalties, masks and log-probabilities, as requests bring them."""
    generator = torch.Generator(device="cuda").manual_seed(4)
    output = torch.randint(vocab, (batch, 1000), device="cuda", generator=generator, dtype=torch.int32)
    penalties = {"repetition": 1.1, "presence": 0.1, "frequency": 0.1, "output_tokens": output}
    filters = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}
    logprobs = torch.empty(batch, n + 1, device="cuda")
    allowed = torch.full((batch, n + 1, -(-vocab // 32)), -1, dtype=torch.int32, device="cuda")
    yield "logits, penalties, greedy", {**penalties, "greedy": True}
    yield "logits, penalties, top-k 50, top-p 0.9", {**penalties, **filters}
    yield "logits, masks, top-k 50, top-p 0.9", {"allowed": allowed, **filters}
    yield "logits, penalties, masks, log-probabilities", {**penalties, "allowed": allowed, "logprobs": logprobs}


def verifications(context: Context) -> Iterator[Work]:
    batch, n = 32, 5
    for vocab in (128256,):
        generator = torch.Generator(device="cuda").manual_seed(3)
        draft_logits = 3 * torch.randn(batch, n, vocab, device="cuda", generator=generator)
        noise = torch.randn(batch, n + 1, vocab, device="cuda", generator=generator)
        target_logits = torch.cat([draft_logits, draft_logits[:, :1]], 1) + 0.5 * noise
        target, draft = torch.softmax(target_logits, -1), torch.softmax(draft_logits, -1)
        ids = torch.multinomial(draft.view(-1, vocab), 1, generator=generator).view(batch, n).int()
        offset = torch.zeros(batch, dtype=torch.int64, device="cuda")
        seed = torch.arange(batch, dtype=torch.int64, device="cuda")
        outs = {
            name: torch.empty(shape, dtype=torch.int32, device="cuda")
            for name, shape in (("accepted", (batch,)), ("ids", (batch, n + 1)), ("path", (batch, n)))
        }

        def check(accepted=outs["accepted"]):
            return float(((accepted < 0) | (accepted > n)).sum())

        for name, given in (
            ("probabilities", {"target": target, "draft": draft}),
            ("probabilities, no draft's", {"target": target}),
            ("probabilities, greedy", {"target": target, "greedy": True}),
            ("logits, temperature", {"target": target_logits, "draft": draft, "logits": True, "temperature": 0.8}),
            ("logits, top-k 50, top-p 0.9", {"target": target_logits, "logits": True, "top_k": 50, "top_p": 0.9}),
            *((name, {"target": target_logits, "logits": True, **given}) for name, given in edits_of(batch, n, vocab)),
        ):

            def run(given=given, ids=ids, seed=seed, offset=offset, outs=outs):
                context.verify_draft(draft_ids=ids, seed=seed, offset=offset, **outs, **given)

            yield Work(f"verify 5 drafts, {batch}x{vocab}, {name}", run, check)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word of the names of what is timed")
    parser.add_argument("--json", help="write the figures there")
    options = parser.parse_args()
    context, rows = Context("cuda:0"), []
    print(f"{context.device.name}: call / graph, us; quern, PyTorch")
    for works in (softmaxes, argmaxes, top_ks, renormalisings, verifications):
        for work in works(context):
            if options.only not in work.name:
                continue
            begin = time.perf_counter()
            work.run()
            torch.cuda.synchronize()
            first = time.perf_counter() - begin
            far = work.check()
            row = {"work": work.name, "first_ms": first * 1e3, "error": far, "right": far <= work.most}
            row["quern"] = {"call": call_us(work.run), "graph": graph_us(work.run)}
            peer = ""
            if work.peer is not None:
                row["torch"] = {"call": call_us(work.peer), "graph": graph_us(work.peer)}
                peer = f"{row['torch']['call']:9.1f} /{row['torch']['graph']:8.1f}"
            wrong = "" if row["right"] else f"  WRONG BY {far:.3g}"
            print(f"{work.name:52}{row['quern']['call']:9.1f} /{row['quern']['graph']:8.1f}{peer}{wrong}", flush=True)
            rows.append(row)
    first = max((row["first_ms"] for row in rows), default=0.0)
    print(f"the slowest first call: {first:.0f} ms")
    if options.json:
        write(options.json, note="Microseconds of calls out of a flushed L2 and of graphs of 20 calls.", rows=rows)


if __name__ == "__main__":
    main()
