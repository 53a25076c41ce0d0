# Serving as vLLM does it, in PyTorch on quern: a cache of blocks that requests take as they grow, prompts in chunks
# beside decodes in one batch without padding, requests that come and go, and one that gives its blocks back when they
# run out and begins anew.
#   python3 paged_serving.py [cuda]
# SPDX-License-Identifier: Apache-2.0
"""Everything is keyed as in vLLM's attention back ends: `slots` says where each new token's key and value go (its slot
mapping), `page_table` which blocks a request has (its block table), `cu_q` where each request's tokens begin (its query
start locations), `lengths` how many there are with the new ones. The model is a small one with random weights."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import torch
from quern.torch_ops import ops

LAYERS, HEADS, KV_HEADS, DIM, VOCABULARY = 2, 4, 2, 32, 97
WIDTH = HEADS * DIM
BLOCK = 16  # tokens


class Model:
    """A decoder: norms, grouped-query attention with rotary positions, a gated product."""

    def __init__(self, device: str, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            return (torch.randn(rows, columns, generator=random) * columns**-0.5).to(device, dtype)

        self.device, self.dtype = device, dtype
        self.embedding = torch.randn(VOCABULARY, WIDTH, generator=random).to(device, dtype)
        self.qkv = [matrix((HEADS + 2 * KV_HEADS) * DIM, WIDTH) for _ in range(LAYERS)]
        self.out = [matrix(WIDTH, WIDTH) for _ in range(LAYERS)]
        self.gate_up = [matrix(4 * WIDTH, WIDTH) for _ in range(LAYERS)]
        self.down = [matrix(WIDTH, 2 * WIDTH) for _ in range(LAYERS)]
        self.head = matrix(VOCABULARY, WIDTH)

    def forward(self, ids: torch.Tensor, batch: Batch, caches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """The logits of each request's last token."""
        hidden = ops.gather(self.embedding, ids)
        for layer, (k_cache, v_cache) in enumerate(caches):
            q, k, v = (
                ops.gemm(ops.rmsnorm(hidden), self.qkv[layer])
                .view(len(ids), -1, DIM)
                .split((HEADS, KV_HEADS, KV_HEADS), dim=1)
            )
            q = ops.kv_append(
                k, v, k_cache, v_cache, slots=batch.slots, positions=batch.positions, q=q.contiguous(), theta=1e4
            )
            attended = ops.attention(
                q, k_cache, v_cache, lengths=batch.lengths, page_table=batch.page_table, cu_q=batch.cu_q,
                max_q_len=batch.max_q_len, causal=True,
            )  # fmt: skip
            hidden = hidden + ops.gemm(attended.view(-1, WIDTH), self.out[layer])
            hidden = hidden + ops.gemm(ops.gemm(ops.rmsnorm(hidden), self.gate_up[layer], gate=True), self.down[layer])
        last = ops.rmsnorm(hidden[batch.cu_q[1:].long() - 1])
        return ops.gemm(last, self.head, out_dtype=torch.float32)


@dataclass
class Request:
    prompt: list[int]
    tokens: int  # to make
    ids: list[int] = field(default_factory=list)  # the prompt and what was made
    blocks: list[int] = field(default_factory=list)
    cached: int = 0  # tokens whose keys and values are in the cache

    def __post_init__(self) -> None:
        self.ids = self.ids or list(self.prompt)

    @property
    def made(self) -> list[int]:
        return self.ids[len(self.prompt) :]


