# Puts one small mistake after the other into the sources and holds that a test fails for each: a change that no test
# sees is a test that is missing. Works on a copy, so that the checkout is never wrong.
# SPDX-License-Identifier: Apache-2.0
"""usage: mutate.py [NAME...]: all of table.toml, or those whose names hold one of the words"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutate"


def run(*command: str, timeout: int = 600) -> int:
    # The kernels that a change does not touch are compiled once for all of them.
    environment = os.environ | {"GTEST_BRIEF": "1", "GTEST_FAIL_FAST": "1", "QUERN_TEST_CACHE": str(COPY / "cache")}
    try:
        return subprocess.run(
            command, cwd=COPY, env=environment, timeout=timeout, capture_output=True, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return 124  # a test that hangs has noticed, too


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


def main() -> int:
    table = tomllib.loads((ROOT / "tests" / "mutate" / "table.toml").read_text())["change"]
    words = sys.argv[1:]
    chosen = [change for change in table if not words or any(word in change["name"] for word in words)]
    # `host` checks index data before a launch and has blocks of one cluster: there these cannot be seen.
    hidden = [change for change in chosen if change.get("gpu")]
    chosen = [change for change in chosen if not change.get("gpu")]
    copy_sources()
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    if run("cmake", "--preset", "default", *launcher) != 0:
        raise SystemExit("the copy cannot be configured")
    survived = []
    for change in chosen:
        path = COPY / change["file"]
        right = path.read_text()
        if right.count(change["from"]) != 1:
            raise SystemExit(f"{change['name']}: {change['file']} holds '{change['from']}' not once; mend the table")
        path.write_text(right.replace(change["from"], change["to"]))
        try:
            built = run("cmake", "--build", "build", "--target", change["program"]) == 0
            passed = built and run(f"build/bin/{change['program']}", f"--gtest_filter={change['tests']}") == 0
        finally:
            path.write_text(right)
        outcome = "survived" if passed else "killed" if built else "does not compile"
        print(f"{outcome:<16} {change['name']}", flush=True)
        if outcome != "killed":
            survived.append(change["name"])
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed; {len(hidden)} more would show on a GPU alone")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
