# What the Python tests share: a context on the host target with a cache of its own, and seeded random numbers.
# SPDX-License-Identifier: Apache-2.0
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import quern

sys.path.append(str(Path(__file__).parents[1]))
import draw  # noqa: E402


def pytest_collection_modifyitems(config, items):
    """With QUERN_TEST_DRAW, a seed, some of each test's parameters alone."""
    if seed := os.environ.get("QUERN_TEST_DRAW"):
        taken = set(draw.drawn([item.nodeid for item in items], int(seed)))
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i not in taken])
        items[:] = [item for i, item in enumerate(items) if i in taken]


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    """One cache for the session, so that tests share what is compiled; with QUERN_TEST_CACHE one for several."""
    return os.environ.get("QUERN_TEST_CACHE") or tmp_path_factory.mktemp("cache")


@pytest.fixture
def context(cache_folder):
    with quern.Context("host", cache_path=cache_folder) as made:
        yield made


@pytest.fixture
def rng():
    seed = int(os.environ.get("QUERN_TEST_SEED", random.SystemRandom().randrange(2**32)))
    print(f"seed: QUERN_TEST_SEED={seed}")
    return np.random.default_rng(seed)