class Batch:
    """One step's tokens, those of one request behind those of the other, as ops take them."""

    def __init__(self, chunks: list[tuple[Request, int]], max_blocks: int, device: str) -> None:
        ids, slots, positions, cu_q, lengths = [], [], [], [0], []
        table = torch.zeros(len(chunks), max_blocks, dtype=torch.int32)
        for row, (request, count) in enumerate(chunks):
            for place in range(request.cached, request.cached + count):
                ids.append(request.ids[place])
                slots.append(request.blocks[place // BLOCK] * BLOCK + place % BLOCK)
                positions.append(place)
            cu_q.append(len(ids))
            lengths.append(request.cached + count)
            table[row, : len(request.blocks)] = torch.tensor(request.blocks, dtype=torch.int32)

        def integers(values: list[int]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int32, device=device)

        self.ids, self.slots, self.positions = integers(ids), integers(slots), integers(positions)
        self.cu_q, self.lengths, self.page_table = integers(cu_q), integers(lengths), table.to(device)
        self.max_q_len = max(count for _, count in chunks)


class Engine:
    """Continuous batching over a cache of `blocks` blocks, at most `budget` tokens a step."""

    def __init__(self, model: Model, blocks: int = 12, budget: int = 24) -> None:
        shape = (blocks, BLOCK, KV_HEADS, DIM)
        self.model, self.budget, self.blocks = model, budget, blocks
        # What is in a block that nobody has is never read.
        self.caches = [
            tuple(torch.full(shape, torch.nan, dtype=model.dtype, device=model.device) for _ in range(2))
            for _ in range(LAYERS)
        ]
        self.free = list(range(blocks))
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.preempted = 0

    def add(self, request: Request) -> None:
        if (len(request.prompt) + request.tokens + BLOCK - 1) // BLOCK > self.blocks:
            raise ValueError(f"a request of {len(request.prompt)} + {request.tokens} tokens has no room in this cache")
        self.waiting.append(request)

    def step(self) -> list[Request]:
        """One batch; returns the requests that are done with it."""
        chunks: list[tuple[Request, int]] = []
        left = self.budget
        for request in list(self.running):
            if request in self.running:  # it may have lost its blocks to an earlier one
                left -= self._schedule(request, left, chunks)
        while self.waiting and left > 0 and self.free:
            request = self.waiting.pop(0)
            self.running.append(request)
            left -= self._schedule(request, left, chunks, may_preempt=False)
        chunks = [(request, count) for request, count in chunks if request in self.running]
        if not chunks:
            return []
        batch = Batch(chunks, self.blocks, self.model.device)
        with torch.no_grad():
            chosen = self.model.forward(batch.ids, batch, self.caches).argmax(-1).tolist()
        done = []
        for (request, count), token in zip(chunks, chosen, strict=True):
            request.cached += count
            if request.cached < len(request.ids):
                continue  # more of the prompt is to come
            request.ids.append(token)
            if len(request.made) == request.tokens:
                done.append(request)
                self.running.remove(request)
                self._release(request)
        return done

    def _schedule(
        self, request: Request, left: int, chunks: list[tuple[Request, int]], may_preempt: bool = True
    ) -> int:
        count = min(len(request.ids) - request.cached, left)
        while request.cached + count > len(request.blocks) * BLOCK:
            if self.free:
                request.blocks.append(self.free.pop())
                continue
            victim = self.running[-1]
            if not may_preempt or victim is request:
                # What its blocks hold now, or nothing this time.
                count = max(0, min(count, len(request.blocks) * BLOCK - request.cached))
                break
            # The youngest gives way: its tokens are computed again when there is room.
            self.running.remove(victim)
            self._release(victim)
            self.waiting.insert(0, victim)
            self.preempted += 1
        if count > 0:
            chunks.append((request, count))
        return count

    def _release(self, request: Request) -> None:
        self.free += request.blocks
        request.blocks, request.cached = [], 0


def reference(model: Model, ids: list[int]) -> torch.Tensor:
    """The logits behind every token, by PyTorch alone, in fp64 and without a cache."""

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    x = model.embedding[ids].double()
    frequencies = 1e4 ** (-torch.arange(0, DIM, 2, device=x.device).double() / DIM)
    angles = torch.arange(len(ids), device=x.device).double()[:, None, None] * frequencies

    def turned(heads: torch.Tensor) -> torch.Tensor:
        a, b = heads.chunk(2, -1)
        return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)

    for qkv, out, gate_up, down in zip(model.qkv, model.out, model.gate_up, model.down, strict=True):
        q, k, v = (norm(x) @ qkv.double().T).view(len(ids), -1, DIM).split((HEADS, KV_HEADS, KV_HEADS), dim=1)
        k, v = (each.repeat_interleave(HEADS // KV_HEADS, 1).transpose(0, 1) for each in (turned(k), v))
        attended = torch.nn.functional.scaled_dot_product_attention(turned(q).transpose(0, 1), k, v, is_causal=True)
        x = x + attended.transpose(0, 1).reshape(len(ids), WIDTH) @ out.double().T
        gate, up = (norm(x) @ gate_up.double().T).chunk(2, -1)
        x = x + (torch.nn.functional.silu(gate) * up) @ down.double().T
    return norm(x) @ model.head.double().T


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    model = Model(device)
    engine = Engine(model)
    random = torch.Generator().manual_seed(1)
    lengths = (40, 3, 17, 60, 5)
    requests = [Request(torch.randint(VOCABULARY, (n,), generator=random).tolist(), 30) for n in lengths]
    steps, done = 0, 0
    for request in requests:
        engine.add(request)
        done += len(engine.step())  # they come one a step
        steps += 1
    while done < len(requests):
        done += len(engine.step())
        steps += 1
    print(f"{len(requests)} requests in {steps} steps, {engine.preempted} begun anew")
    for request in requests:
        print(request.made)


if __name__ == "__main__":
    main()
