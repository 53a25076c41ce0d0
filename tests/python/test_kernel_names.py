# Every kernel that people look for by name is one call (kernel_names.py), held against its formula; the page that lists
# them is made of the same lines:  python tests/python/test_kernel_names.py --write
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import kernel_truths
import ml_dtypes
import numpy as np
import pytest
from kernel_names import ABSENT, NAMES

PAGE = Path(__file__).resolve().parents[2] / "sources" / "NAMES.md"
HEAD = """# Kernels by name

The kernels that collections, model servers and courses know by name, and the call that does each here. A test runs
every line on `host` and holds it against its formula in fp64 (tests/python/test_kernel_names.py, which also writes this
page). Calls are Python's; the op behind each has the same arguments in [quern.h](../capi/quern.h).

In the names: `x`, `y` are arrays of rows, f32; an `h`, `b`, `e` behind a name is f16, bf16, e4m3.
"""


def page() -> str:
    lines = [HEAD]
    for family, names in groupby(NAMES, lambda name: name.family):
        lines += [f"\n## {family.capitalize()}\n", "| name | call |", "|---|---|"]
        lines += [f"| {one.name} | `{one.shown or one.call}` |" for one in names]
    lines += ["\n## Not here\n", "| name | |", "|---|---|"]
    lines += [f"| {name} | {why} |" for name, why in ABSENT.items()]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def flat(result: object) -> list[np.ndarray]:
    return list(map(np.asarray, result)) if isinstance(result, tuple | list) else [np.asarray(result)]


@pytest.mark.parametrize("one", NAMES, ids=lambda one: f"{one.family}: {one.name}")
def test_name(one, context, rng):
    values = kernel_truths.arrays(rng)
    tools = {**vars(kernel_truths), "ml_dtypes": ml_dtypes, **kernel_truths.steps(values)}
    got = flat(eval(one.call, {**tools, **values, "context": context}))
    wanted = flat(eval(one.truth, {**tools, **kernel_truths.doubled(values)}))
    assert len(got) == len(wanted)
    for is_, should in zip(got, wanted, strict=True):
        assert is_.shape == should.shape
        is_ = is_.astype(np.complex128 if np.iscomplexobj(is_) else np.float64)
        if one.tolerance == 0:
            np.testing.assert_array_equal(is_, should)
        else:
            assert (np.abs(is_ - should) <= one.tolerance * np.maximum(1, np.abs(should))).all()


def test_the_page_lists_them():
    assert PAGE.read_text() == page(), "python tests/python/test_kernel_names.py --write"


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(page())
