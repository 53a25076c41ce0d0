"""quern's matrix products beside cuBLASLt's (through PyTorch) and DeepGEMM's (where it can be imported), in one run.

    PYTHONPATH=build/python python3 tests/bench/gemm_peers.py [--only KIND,...] [--shapes MxNxK,...] [--json FILE]
    PYTHONPATH=build/python python3 tests/bench/gemm_peers.py --random N [--seed S] [--only KIND,...] [--json FILE]

The first times named shapes. The second draws N random products a kind: M log-uniform from 1 to 8192, N and K from
projections of real models or odd; without --seed the seed is drawn, and printed, at the start. It tells how the ratios
are distributed by class of M, and the worst ten.

Needs an NVIDIA GPU of the Hopper generation, PyTorch, and quern's Python package as built. The cases run in a process
of their own: one that crashes or hangs is told, and the next goes on in another. Exits with 1 where a case failed, with
2 where none could run; a figure that is missed fails nothing.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import random
import select
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from typing import Any

from gemm import distribution, report
from gemm.figures import figures
from gemm.rows import Row
from gemm.shapes import SECTIONS, SWEPT, Case, Shape, cases


def read_arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def sections(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in SECTIONS and name not in SWEPT:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; allowed are {', '.join(SECTIONS)}, grouped")
        return chosen

    def shapes(text: str) -> list[Shape]:
        try:
            return [Shape.parse(part) for part in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    parser.add_argument("--only", type=sections, metavar="KIND,...", help=", ".join([*SECTIONS, "grouped"]))
    parser.add_argument("--shapes", type=shapes, metavar="MxNxK,...", help="of every kind; default: each one's own")
    parser.add_argument("--json", help="write the rows and figures here")
    parser.add_argument("--seed", type=int, help="of the data and of random shapes")
    parser.add_argument("--random", type=int, metavar="N", help=f"draw N products a kind ({', '.join(SWEPT)})")
    parser.add_argument("--seconds", type=float, default=1e9, help="--random: begin no product after so long")
    parser.add_argument("--rounds", type=int, default=40, help="calls of each side that are timed (at least 30)")
    parser.add_argument("--replays", type=int, default=11, help="replays of each side's graph that are timed")
    parser.add_argument("--programmatic", action="store_true", help="programmatic launches everywhere; graphs alone")
    parser.add_argument("--fast-accumulation", action="store_true", help="let cuBLASLt accumulate in few bits")
    parser.add_argument("--alone", action="store_true", help="time quern without its peers")
    parser.add_argument(
        "--tune", action="store_true", help="measure the choices of each dense product first and take the best"
    )
    parser.add_argument("--cache", help="quern's cache folder; first calls are told where they compile. Default: empty")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a case counts as hung")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)  # the descriptor that rows go to
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)  # the case to begin with
    arguments = parser.parse_args(given)
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 31) if arguments.random else 20261121
    arguments.only = arguments.only or (SWEPT if arguments.random else SECTIONS)
    wrong = [name for name in arguments.only if name not in (SWEPT if arguments.random else SECTIONS)]
    if wrong:
        parser.error(f"{wrong[0]!r} is {'not drawn at random' if arguments.random else 'for --random only'}")
    if arguments.random:
        for option in ("rounds", "replays", "programmatic", "fast_accumulation", "tune", "patience"):
            if getattr(arguments, option) != parser.get_default(option):
                parser.error(f"--{option.replace('_', '-')} is not for --random, which times its own way")
    elif arguments.seconds != parser.get_default("seconds"):
        parser.error("--seconds is for --random only")
    if arguments.rounds < 30 or arguments.replays < 5:
        parser.error("medians need --rounds 30 and --replays 5 or more")
    return arguments


def work(arguments: argparse.Namespace, chosen: list[Case]) -> None:
    """In the process of the cases: rows go to the descriptor, one a line, behind what is here."""
    import torch
    from gemm.bench import Bench
    from gemm.clock import Clock
    from gemm.sides import Peers

    torch.set_float32_matmul_precision("highest")  # of the references

    def send(what: dict[str, Any]) -> None:
        os.write(arguments.worker, json.dumps(what).encode() + b"\n")

    with Clock(arguments.rounds, arguments.replays) as clock:
        peers = Peers(arguments.fast_accumulation, arguments.alone)
        bench = Bench(clock, arguments.cache, "cuda", peers, arguments.programmatic, arguments.tune)
        software = (
            f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}; {peers}; a flush takes {bench.flush_us:.0f} us"
        )
        send({"device": torch.cuda.get_device_name(), "software": software})
        for case in chosen[arguments.first :]:
            row = bench.run(case, arguments.seed + zlib.crc32(str(case).encode()))
            send(row.to_json())
            torch.cuda.synchronize()  # raises where the device is lost to this process


class Worker:
    """The process of the cases, from `first` on."""

    def __init__(self, first: int, cache: str) -> None:
        self._read, write = os.pipe()
        own = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
        own += ["--cache", cache, "--worker", str(write), "--first", str(first)]
        self._process = subprocess.Popen(own, pass_fds=[write])
        os.close(write)
        self._left = b""

    def next(self, patience: float) -> dict[str, Any] | str:
        """What it says next, or why it says nothing more."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._left:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return f"nothing came for {patience:g} s"
            part = os.read(self._read, 1 << 16)
            if not part:
                return f"the process ended with {self._process.wait()}"
            self._left += part
        text, _, self._left = self._left.partition(b"\n")
        return json.loads(text)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)


