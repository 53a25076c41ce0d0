# Puts one small mistake after the other into the sources and holds that a test fails for each: a change that no test
# sees is a test that is missing. Works on a copy, so that the checkout is never wrong.
# SPDX-License-Identifier: Apache-2.0
"""All changes of table.toml, or those whose names hold one of the words."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutate"
KEPT = FOLDER / "outcomes.txt"  # a line an outcome, by the digest of the change and of the file that it is put into


class Copy:
    """The sources and their build, where changes are put in, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warm, self.own = folder / "cache", folder / "cache-of-one"

    def run(self, *command: str, timeout: int = 600, **environment: str) -> tuple[int, str]:
        given = os.environ | {"GTEST_FAIL_FAST": "1"} | environment
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=given, timeout=timeout, capture_output=True, check=False
            )
            return done.returncode, done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired:
            return 124, ""  # a test that hangs has noticed, too

    def bring_up_to_date(self) -> None:
        files = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
            cwd=ROOT, check=True, capture_output=True,
        ).stdout.decode().split("\0")  # fmt: skip
        for name in filter(None, files):
            source, target = ROOT / name, self.folder / name
            if not source.is_file() or (target.exists() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        if self.run("cmake", "--preset", "default", *launcher)[0] != 0:
            raise SystemExit(f"{self.folder} cannot be configured")

    def build(self, change: dict, jobs: int) -> bool:
        command = ["cmake", "--build", "build", "--target", change["program"], *(["-j", str(jobs)] if jobs else [])]
        return self.run(*command, timeout=3600)[0] == 0

    def test(self, change: dict) -> tuple[int, str]:
        # Kernels that a change of device sources does not touch are compiled once for all of them: the others have keys
        # of their own. Whatever else changes may change what is compiled under the same key, or spoil what others find.
        cache = self.warm if change["file"].endswith(".cuh") else self.own
        if cache == self.own:
            shutil.rmtree(self.own, ignore_errors=True)
        return self.run(
            f"build/bin/{change['program']}", f"--gtest_filter={change['tests']}", QUERN_TEST_CACHE=str(cache),
            **change.get("environment", {}),
        )  # fmt: skip


def outcome_of(change: dict, copy: Copy, jobs: int, passes: dict[tuple, bool]) -> str:
    path = copy.folder / change["file"]
    right = path.read_text()
    if right.count(change["from"]) != 1:
        raise SystemExit(f"{change['name']}: {change['file']} holds '{change['from']}' not once; mend the table")
    tests = (change["program"], change["tests"], *sorted(change.get("environment", {}).items()))
    if tests not in passes:
        status, said = copy.test(change) if copy.build(change, jobs) else (1, "")
        passes[tests] = status == 0 and re.search(r"\[  PASSED  \] [1-9]", said) is not None
    if not passes[tests]:
        return "not tested"  # its tests fail, or are skipped here, without it
    path.write_text(right.replace(change["from"], change["to"]))
    try:
        if not copy.build(change, jobs):
            return "does not compile"
        return "survived" if copy.test(change)[0] == 0 else "killed"
    finally:
        path.write_text(right)


def digest(change: dict) -> str:
    text = json.dumps(change, sort_keys=True) + (ROOT / change["file"]).read_text()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument(
        "--slice",
        default="1/1",
        metavar="I/N",
        help="every N-th change from the I-th on, in a copy of its own: slices run side by side",
    )
    parser.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="leave out what was killed before, where neither the change nor its file is another now",
    )
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile at once")  # fmt: skip
    given = parser.parse_args()
    number, count = (int(part) for part in given.slice.split("/"))
    table = tomllib.loads((ROOT / "tests" / "mutate" / "table.toml").read_text())["change"]
    chosen = [change for change in table if not given.words or any(word in change["name"] for word in given.words)]
    # `host` checks index data before a launch and has blocks of one cluster: there these cannot be seen.
    hidden = [change for change in chosen if change.get("gpu")]
    chosen = [change for change in chosen if not change.get("gpu")][number - 1 :: count]
    FOLDER.mkdir(parents=True, exist_ok=True)
    digests = [digest(change) for change in chosen]  # before anybody goes on editing
    before = {line.split()[0] for line in KEPT.read_text().splitlines()} if given.go_on and KEPT.exists() else set()
    copy = Copy(FOLDER / str(number))
    copy.bring_up_to_date()
    passes: dict[tuple, bool] = {}  # whether tests ran and passed without a change
    outcomes: list[str] = []
    for change, name in zip(chosen, digests, strict=True):
        start = time.monotonic()
        outcomes.append("killed" if name in before else outcome_of(change, copy, given.jobs, passes))
        if name not in before:
            if outcomes[-1] == "killed":
                with KEPT.open("a") as kept:
                    kept.write(f"{name} {change['name']}\n")
            print(f"{outcomes[-1]:<16} {time.monotonic() - start:5.0f} s  {change['name']}", flush=True)
    killed, untested = outcomes.count("killed"), outcomes.count("not tested")
    earlier = sum(name in before for name in digests)
    print(f"{killed} of {len(chosen)} killed ({earlier} of them by an earlier run), {untested} not tested; "
          f"{len(hidden)} more would show on a GPU alone")  # fmt: skip
    return 0 if killed + untested == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
