"""Draws the pictures of tests/bench/README.md from the JSON in tests/bench/results: `./dev figures [FOLDER]`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

from .attention import attention
from .first_call import first_call
from .products import random_products, speed, weights
from .results import FOLDER

PICTURES = {
    "speed": speed,
    "weights": weights,
    "random_products": random_products,
    "attention": attention,
    "first_call": first_call,
}


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, draw in PICTURES.items():
        path = folder / f"{name}.svg"
        draw().write(path)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
