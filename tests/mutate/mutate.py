# Puts one small mistake after the other into the sources and holds that a test fails for each: a change that no test
# sees is a test that is missing. Works on a copy, so that the checkout is never wrong.
# SPDX-License-Identifier: Apache-2.0
"""usage: mutate.py [NAME...]: all of table.toml, or those whose names hold one of the words"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutate"
WARM, OWN = COPY / "cache", COPY / "cache-of-one"


def run(*command: str, timeout: int = 600, **environment: str) -> tuple[int, str]:
    given = os.environ | {"GTEST_FAIL_FAST": "1"} | environment
    try:
        done = subprocess.run(command, cwd=COPY, env=given, timeout=timeout, capture_output=True, check=False)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return 124, ""  # a test that hangs has noticed, too


def copy_sources() -> None:
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout.decode().split("\0")  # fmt: skip
    for name in filter(None, files):
        source, target = ROOT / name, COPY / name
        if not source.is_file() or (target.exists() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def build(change: dict) -> bool:
    return run("cmake", "--build", "build", "--target", change["program"])[0] == 0


def test(change: dict) -> tuple[int, str]:
    # Kernels that a change of device sources does not touch are compiled once for all of them: the others have keys of
    # their own. Whatever else changes may change what is compiled under the same key, or spoil what others would find.
    cache = WARM if change["file"].endswith(".cuh") else OWN
    if cache == OWN:
        shutil.rmtree(OWN, ignore_errors=True)
    return run(
        f"build/bin/{change['program']}", f"--gtest_filter={change['tests']}", QUERN_TEST_CACHE=str(cache),
        **change.get("environment", {}),
    )  # fmt: skip


def main() -> int:
    table = tomllib.loads((ROOT / "tests" / "mutate" / "table.toml").read_text())["change"]
    words = sys.argv[1:]
    chosen = [change for change in table if not words or any(word in change["name"] for word in words)]
    # `host` checks index data before a launch and has blocks of one cluster: there these cannot be seen.
    hidden = [change for change in chosen if change.get("gpu")]
    chosen = [change for change in chosen if not change.get("gpu")]
    copy_sources()
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    if run("cmake", "--preset", "default", *launcher)[0] != 0:
        raise SystemExit("the copy cannot be configured")
    passes: dict[tuple, bool] = {}  # whether tests ran and passed without a change
    killed, untested = 0, 0
    for change in chosen:
        path = COPY / change["file"]
        right = path.read_text()
        if right.count(change["from"]) != 1:
            raise SystemExit(f"{change['name']}: {change['file']} holds '{change['from']}' not once; mend the table")
        tests = (change["program"], change["tests"], *sorted(change.get("environment", {}).items()))
        if tests not in passes:
            status, said = test(change) if build(change) else (1, "")
            passes[tests] = status == 0 and re.search(r"\[  PASSED  \] [1-9]", said) is not None
        if passes[tests]:
            path.write_text(right.replace(change["from"], change["to"]))
            try:
                built = build(change)
                survived = built and test(change)[0] == 0
            finally:
                path.write_text(right)
            outcome = "survived" if survived else "killed" if built else "does not compile"
        else:
            outcome = "not tested"  # its tests fail, or are skipped here, without it
        killed += outcome == "killed"
        untested += outcome == "not tested"
        print(f"{outcome:<16} {change['name']}", flush=True)
    print(f"{killed} of {len(chosen)} killed, {untested} not tested; {len(hidden)} more would show on a GPU alone")
    return 0 if killed + untested == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
