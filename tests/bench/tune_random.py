"""What tuning gains over the choices of the cost model, on random products.

    python3 tests/bench/tune_random.py [--products N] [--seed N] [--json FILE]

Needs an NVIDIA GPU of the Hopper generation and build/bin/quern; with --json PyTorch, too. N and K are those of a
projection of a real model at some tensor parallelism or odd, three log-uniform numbers of rows to each; the seed is
drawn at the start and printed. `quern tune --again` measures every candidate of each product. A gain is the model's
choice's time over the fastest's.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from gemm.projections import MODELS, MOST_ROWS, MULTIPLE, ODD_SHARE
from kept import write

QUERN = Path(__file__).resolve().parents[2] / "build" / "bin" / "quern"
KINDS = {"bf16": "gemm * dtype=bf16", "fp8": "fp8_gemm * scales=vectors", "fp8 blocks": "fp8_gemm * scales=blocks"}
ROWS_EACH, BLOCK = 3, 128


def extents(chance: random.Random, kind: str) -> tuple[int, int]:
    if chance.random() < ODD_SHARE:
        n, k = (MULTIPLE * chance.randint(16, 1024) for _ in range(2))
    else:
        n, k = chance.choice(chance.choice(MODELS).projections(chance.choice([1, 2, 4, 8])))
    unit = BLOCK if kind == "fp8 blocks" else MULTIPLE
    return max(n // unit, 1) * unit, max(k // unit, 1) * unit


def tuned(line: str, rows: list[int]) -> list[dict]:
    with tempfile.NamedTemporaryFile("w", suffix=".manifest") as manifest:
        manifest.write(line + "\n")
        manifest.flush()
        command = [QUERN, "tune", manifest.name, "--rows", ",".join(map(str, rows)), "--again", "--json"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{line}: {run.stderr.strip()}")
    return json.loads(run.stdout)["products"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=51, help="so many in all, three of each N and K")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", help="write the rows here")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    chance = random.Random(options.seed)
    rows: list[dict] = []
    kinds = list(KINDS)
    while len(rows) < options.products:
        kind = kinds[len(rows) // ROWS_EACH % len(kinds)]
        n, k = extents(chance, kind)
        heights = sorted({round(MOST_ROWS ** chance.random()) for _ in range(ROWS_EACH)})
        for product in tuned(f"{KINDS[kind]} n={n} k={k}", heights):
            gain = product["model_microseconds"] / product["microseconds"]
            rows.append({"kind": kind, "m": product["rows"], "n": n, "k": k, "gain": gain} | product)
            print(f"{kind:10} {product['rows']:5} x {n} x {k}: {product['model_microseconds']:8.1f} us by the model, "
                  f"{product['microseconds']:8.1f} tuned, {gain:.3f}x  {product['choice']}", flush=True)  # fmt: skip
    for kind in kinds:
        gains = [row["gain"] for row in rows if row["kind"] == kind]
        if gains:
            print(f"{kind}: {len(gains)} products, mean {statistics.mean(gains):.4f}x, most {max(gains):.3f}x")
    gains = [row["gain"] for row in rows]
    print(f"all: {len(gains)} products, mean {statistics.mean(gains):.4f}x, most {max(gains):.3f}x")
    if options.json:
        write(options.json, seed=options.seed, rows=rows)


if __name__ == "__main__":
    main()
