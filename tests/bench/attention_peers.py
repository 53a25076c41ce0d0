"""quern's attention beside cuDNN's (PyTorch) and FlashAttention-4's, where it can be imported, in one run.

    PYTHONPATH=build/python python3 tests/bench/attention_peers.py [--only KIND,...] [--random COUNT] [--json FILE]

Needs an NVIDIA GPU of the Hopper generation, PyTorch, and quern's Python package as built. Every result of quern's is
held against attention in f32 on rows drawn at random; outputs are poisoned first. Calls are timed out of a flushed L2,
graphs of several calls with it warm. cuDNN's tensors are contiguous; of the peers FlashAttention-4 alone has a
page table. Exits with 1 where a result is wrong.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import quern
import torch
import torch.nn.functional as F
from gemm.clock import Clock
from kept import write
from torch.nn.attention import SDPBackend, sdpa_kernel

KINDS = ("prefill", "append", "window", "wide", "decode", "random")
LIMIT = 0.01  # of the difference's norm over the reference's, for outputs of 16 bits
LIMIT_FP8 = 0.04  # the same where weights are e4m3


@dataclass(frozen=True)
class Case:
    kind: str
    batch: int
    heads: int
    kv_heads: int
    queries: int  # of each sequence
    keys: int
    dim: int
    dim_v: int = 0  # 0: dim
    page: int = 0  # 0: ragged
    causal: bool = True
    window: int | None = None
    cap: float = 0.0
    dtype: str = "bfloat16"
    invariant: bool = False
    kv: str = ""  # of keys and values: "e4m3", "e5m2" and "int8" with a scale a head; "": dtype
    token_scales: bool = False  # or, of int8, a token and head
    programmatic: bool = False
    q: str = ""  # of queries: "e4m3", unscaled; "": dtype

    @property
    def v(self) -> int:
        return self.dim_v or self.dim

    @property
    def name(self) -> str:
        dims = f"d{self.dim}" + (f"/{self.v}" if self.v != self.dim else "")
        where = f"page {self.page}" if self.page else "ragged"
        rest = ("" if self.causal else " full") + (f" window {self.window}" if self.window is not None else "")
        rest += (" cap" if self.cap else "") + (" f16" if self.dtype == "float16" else "")
        rest += " invariant" if self.invariant else ""
        rest += " programmatic" if self.programmatic else ""
        rest += f" {self.kv}" if self.kv else ""
        rest += " scales of tokens" if self.token_scales else ""
        rest += f" q {self.q}" if self.q else ""
        return f"b{self.batch} {self.heads}/{self.kv_heads} {self.queries} of {self.keys} {dims} {where}{rest}"

    def pairs(self) -> float:
        """Pairs of a query and a key that it sees, of one head of one sequence."""
        total = 0
        for i in range(self.queries):
            position = self.keys - self.queries + i
            first = max(0, position - self.window) if self.window is not None else 0
            total += (position + 1 if self.causal else self.keys) - first
        return total

    def flops(self) -> float:
        return 2.0 * self.batch * self.heads * (self.dim + self.v) * self.pairs()

    def bytes(self) -> float:
        """Of keys and values."""
        return (1.0 if self.kv else 2.0) * self.batch * self.kv_heads * self.keys * (self.dim + self.v)


CASES = [
    Case("prefill", 4, 32, 32, 4096, 4096, 128),
    Case("prefill", 1, 32, 8, 16384, 16384, 128),
    Case("prefill", 4, 32, 32, 4096, 4096, 64),
    Case("prefill", 4, 32, 32, 4096, 4096, 256),
    Case("prefill", 2, 32, 32, 8192, 8192, 192, 128),
    Case("prefill", 4, 32, 32, 4096, 4096, 128, causal=False),
    Case("prefill", 16, 16, 16, 1024, 1024, 128),
    Case("prefill", 1, 32, 8, 16384, 16384, 128, kv="e4m3"),
    Case("prefill", 1, 32, 8, 16384, 16384, 128, kv="e4m3", q="e4m3"),
    Case("prefill", 4, 32, 32, 4096, 4096, 128, kv="e4m3", q="e4m3"),
    Case("append", 8, 32, 8, 512, 8192, 128, page=64),
    Case("append", 8, 32, 8, 512, 8192, 128, page=16),
    Case("append", 8, 32, 8, 512, 8192, 128, page=16, kv="e4m3"),
    Case("append", 8, 32, 8, 512, 8192, 128, page=16, kv="int8", token_scales=True),
    Case("window", 4, 64, 8, 8192, 8192, 64, window=1023),
    Case("wide", 1, 16, 16, 8192, 8192, 512),
    Case("wide", 1, 16, 4, 8192, 8192, 512, page=64),
    Case("wide", 1, 16, 16, 8192, 8192, 1024),
    Case("wide", 2, 16, 16, 4096, 4096, 320),
    Case("wide", 8, 16, 4, 256, 6000, 512, page=16),
    Case("wide", 32, 16, 4, 8, 2048, 512, page=64),
    Case("decode", 64, 32, 8, 1, 4096, 128, page=16),
    Case("decode", 64, 32, 8, 1, 4096, 128, page=64),
    Case("decode", 1, 32, 8, 1, 32768, 128, page=16),
    Case("decode", 1, 32, 4, 1, 1024, 128, page=16),
    Case("decode", 1, 32, 4, 1, 1024, 128, page=16, programmatic=True),
    Case("decode", 16, 64, 8, 1, 8192, 128, page=16),
    Case("decode", 256, 32, 8, 1, 1024, 128, page=16),
    Case("decode", 64, 32, 8, 1, 4096, 128, page=16, kv="e4m3"),
    Case("decode", 64, 32, 8, 1, 4096, 128, page=16, kv="e5m2"),
    Case("decode", 64, 32, 8, 1, 4096, 128, page=16, kv="int8"),
    Case("decode", 64, 32, 8, 1, 4096, 128, page=16, kv="int8", token_scales=True),
    Case("decode", 1, 32, 8, 1, 65536, 128, page=16, kv="e4m3"),
]


def draw(generator: random.Random) -> Case:
    """A step of some real model: heads, dims and page sizes that occur, lengths of any size."""
    heads, kv_heads = generator.choice([(32, 32), (32, 8), (28, 4), (64, 8), (16, 2), (40, 8), (24, 8), (8, 1)])
    dim, dim_v = generator.choice([(64, 0), (80, 0), (96, 0), (112, 0), (128, 0), (128, 0), (192, 128), (256, 0)])
    page = generator.choice([0, 16, 32, 64, 128])
    queries = int(2 ** generator.uniform(6, 12.5))
    keys = queries + (int(2 ** generator.uniform(4, 13.5)) if generator.random() < 0.5 else 0)
    batch = max(1, min(16, (1 << 16) // (queries + keys // 4)))
    return Case(
        "random", batch, heads, kv_heads, queries, keys, dim, dim_v, page, causal=generator.random() < 0.8,
        window=generator.choice([None, None, None, 511, 4095]) if dim <= 128 else None,
        dtype=generator.choice(["bfloat16", "bfloat16", "float16"]), invariant=generator.random() < 0.15,
    )  # fmt: skip


CODES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


class Tensors:
    def __init__(self, case: Case) -> None:
        c = self.case = case
        dtype = getattr(torch, c.dtype)

        def make(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, dtype=dtype, device="cuda")

        self.q = make(c.batch * c.queries, c.heads, c.dim)
        if c.q:
            self.q = self.q.to(CODES[c.q])
        self.plain_q = self.q.to(dtype) if c.q else self.q
        self.cu_q = torch.arange(c.batch + 1, dtype=torch.int32, device="cuda") * c.queries
        self.lengths = torch.full((c.batch,), c.keys, dtype=torch.int32, device="cuda")
        self.out = torch.full((c.batch * c.queries, c.heads, c.v), math.nan, dtype=dtype, device="cuda")
        self.scales: dict[str, torch.Tensor] = {}
        if c.page:
            pages = math.ceil(c.keys / c.page)
            self.k, self.v = (make(c.batch * pages, c.page, c.kv_heads, d) for d in (c.dim, c.v))
            self.table = torch.randperm(c.batch * pages, device="cuda").to(torch.int32).view(c.batch, pages)
        else:
            self.k, self.v = (make(c.batch * c.keys, c.kv_heads, d) for d in (c.dim, c.v))
            self.cu_kv = torch.arange(c.batch + 1, dtype=torch.int32, device="cuda") * c.keys
        if c.kv:
            self.k, self.v = self._coded("k_scale", self.k), self._coded("v_scale", self.v)

    def _coded(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Codes, as bytes where they are of a float type; the scales go to self.scales."""
        if self.case.token_scales:
            self.scales[name] = x.float().abs().amax(-1) / 127
            return torch.round(x.float() / self.scales[name][..., None]).to(torch.int8)
        largest = x.float().abs().transpose(-2, 0).flatten(1).amax(-1)
        if self.case.kv == "int8":
            self.scales[name] = largest / 127
            return torch.round(x.float() / self.scales[name][:, None]).to(torch.int8)
        self.scales[name] = largest / 240
        return (x.float() / self.scales[name][:, None]).to(CODES[self.case.kv]).view(torch.uint8)

    def _values(self, name: str, x: torch.Tensor, pages: torch.Tensor | slice) -> torch.Tensor:
        """Of some pages or tokens, in f32."""
        x = x[pages]
        if not self.case.kv:
            return x.float()
        if self.case.token_scales:
            return x.float() * self.scales[name][pages][..., None]
        if self.case.kv == "int8":
            return x.float() * self.scales[name][:, None]
        return x.view(CODES[self.case.kv]).float() * self.scales[name][:, None]

    def of_sequence(self, i: int, head: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Its keys and values, in f32."""
        c = self.case
        if c.page:
            pages = self.table[i].long()
            k, v = (
                self._values(name, x, pages).flatten(0, 1)[: c.keys]
                for name, x in (("k_scale", self.k), ("v_scale", self.v))
            )
        else:
            tokens = slice(i * c.keys, (i + 1) * c.keys)
            k, v = self._values("k_scale", self.k, tokens), self._values("v_scale", self.v, tokens)
        return k[:, head], v[:, head]


def difference(t: Tensors, generator: random.Random) -> float:
    """The largest relative difference of some heads' results from attention in f32, over 200 rows each."""
    c, worst = t.case, 0.0
    if bool(torch.isnan(t.out).any()):
        return math.nan
    for _ in range(6):
        i, head = generator.randrange(c.batch), generator.randrange(c.heads)
        rows = torch.randint(c.queries, (min(200, c.queries),), device="cuda")
        k, v = t.of_sequence(i, head // (c.heads // c.kv_heads))
        logits = t.plain_q[i * c.queries + rows, head].float() @ k.T / math.sqrt(c.dim)
        if c.cap:
            logits = c.cap * torch.tanh(logits / c.cap)
        position, key = (c.keys - c.queries + rows)[:, None], torch.arange(c.keys, device="cuda")
        if c.causal:
            logits.masked_fill_(key > position, -math.inf)
        if c.window is not None:
            logits.masked_fill_(key < position - c.window, -math.inf)
        reference = torch.softmax(logits, -1) @ v
        got = t.out[i * c.queries + rows, head].float()
        worst = max(worst, float((got - reference).norm() / reference.norm()))
    return worst


def ours(context: quern.Context, t: Tensors) -> Callable[[], object]:
    c = t.case
    cache = {"page_table": t.table} if c.page else {"cu_kv": t.cu_kv}
    arguments = dict(
        lengths=t.lengths, cu_q=t.cu_q, max_q_len=c.queries, max_kv_len=c.keys, causal=c.causal, out=t.out,
        window_left=c.window, logit_cap=c.cap or None,
        batch_invariant=c.invariant, programmatic=c.programmatic, **cache, **t.scales,
        **({"kv_type": c.kv} if c.kv in CODES else {}),
    )  # fmt: skip
    return lambda: context.attention(t.q, t.k, t.v, **arguments)


def of_pytorch(backend: SDPBackend, t: Tensors) -> Callable[[], object] | None:
    c = t.case
    if c.page or c.kv or c.window is not None or c.cap or (c.causal and c.queries != c.keys):
        return None
    q, k, v = (x.view(c.batch, -1, *x.shape[1:]).transpose(1, 2) for x in (t.q, t.k, t.v))

    def call() -> object:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=c.causal, enable_gqa=c.heads != c.kv_heads)

    return call


def of_fa4(t: Tensors) -> Callable[[], object] | None:
    c = t.case
    if c.kv:
        return None
    try:
        from flash_attn.cute import flash_attn_varlen_func
    except ImportError:
        return None
    window = {"window_size": (c.window, 0)} if c.window is not None else {}
    common = dict(cu_seqlens_q=t.cu_q, max_seqlen_q=c.queries, max_seqlen_k=c.keys, causal=c.causal, **window)
    if c.page:
        return lambda: flash_attn_varlen_func(t.q, t.k, t.v, seqused_k=t.lengths, page_table=t.table, **common)
    return lambda: flash_attn_varlen_func(t.q, t.k, t.v, cu_seqlens_k=t.cu_kv, **common)


def sides(context: quern.Context, t: Tensors, alone: bool) -> dict[str, Callable[[], object]]:
    calls: dict[str, Callable[[], object] | None] = {"quern": ours(context, t)}
    if not alone:
        wide = t.case.dim > 256  # cuDNN and FlashAttention end there
        calls["cudnn"] = None if wide else of_pytorch(SDPBackend.CUDNN_ATTENTION, t)
        calls["efficient"] = of_pytorch(SDPBackend.EFFICIENT_ATTENTION, t) if wide else None
        calls["fa4"] = of_fa4(t)
    working = {}
    for side, call in calls.items():
        if call is None:
            continue
        try:
            call()
            torch.cuda.synchronize()
            working[side] = call
        except Exception as error:  # a peer that does not take the case is left out of its row
            if side == "quern":
                raise
            print(f"  ({side}: {str(error).splitlines()[0][:100]})", file=sys.stderr)
    return working


def row_of(
    case: Case, clock: Clock, context: quern.Context, generator: random.Random, alone: bool
) -> dict[str, object]:
    t = Tensors(case)
    start = time.perf_counter()
    calls = sides(context, t, alone)
    first = time.perf_counter() - start
    wrong = difference(t, generator)
    row: dict[str, object] = {"case": asdict(case), "name": case.name, "difference": wrong, "first_s": first}
    clock.synchronise()
    # A call is the replay of a graph of one: what the host does for it is not of interest here.
    times = clock.of_calls({side: clock.capture([call]).replay for side, call in calls.items()})
    graphs = {side: clock.capture([call] * 10) for side, call in calls.items()}
    replays = clock.of_graphs(graphs)
    row["us"] = {side: (times[side].us, replays[side].us / 10) for side in calls}
    return row


def is_good(row: dict[str, object]) -> bool:
    limit = LIMIT_FP8 if row["case"]["q"] else LIMIT  # type: ignore[index]
    return row["difference"] < limit  # type: ignore[operator]


def show(row: dict[str, object]) -> None:
    case = Case(**row["case"])  # type: ignore[arg-type]
    us: dict[str, tuple[float, float]] = row["us"]  # type: ignore[assignment]
    unit = case.bytes() / 1e3 if case.kind == "decode" else case.flops() / 1e6
    times = "".join(
        f" | {side} {call:8.1f} {graph:8.1f} us {unit / call:5.0f} / {unit / graph:5.0f}"
        for side, (call, graph) in us.items()
    )
    good = is_good(row)
    print(f"{case.kind:8}{case.name:52}{times}{'' if good else '  WRONG: ' + str(row['difference'])}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=KINDS, metavar="KIND,...", help=", ".join(KINDS)
    )
    parser.add_argument("--random", type=int, default=40, help="how many random cases")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random cases")
    parser.add_argument("--alone", action="store_true", help="time quern without its peers")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--replays", type=int, default=7)
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no further case is begun")
    parser.add_argument("--cache", help="quern's cache folder; default: none")
    parser.add_argument("--json", help="write the rows here")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    generator = random.Random(arguments.seed)
    torch.manual_seed(arguments.seed)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"--seed {arguments.seed}; us of a call and in a graph, "
          "TFLOP/s (decode: GB/s) / the same of the graph")  # fmt: skip
    chosen = [case for case in CASES if case.kind in arguments.only]
    if "random" in arguments.only:
        chosen += [draw(generator) for _ in range(arguments.random)]
    rows = []
    cache = {"cache_path": arguments.cache} if arguments.cache else {"no_cache": True}
    with quern.Context("cuda", **cache) as context, Clock(arguments.rounds, arguments.replays) as clock:
        for case in chosen:
            if time.perf_counter() - begin > arguments.budget:
                print(f"(out of time: {len(chosen) - len(rows)} cases left out)")
                break
            rows.append(row_of(case, clock, context, generator, arguments.alone))
            show(rows[-1])
    wrong = [row for row in rows if not is_good(row)]
    ratios = sorted(min(u[0] for side, u in row["us"].items() if side != "quern") / row["us"]["quern"][0]
                    for row in rows if row["case"]["kind"] == "random" and len(row["us"]) > 1)  # fmt: skip
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"random: the best peer's time over ours: mean {mean:.2f}, 5 % {ratios[len(ratios) // 20]:.2f}, "
              f"worst {ratios[0]:.2f}, of {len(ratios)}")  # fmt: skip
    if arguments.json:
        write(arguments.json, device=torch.cuda.get_device_name(), seed=arguments.seed, rows=rows)
    print(f"{len(rows)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
