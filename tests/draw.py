# Which tests a run takes that may not take an hour: of a test with many parameters a few, drawn anew each time.
# SPDX-License-Identifier: Apache-2.0
"""usage: draw.py SEED <FILE, with what `ctest --show-only=json-v1` prints

Prints the tests' numbers, separated by commas: all that have no parameter, of each that has some a 24th and one at
least, and of those that take longest a twelfth; but all of those in WHOLE. Of what is drawn for host64, which repeats
the tests of host with warps of 64 lanes, a third is taken. tests/python/conftest.py draws by the same rule."""

import fnmatch
import json
import random
import sys
from collections import defaultdict

# Most compile every kernel of a target, or of a model: half a minute to two minutes each on a core.
LONGEST = (
    "*Targets.TakeEvery*",
    "TargetsWithWarpgroups.*",
    "HopperMachineCode.*",
    "HopperCompiles.*",
    "AttentionPrepare.*",
    "GemmPrepare.*",
    "Tune.*",
    "CodedAttentionSchedules.*",
    "demo",
    "host64.SampleKernels.*",
    "host64.Sample.*",
    "*WarmTest.AModelForAGpuThatIsNotHere",
)

# Tests that other ones repeat on a device of which the emulation differs in little.
REPEATED = "host64."


# Faults and bytes from elsewhere: what they are counted by is the whole of them, and all take a minute of one core.
WHOLE = ("Kills/KillTest.*", "Calls/FaultTest.*", "*Targets/Replay.*")


def test_of(name: str) -> str:
    """A test's name without its parameter, as GoogleTest and pytest write it."""
    return name.partition("[")[0] if "::" in name else name.rpartition("/")[0] or name


def drawn(names: list[str], seed: int) -> list[int]:
    """The places in `names` that are taken, in order."""
    chance = random.Random(seed)
    groups = defaultdict(list)
    taken = []
    for place, name in enumerate(names):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in WHOLE):
            taken.append(place)
            continue
        longest = any(fnmatch.fnmatchcase(name, pattern) for pattern in LONGEST)
        groups["" if longest else test_of(name)].append(place)
    for group, places in groups.items():
        wanted = -(-len(places) // (12 if group == "" else 24))
        taken += chance.sample(places, min(wanted, len(places)))
    repeated = [place for place in taken if names[place].startswith(REPEATED)]
    kept = set(chance.sample(repeated, -(-len(repeated) // 3)))
    return sorted(place for place in taken if place in kept or not names[place].startswith(REPEATED))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    names = [test["name"] for test in json.load(sys.stdin)["tests"]]
    taken = drawn(names, int(sys.argv[1]))
    print(f"{len(taken)} of {len(names)} tests", file=sys.stderr)
    print(",".join(str(place + 1) for place in taken))


if __name__ == "__main__":
    main()
