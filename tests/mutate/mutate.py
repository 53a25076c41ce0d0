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
import threading
import time
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutate"
PYTHON = str(ROOT / ".venv" / "bin" / "python") if (ROOT / ".venv" / "bin" / "python").exists() else sys.executable
PASSED = re.compile(r"\[  PASSED  \] [1-9]|\b[1-9][0-9]* passed")  # of GoogleTest, and of pytest
KEPT = FOLDER / "outcomes.txt"  # a line an outcome, by the digest of the change and of the file that it is put into


def is_python(change: dict) -> bool:
    return change["file"].endswith(".py")


def command_of(change: dict, program: Path | str) -> list[str]:
    """What runs the tests of a change."""
    if is_python(change):
        return [
            PYTHON,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *change["tests"].split(),
        ]
    return [str(program), f"--gtest_filter={change['tests']}"]


class Copy:
    """The sources and their build, where changes are put in, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warm, self.own = folder / "cache", folder / "cache-of-one"

    def run(self, *command: str, timeout: int = 600, **environment: str) -> tuple[int, str]:
        given = os.environ | {"GTEST_FAIL_FAST": "1"} | environment
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=given,
                timeout=timeout,
                capture_output=True,
                check=False,
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
        # The package calls the library, which its target does not make.
        targets = [
            change["program"],
            *(["quern", "quern-compile-helper"] if is_python(change) else []),
        ]
        command = [
            "cmake",
            "--build",
            "build",
            "--target",
            *targets,
            *(["-j", str(jobs)] if jobs else []),
        ]
        return self.run(*command, timeout=3600)[0] == 0

    def test(self, change: dict) -> tuple[int, str]:
        # Kernels that a change of device sources does not touch are compiled once for all of them: the others have keys
        # of their own. Whatever else changes may change what is compiled under the same key, or spoil what others find.
        cache = self.warm if change["file"].endswith((".cuh", ".py")) else self.own
        if cache == self.own:
            shutil.rmtree(self.own, ignore_errors=True)
        return self.run(
            *command_of(change, f"build/bin/{change['program']}"), QUERN_TEST_CACHE=str(cache),
            PYTHONPATH=str(self.folder / "build" / "python"), **change.get("environment", {}),
        )  # fmt: skip


class Built:
    """Programs that are built already, perhaps on another machine: a change of device sources is put into the copy of
    them that the program carries, or the library beside it; one of Python's into a copy of the package."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("bin", "lib"):
            (folder / name).mkdir(parents=True)
        shutil.copy2(programs.parent / "lib" / "quern-compile-helper", folder / "lib")
        self.passes: dict[tuple, bool] = {}

    def passed(self, program: Path, change: dict) -> tuple[bool, str]:
        # The key of what is compiled is that of the sources without the change.
        cache = self.folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        given = os.environ | {"GTEST_FAIL_FAST": "1", "QUERN_TEST_CACHE": str(cache)} | change.get("environment", {})
        if is_python(change):
            given |= {
                "PYTHONPATH": str(self.folder / "python"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "QUERN_LIBRARY": str(self.programs.parent / "lib" / "libquern.so"),
            }
        try:
            done = subprocess.run(
                command_of(change, program),
                cwd=ROOT,
                env=given,
                timeout=600,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, ""
        said = done.stdout.decode(errors="replace")
        return done.returncode == 0, said if PASSED.search(said) else ""

    def outcome_of(self, change: dict) -> str:
        tests = (
            change["program"],
            change["tests"],
            *sorted(change.get("environment", {}).items()),
        )
        program = self.programs / change["program"]
        if is_python(change):
            shutil.copytree(
                self.programs.parent / "python",
                self.folder / "python",
                dirs_exist_ok=True,
            )
        if tests not in self.passes:
            passed, said = self.passed(program, change)
            self.passes[tests] = passed and said != ""
        if not self.passes[tests]:
            return "not tested"
        right = (ROOT / change["file"]).read_text()
        if right.count(change["from"]) != 1:
            raise SystemExit(f"{change['name']}: {change['file']} holds '{change['from']}' not once; mend the table")
        if is_python(change):
            package = Path(change["file"]).relative_to("bindings/python")
            (self.folder / "python" / package).write_text(right.replace(change["from"], change["to"]))
            return "survived" if self.passed(program, change)[0] else "killed"
        wrong = of_length(right.replace(change["from"], change["to"]), len(right.encode())).encode()
        changed = 0
        for file in (program, self.programs.parent / "lib" / "libquern.so.1"):
            carried = file.read_bytes() if file.exists() else b""
            changed += carried.count(right.encode())
            copy = self.folder / file.relative_to(self.programs.parent)
            copy.write_bytes(carried.replace(right.encode(), wrong))
            copy.chmod(0o755)
        if changed == 0:
            raise SystemExit(f"{program} does not carry {change['file']} as it is here; build it")
        program = self.folder / "bin" / program.name
        return "survived" if self.passed(program, change)[0] else "killed"


def of_length(text: str, length: int) -> str:
    """The same source in so many bytes: its first comments are emptied as far as need be, spaces fill the rest."""
    while len(text.encode()) > length:
        shorter = re.sub(r"^( *//) ?[^\n]+", r"\1", text, count=1, flags=re.MULTILINE)
        if shorter == text:
            raise SystemExit("a change makes its file longer than its comments can make it shorter")
        text = shorter
    return text + " " * (length - len(text.encode()))


def outcome_of(change: dict, copy: Copy, jobs: int, passes: dict[tuple, bool]) -> str:
    path = copy.folder / change["file"]
    right = path.read_text()
    if right.count(change["from"]) != 1:
        raise SystemExit(f"{change['name']}: {change['file']} holds '{change['from']}' not once; mend the table")
    tests = (
        change["program"],
        change["tests"],
        *sorted(change.get("environment", {}).items()),
    )
    if tests not in passes:
        status, said = copy.test(change) if copy.build(change, jobs) else (1, "")
        passes[tests] = status == 0 and PASSED.search(said) is not None
    if not passes[tests]:
        return "not tested"  # its tests fail, or are skipped here, without it
    path.write_text(right.replace(change["from"], change["to"]))
    try:
        if not copy.build(change, jobs):
            return "does not compile"
        return "survived" if copy.test(change)[0] == 0 else "killed"
    finally:
        path.write_text(right)


def try_built(programs: Path, chosen: list[dict], todo: list[int], jobs: int, tell) -> None:
    """`tell` hears the outcome of each place of `todo`. Changes for the same tests go to the same worker."""
    sets: dict[tuple, list[int]] = {}
    for place in todo:
        change = chosen[place]
        sets.setdefault((change["program"], change["tests"], str(change.get("environment"))), []).append(place)
    waiting = sorted(sets.values(), key=len)
    taking = threading.Lock()
    refused: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mine = Built(programs, FOLDER / f"built-{number}")
            while True:
                with taking:
                    if not waiting or refused:
                        return
                    places = waiting.pop()
                for place in places:
                    start = time.monotonic()
                    outcome = mine.outcome_of(chosen[place])
                    tell(place, outcome, time.monotonic() - start)
        except BaseException as what:  # raised again where all have ended
            refused.append(what)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if refused:
        raise refused[0]


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
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile at once")
    parser.add_argument(
        "--built",
        type=Path,
        metavar="FOLDER",
        help="device sources and Python alone, by what is in this folder already; --jobs sets of tests at once",
    )
    given = parser.parse_args()
    number, count = (int(part) for part in given.slice.split("/"))
    table = tomllib.loads((ROOT / "tests" / "mutate" / "table.toml").read_text())["change"]
    chosen = [change for change in table if not given.words or any(word in change["name"] for word in given.words)]
    # `host` checks index data before a launch and has blocks of one cluster: there these cannot be seen.
    hidden = [change for change in chosen if change.get("gpu")]
    chosen = [change for change in chosen if not change.get("gpu")][number - 1 :: count]
    if given.built:
        # What C++ includes, too, is built anew.
        chosen = [
            change for change in chosen if change["file"].endswith((".cuh", ".py")) and not change.get("compiled")
        ]
    FOLDER.mkdir(parents=True, exist_ok=True)
    digests = [digest(change) for change in chosen]  # before anybody goes on editing
    before = {line.split()[0] for line in KEPT.read_text().splitlines()} if given.go_on and KEPT.exists() else set()
    outcomes: list[str] = ["killed" if name in before else "" for name in digests]
    writing = threading.Lock()

    def tell(place: int, outcome: str, seconds: float) -> None:
        with writing:
            outcomes[place] = outcome
            if outcome == "killed":
                with KEPT.open("a") as kept:
                    kept.write(f"{digests[place]} {chosen[place]['name']}\n")
            print(f"{outcome:<16} {seconds:5.0f} s  {chosen[place]['name']}", flush=True)

    todo = [place for place, outcome in enumerate(outcomes) if not outcome]
    if given.built:
        try_built(given.built.resolve(), chosen, todo, given.jobs or os.cpu_count() or 1, tell)
    else:
        copy = Copy(FOLDER / str(number))
        copy.bring_up_to_date()
        passes: dict[tuple, bool] = {}  # whether tests ran and passed without a change
        for place in todo:
            start = time.monotonic()
            tell(
                place,
                outcome_of(chosen[place], copy, given.jobs, passes),
                time.monotonic() - start,
            )
    killed, untested = outcomes.count("killed"), outcomes.count("not tested")
    earlier = sum(name in before for name in digests)
    print(f"{killed} of {len(chosen)} killed ({earlier} of them by an earlier run), {untested} not tested; "
          f"{len(hidden)} more would show on a GPU alone")  # fmt: skip
    return 0 if killed + untested == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
