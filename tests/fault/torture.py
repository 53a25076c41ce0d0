# The fault tests side by side for as long as it takes to have so many kills, single faults and fuzzed inputs.
# SPDX-License-Identifier: Apache-2.0
"""Runs build/bin's fault and fuzz tests until the goals are met; with build/fuzz/bin/quern_fuzz also libFuzzer."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = [
    "bundle", "cache_file", "manifest", "config", "texts", "images", "protocol", "structs", "requests", "key_texts",
]  # fmt: skip


class Kind:
    """One sort of run: its command, how much longer than in CI, and what of its output is counted, for which goal."""

    def __init__(
        self,
        name: str,
        goal: str,
        program: str,
        tests: str,
        factor: int,
        counted: str,
        once: bool = False,
        share: int = 1,
        parts: int = 0,
    ):
        self.share = share  # runs for each of the goal's others
        self.parts = parts  # where not 0: runs that together are all there is, made whatever the goal
        self.name, self.goal, self.program, self.tests = name, goal, program, tests
        self.factor, self.counted, self.once = factor, re.compile(counted), once
        self.started = 0

    def unfinished(self) -> bool:
        return self.started < self.parts or (self.once and self.started == 0)

    def command(self, build: Path) -> list[str]:
        return [str(build / "bin" / self.program), f"--gtest_filter={self.tests}"]


class LibFuzzer(Kind):
    """Targets in turn, so many inputs each, from a corpus that every run adds to."""

    def __init__(self) -> None:
        super().__init__("libFuzzer", "inputs", "", "", 1, r"stat::number_of_executed_units: (\d+)")

    def command(self, build: Path) -> list[str]:
        corpus = build / "fuzz-corpus" / TARGETS[self.started % len(TARGETS)]
        corpus.mkdir(parents=True, exist_ok=True)
        # A cache file is opened and mended some hundred times a second, texts are read fifty thousand times.
        runs = 5_000 if corpus.name == "cache_file" else 200_000 if corpus.name in ("structs", "config") else 500_000
        return [str(build / "fuzz/bin/quern_fuzz"), f"-runs={runs}", f"-seed={self.started + 1}", "-max_len=131072",
                "-rss_limit_mb=4096", "-verbosity=0", "-print_final_stats=1", f"-artifact_prefix={corpus}-",
                str(corpus)]  # fmt: skip


KINDS = [
    Kind(
        "every call under the file fails",
        "faults",
        "quern_launch_fault_tests",
        "LaunchTest.*",
        1,
        r"(\d+) faults",
        True,
    ),
    Kind("killed at each change", "kills", "quern_fault_tests", "*KillTest*", 1, r"(\d+) kills", parts=1),
    Kind("100 000 entries", "", "quern_fault_tests", "Large*", 100, r"()$", True),
    Kind("frozen, forking", "", "quern_fault_tests", "FrozenTest.*:AdministrationTest.*", 1, r"()$", True),
    Kind("processes killed and stopped", "kills", "quern_fault_tests", "Soak*", 7, r"(\d+) kills"),
    Kind(
        "two copies, killed", "kills", "quern_launch_fault_tests", "CopiesTest.*Killed", 20, r"(\d+) processes killed"
    ),
    Kind("bits flipped", "faults", "quern_fault_tests", "FlipTest.*", 5, r"(\d+) of \d+ bits", share=4),
    Kind("power failures", "faults", "quern_fault_tests", "Power*", 2, r"(\d+) states"),
    Kind("inputs made of good ones", "inputs", "quern_fuzz_tests", "*Replay*", 10, r"(\d+) inputs"),
]
# With --every-bit. A bit takes a millisecond or two.
EVERY_BIT = Kind(
    "every bit flipped",
    "faults",
    "quern_fault_tests",
    "FlipTest.AnyBitOfASmallFile:FlipTest.AnyBitOfAHotJournal",
    5_000,
    r"(\d+) of \d+ bits",
    parts=64,
)


class Torture:
    def __init__(self, given: argparse.Namespace) -> None:
        self.build, self.jobs, self.seed = given.build, given.jobs, given.seed
        self.goals = {"kills": given.kills, "faults": given.faults, "inputs": given.inputs}
        self.done: collections.Counter = collections.Counter()
        self.by_kind: collections.Counter = collections.Counter()
        self.running: dict[subprocess.Popen, tuple[Kind, int, object]] = {}
        self.outputs = contextlib.ExitStack()
        self.failures: list[str] = []
        self.start = time.monotonic()
        self.kinds = list(KINDS) + [EVERY_BIT] * given.every_bit
        if (self.build / "fuzz/bin/quern_fuzz").exists():
            self.kinds = [kind for kind in self.kinds if kind.program != "quern_fuzz_tests"] + [LibFuzzer()]

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.start:6.0f} s  {text}", flush=True)

    # What holds times comes first, alone; the kind whose goal is furthest away, counting what is under way as one
    # more of those before; and of a goal's kinds the one that has been started least often for its share.
    def next_kind(self) -> Kind | None:
        for kind in self.kinds:
            if kind.once and kind.started == 0:
                return kind if not self.running else None
        if any(kind.once for kind, _, _ in self.running.values()):
            return None
        for kind in self.kinds:
            if kind.started < kind.parts:
                return kind
        open_goals = [goal for goal in self.goals if self.done[goal] < self.goals[goal]]
        if not open_goals:
            return None
        under_way = collections.Counter(kind.goal for kind, _, _ in self.running.values())
        goal = min(open_goals, key=lambda goal: (under_way[goal], self.done[goal] / self.goals[goal]))
        return min((kind for kind in self.kinds if kind.goal == goal and not kind.once and not kind.parts),
                   key=lambda kind: kind.started / kind.share)  # fmt: skip

    def launch(self, kind: Kind) -> None:
        seed = self.seed + sum(other.started for other in self.kinds)
        output = self.outputs.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        environment = os.environ | {"QUERN_TORTURE": str(kind.factor), "QUERN_SEED": str(seed)}
        if kind.parts > 1:
            environment["QUERN_SLICE"] = f"{kind.started + 1}/{kind.parts}"
        if isinstance(kind, LibFuzzer):
            environment["QUERN_FUZZ_TARGET"] = TARGETS[kind.started % len(TARGETS)]
        process = subprocess.Popen(kind.command(self.build), env=environment, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)  # fmt: skip
        kind.started += 1
        self.running[process] = (kind, seed, output)

    def reap(self) -> None:
        for process in [process for process in self.running if process.poll() is not None]:
            kind, seed, output = self.running.pop(process)
            output.seek(0)
            text = output.read().decode(errors="replace")
            count = sum(int(found or 0) for found in kind.counted.findall(text))
            if process.returncode != 0 or "[  SKIPPED ]" in text:
                self.failures.append(f"{kind.name}, QUERN_SEED={seed}, QUERN_TORTURE={kind.factor}:\n{text[-3000:]}")
                self.say("FAILED " + self.failures[-1])
                continue
            self.done[kind.goal] += count
            self.by_kind[kind.name] += count
            self.say(f"{kind.name}: {count} (QUERN_SEED={seed}); in all "
                     + ", ".join(f"{self.done[goal]} {goal}" for goal in self.goals))  # fmt: skip

    def end(self) -> int:
        for process in self.running:
            os.killpg(process.pid, signal.SIGKILL)
        for kind in self.kinds:
            self.say(f"{kind.name}: {self.by_kind[kind.name]} in {kind.started} runs")
        missed = [goal for goal in self.goals if self.done[goal] < self.goals[goal]]
        self.say(f"seeds from {self.seed} on; {len(self.failures)} failed"
                 + "".join(f"; {self.done[goal]} of {self.goals[goal]} {goal}" for goal in self.goals))  # fmt: skip
        return 1 if missed or self.failures else 0

    def run(self) -> int:
        while True:
            while len(self.running) < self.jobs:
                kind = self.next_kind()
                if kind is None:
                    break
                self.launch(kind)
            unfinished = [kind for kind in self.kinds if kind.unfinished()]
            unfinished += [kind for kind, _, _ in self.running.values() if kind.parts]
            met = all(self.done[goal] >= self.goals[goal] for goal in self.goals)
            if (met and not unfinished) or len(self.failures) > 20:
                return self.end()
            self.reap()
            time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=100_000)
    parser.add_argument("--inputs", type=int, default=10_000_000)
    parser.add_argument(
        "--every-bit", action="store_true", help="flip each bit of the small file and of its journal, too: half an hour"
    )
    parser.add_argument("--seed", type=int, default=int(os.environ.get("QUERN_SEED", time.time())))
    torture = Torture(parser.parse_args())

    def stop(*_: object) -> None:
        torture.say("stopped")
        torture.end()
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return torture.run()


if __name__ == "__main__":
    sys.exit(main())
