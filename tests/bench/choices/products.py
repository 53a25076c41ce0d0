"""Draws random products for quern_gemm_choices: python3 tests/bench/choices/products.py COUNT [SEED]

The named shapes of gemm_peers.py come first. Those of 33 to 2048 rows are drawn more often: they differ most in what is
the fastest.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gemm.projections import random_shape
from gemm.shapes import TWELVE

KINDS = ["bf16"] * 4 + ["row"] * 4 + ["block"] * 2
MOST_PRODUCTS = 2.5e11  # of a product: longer ones take the time of many others


def main() -> int:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    random_ = random.Random(seed)
    lines = [f"{kind} {shape.m} {shape.n} {shape.k}" for shape in TWELVE for kind in ("bf16", "row", "block")]
    while len(lines) < count:
        kind, shape = KINDS[len(lines) % len(KINDS)], random_shape(random_)
        if not 33 <= shape.m <= 2048 and random_.random() < 0.45:
            continue
        if shape.m * shape.n * shape.k > MOST_PRODUCTS or (kind == "block" and shape.k % 128 != 0):
            continue
        lines.append(f"{kind} {shape.m} {shape.n} {shape.k}")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
