"""PyTorch's attention on the shapes of quern_device_bench, timed in the same way, for figures side by side.

    python3 tests/bench/peers.py [--quern FILE] [--json FILE]

FILE of --quern is what `quern_device_bench --json FILE` wrote at the same time on the same GPU. PyTorch's keys and
values are contiguous, not paged.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import datetime
import json
import shlex
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

FLUSH_BYTES = 256 << 20
TIMED_CALLS = 30
GRAPH_CALLS = 20
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}

# batch, query heads, KV heads, context
DECODE = [
    (64, 32, 8, 4096),
    (1, 32, 8, 32768),
    (1, 32, 4, 1024),
    (16, 64, 8, 8192),
    (32, 32, 8, 4096),
    (8, 32, 8, 1024),
    (128, 32, 32, 1024),
    (256, 32, 8, 1024),
]
# batch, query heads, KV heads, query tokens, keys, head dim
PREFILL = [
    (4, 32, 32, 4096, 4096, 128),
    (1, 32, 8, 16384, 16384, 128),
    (16, 16, 16, 1024, 1024, 128),
    (4, 32, 32, 4096, 4096, 64),
    (2, 8, 8, 4096, 4096, 256),
    (8, 32, 8, 512, 8192, 128),
]


class Spans:
    """Pairs of events around what is timed."""

    def __init__(self):
        self.pairs = []

    def __enter__(self):
        self.pairs.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
        self.pairs[-1][0].record()

    def __exit__(self, *_):
        self.pairs[-1][1].record()

    def median_us(self):
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) * 1000 for start, end in self.pairs)


def flushed_us(call, flush):
    for _ in range(3):
        call()
    spans = Spans()
    for _ in range(TIMED_CALLS):
        flush.fill_(1)
        with spans:
            call()
    return spans.median_us()


def graph_us(call):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            call()
    for _ in range(3):
        graph.replay()
    spans = Spans()
    for _ in range(10):
        with spans:
            graph.replay()
    return spans.median_us() / GRAPH_CALLS


def tensors(batch, heads, kv_heads, queries, keys, dim):
    def make(count, length):
        return torch.randn(batch, count, length, dim, dtype=torch.bfloat16, device="cuda")

    return make(heads, queries), make(kv_heads, keys), make(kv_heads, keys)


def timed(backend, shape, flush, with_graph):
    """The time of a call in us and as part of a graph; None for what this backend does not do."""
    _, heads, kv_heads, queries, keys, _ = shape
    q, k, v = tensors(*shape)
    options = {"enable_gqa": heads != kv_heads}
    if queries == keys:
        options["is_causal"] = True
    elif queries > 1:
        options["attn_mask"] = causal_lower_right(queries, keys)

    def call():
        return F.scaled_dot_product_attention(q, k, v, **options)

    try:
        with sdpa_kernel(BACKENDS[backend]):
            us = flushed_us(call, flush)
            return us, graph_us(call) if with_graph else None
    except RuntimeError as error:
        print(f"  ({backend} does not do {shape}: {str(error).splitlines()[0]})", file=sys.stderr)
        return None, None


def figure(value, width, digits=1):
    return f"{value:{width}.{digits}f}" if value is not None else "-".rjust(width)


def ours(rows, **wanted):
    for row in rows:
        if all(row[name] == value for name, value in wanted.items()):
            return row
    return {}


def bench_decode(quern, flush):
    print("\ndecode, bf16, dim 128: us a call / us as graph")
    print(f"{'':34}{'quern, page 16':>20}{'quern, page 64':>20}" + "".join(f"{name:>20}" for name in BACKENDS))
    results = []
    for batch, heads, kv_heads, context in DECODE:
        shape = (batch, heads, kv_heads, 1, context, 128)
        line = f"  b{batch:<4} {heads:>2}/{kv_heads:<2} context {context:<10}"
        for page_size in (16, 64):
            wanted = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "context": context, "page_size": page_size}
            row = ours(quern.get("decode", {}).get("rows", []), **wanted)
            line += f"{figure(row.get('call_us'), 12)}{figure(row.get('graph_us'), 8)}"
        for backend in BACKENDS:
            call, graph = timed(backend, shape, flush, with_graph=True)
            line += f"{figure(call, 12)}{figure(graph, 8)}"
            results.append({"backend": backend, "shape": shape, "call_us": call, "graph_us": graph})
        print(line, flush=True)
    return results


def bench_prefill(quern, flush):
    print("\nprefill, bf16, causal: TFLOP/s")
    print(f"{'':40}{'quern, ragged':>15}{'quern, page 64':>15}" + "".join(f"{name:>15}" for name in BACKENDS))
    results = []
    for shape in PREFILL:
        batch, heads, kv_heads, queries, keys, dim = shape
        pairs = queries * (keys - queries) + queries * queries / 2
        flops = 4 * batch * heads * dim * pairs
        line = f"  b{batch:<3} {heads:>2}/{kv_heads:<2} d{dim:<4} {queries:>5} of {keys:<8} "
        for page_size in (0, 64):
            wanted = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "q_len": queries, "kv_len": keys}
            row = ours(quern.get("prefill", []), dim=dim, page_size=page_size, **wanted)
            line += figure(row.get("tflops"), 15, 0)
        for backend in BACKENDS:
            call, _ = timed(backend, shape, flush, with_graph=False)
            tflops = flops / call / 1e6 if call is not None else None
            line += figure(tflops, 15, 0)
            results.append({"backend": backend, "shape": shape, "call_us": call, "tflops": tflops})
        print(line, flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quern", help="what quern_device_bench --json wrote")
    parser.add_argument("--json", help="write the figures here")
    arguments = parser.parse_args()
    quern = {}
    if arguments.quern:
        with open(arguments.quern) as file:
            quern = json.load(file)
    torch.manual_seed(20261121)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    result = {
        "date": datetime.date.today().isoformat(),
        "command": "python3 tests/bench/peers.py " + shlex.join(sys.argv[1:]),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "decode": bench_decode(quern, flush),
        "prefill": bench_prefill(quern, flush),
        "quern": {name: quern[name] for name in ("decode", "prefill") if name in quern},
    }
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
