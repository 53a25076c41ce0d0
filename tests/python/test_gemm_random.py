# The parts of tests/bench/gemm_peers.py --random that need no GPU: what it draws, and how ratios are summed up.
# SPDX-License-Identifier: Apache-2.0
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import gemm_peers
from gemm import distribution
from gemm.projections import DEEPSEEK, MODELS, MOST_ROWS, MULTIPLE, RANKS, random_experts, random_shape, with_blocks
from gemm.shapes import SWEPT, Shape


def test_shapes_follow_from_the_seed_and_fill_every_class():
    first, again = ([random_shape(random_) for _ in range(400)] for random_ in (random.Random(3), random.Random(3)))
    assert first == again
    assert first != [random_shape(random.Random(4)) for _ in range(400)]
    for shape in first:
        assert 1 <= shape.m <= MOST_ROWS and shape.n % MULTIPLE == 0 and shape.k % MULTIPLE == 0
    for low, high in distribution.CLASSES:
        assert sum(low <= shape.m <= high for shape in first) > 20
    known = {nk for model in MODELS for ranks in RANKS for nk in model.projections(ranks)}
    known |= {(n // r if d == "n" else n, k // r if d == "k" else k) for n, k, d in DEEPSEEK for r in RANKS}
    odd = sum((shape.n, shape.k) not in known for shape in first)
    assert 50 < odd < 150


def test_experts_share_all_rows():
    for seed in range(20):
        experts = random_experts(random.Random(seed))
        assert sum(experts.counts) == experts.shape.m
        assert len(experts.counts) == experts.shape.groups


def test_experts_with_block_scales_are_what_the_peer_takes():
    taken = 0
    for seed in range(40):
        experts = random_experts(random.Random(seed))
        for kind in ("contiguous", "masked"):
            if not (blocks := with_blocks(experts, kind, 1 << 30, 1 << 29)):
                continue
            taken += 1
            m, n, k, counts = blocks.shape.m, blocks.shape.n, blocks.shape.k, blocks.counts
            assert n % 128 == 0 and k % 128 == 0 and len(counts) == blocks.shape.groups
            if kind == "contiguous":
                assert sum(counts) == m and all(count % 128 == 0 for count in counts)
            else:
                assert counts == experts.counts and max(counts) <= m < max(counts) + 128 and m % 128 == 0
    assert taken > 20


def product(m, call, graph=None, kind="bf16", error=""):
    ratios = {"call_us": call, "graph_us": call if graph is None else graph}
    return SimpleNamespace(kind=kind, shape=Shape(m, 16, 16), error=error, ratio=ratios.get)


def test_summary_tells_each_class_apart():
    products = [
        product(16, 1.0),
        product(32, 4.0),
        product(33, 0.9, 0.5),
        product(9, 0.1, error="lost"),
        product(40, None),
    ]
    entries = {(e["rows"], e["measure"]): e for e in distribution.summary(products)}
    assert set(entries) == {(rows, measure) for rows in ("all", "<= 32", "33 to 128") for measure in ("call", "graph")}
    assert entries["<= 32", "call"]["mean"] == pytest.approx(2.0)
    assert entries["<= 32", "call"]["met"]
    assert (
        entries["33 to 128", "graph"] | {"mean": 0.5, "least": 0.5, "count": 1, "reach": 0.0, "met": False}
        == (entries["33 to 128", "graph"])
    )
    assert any("missed" in line for line in distribution.lines(list(entries.values())))
    assert [each.shape.m for each in distribution.worst(products, "bf16")] == [33, 16, 32]


def test_arguments_of_random_products(capsys):
    drawn = [gemm_peers.read_arguments(["--random", "3"]) for _ in range(2)]
    assert drawn[0].seed != drawn[1].seed and drawn[0].only == SWEPT
    assert gemm_peers.read_arguments(["--random", "3", "--seed", "7"]).seed == 7
    assert gemm_peers.read_arguments([]).seed == 20261121
    for wrong in (
        ["--random", "3", "--only", "nn"],
        ["--only", "grouped"],
        ["--seconds", "9"],
    ):
        with pytest.raises(SystemExit):
            gemm_peers.read_arguments(wrong)
    assert "--random only" in capsys.readouterr().err
    for option in (["--tune"], ["--rounds", "50"], ["--fast-accumulation"]):
        with pytest.raises(SystemExit):
            gemm_peers.read_arguments(["--random", "3", *option])
        assert f"{option[0]} is not for --random" in capsys.readouterr().err