def supervise(arguments: argparse.Namespace, chosen: list[Case], cache: str) -> tuple[dict[str, Any], list[Row]]:
    """Runs every case, in a further process where one is lost. What the cases ran on, and their rows."""
    about: dict[str, Any] = {}
    rows: list[Row] = []
    while len(rows) < len(chosen):
        worker = Worker(len(rows), cache)
        try:
            said = worker.next(2 * arguments.patience)
            if isinstance(said, str):
                print(f"no case can run: {said}", file=sys.stderr)
                break
            if not about:
                about = said
                print(f"{about['device']}, {about['software']}; seed {arguments.seed}", flush=True)
            first = len(rows)
            while len(rows) < len(chosen) and isinstance(said, dict):
                case = chosen[len(rows)]
                said = worker.next(arguments.patience)
                if isinstance(said, str) and len(rows) > first and rows[-1].errors():
                    break  # that error took the device along; this case has not begun
                if not rows or rows[-1].case.section != case.section:
                    print(report.heading(case), flush=True)
                rows.append(Row(case, error=said) if isinstance(said, str) else Row.from_json(said))
                print(report.line(rows[-1]), flush=True)
        finally:
            worker.end()
    return about, rows


def sweep(arguments: argparse.Namespace, cache: str) -> int:
    """Random products."""
    from gemm.sweep import draw, sweep, variants_of

    print(f"seed {arguments.seed}: {arguments.random} products each of {', '.join(arguments.only)}", flush=True)
    products = draw(arguments.only, arguments.random, arguments.seed)
    start = time.monotonic()
    about = sweep(products, cache, "cuda", arguments.seed, arguments.seconds, arguments.alone)
    took = time.monotonic() - start
    products = [product for product in products if product.graph_us or product.error]
    entries = distribution.summary(products)
    print("\n".join([f"{about['device']}, {about['software']}", *distribution.lines(entries)]), flush=True)
    if arguments.json:
        result = {
            "date": datetime.date.today().isoformat(),
            "command": "python3 tests/bench/gemm_peers.py " + shlex.join(sys.argv[1:]),
            **about,
            "seed": arguments.seed,
            "summary": entries,
            "products": [dataclasses.asdict(product) for product in products],
        }
        with open(arguments.json, "w") as file:
            json.dump(result, file)
    for kind in arguments.only:
        if worst := distribution.worst(products, kind):
            print(
                f"\n  {'worst of ' + kind:36}{'call us':>9}{'peer':>9}{'x':>6}"
                f"{'graph us':>9}{'peer':>9}{'x':>6}  variant"
            )
        for product in worst:
            product.note = variants_of(product, "cuda", cache)
            print(distribution.line(product), flush=True)
    failed = [product for product in products if product.error]
    for product in failed:
        print(f"  FAILED: {product.name}: {product.error}")
    print(f"\n{len(products)} products in {took:.0f} s, {len(failed)} failed")
    return 2 if not products else 1 if failed else 0


def main() -> int:
    arguments = read_arguments()
    if arguments.random:
        with tempfile.TemporaryDirectory(prefix="quern-bench-") as folder:
            return sweep(arguments, arguments.cache or folder)
    chosen = cases(arguments.only, arguments.shapes)
    if arguments.worker is not None:
        work(arguments, chosen)
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quern-bench-") as folder:
        about, rows = supervise(arguments, chosen, arguments.cache or folder)
    goals = figures(rows)
    print("\n".join([*report.means(rows), *report.verdicts(goals)]))
    failed = [row for row in rows if row.errors()]
    print(f"\n{len(rows)} of {len(chosen)} cases, {len(failed)} failed; {time.monotonic() - start:.0f} s in all")
    if arguments.json:
        when = {
            "date": datetime.date.today().isoformat(),
            "command": "python3 tests/bench/gemm_peers.py " + shlex.join(sys.argv[1:]),
        }
        result = {**when, **about, "seed": arguments.seed, "rows": [row.to_json() for row in rows]}
        with open(arguments.json, "w") as file:
            json.dump({**result, "figures": [goal.to_json() for goal in goals]}, file, indent=2)
    if len(rows) < len(chosen):
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
