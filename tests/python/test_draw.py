# What a short run of the tests takes: every test, if not every parameter of it.
# SPDX-License-Identifier: Apache-2.0
import draw

NAMES = [f"Cases/Op.IsRight/{i}" for i in range(100)] + [f"tests/python/test_op.py::test_it[{i}]" for i in range(5)]
NAMES += [f"host64.Op{i}.Alone" for i in range(6)] + [f"host64.Cases/Op.Is/{i}" for i in range(25)]
NAMES += [f"Kills/KillTest.WhilePutting/{i}" for i in range(30)]
NAMES += ["Op.Alone", "tests/python/test_op.py::test_one", "Few/Op.IsRight/a"] + [
    f"Nvrtc/Targets.TakeEveryTemplate/sm_{i}" for i in range(10)
]


def test_every_test_is_taken_and_few_of_its_parameters():
    taken = [NAMES[i] for i in draw.drawn(NAMES, 3)]
    assert len(set(taken)) == len(taken)
    assert {"Op.Alone", "tests/python/test_op.py::test_one"} < set(taken)
    counts = {word: sum(word in name for name in taken) for word in ("Cases", "test_it", "Few", "Targets")}
    assert counts == {"Cases": 5, "test_it": 1, "Few": 1, "Targets": 1}
    assert sum(name.startswith("host64.") for name in taken) == 3
    assert sum(name.startswith("Kills/") for name in taken) == 30, "faults are counted by the whole of them"


def test_a_seed_draws_the_same_and_seeds_draw_all():
    assert draw.drawn(NAMES, 5) == draw.drawn(NAMES, 5)
    seen = set()
    for seed in range(200):
        seen.update(draw.drawn(NAMES, seed))
    assert seen == set(range(len(NAMES)))
