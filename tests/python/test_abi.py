# The generated ctypes declarations against the C compiler's own view of quern.h, and the generator itself.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from quern import _abi, library

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "capi" / "quern.h"
GENERATOR = ROOT / "bindings" / "python" / "generate_abi.py"


def structs():
    made = (value for value in vars(_abi).values() if isinstance(value, type) and issubclass(value, ctypes.Structure))
    return [struct for struct in made if struct is not ctypes.Structure and getattr(struct, "_fields_", None)]


def compiled(tmp_path, lines):
    """The numbers that a C program made of these printf arguments prints."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed"
    source, program = tmp_path / "abi.c", tmp_path / "abi"
    prints = "\n".join(f'  printf("%lld\\n", (long long)({line}));' for line in lines)
    source.write_text(f'#include "capi/quern.h"\n#include <stdio.h>\nint main(void) {{\n{prints}\n  return 0;\n}}\n')
    subprocess.run([compiler, "-std=c99", f"-I{ROOT}", str(source), "-o", str(program)], check=True)
    return [int(line) for line in subprocess.run([program], check=True, capture_output=True).stdout.split()]


def test_every_struct_is_there():
    # What stands under QUERN_DLPACK_TENSOR_ONLY is DLPack's own, and no function of quern takes it.
    text = re.sub(r"#ifndef QUERN_DLPACK_TENSOR_ONLY.*?\n#endif\n", "", HEADER.read_text(), flags=re.S)
    declared = {name for name in text.replace(";", " ").replace("}", " ").split() if f"}} {name};" in text}
    assert {struct.__name__ for struct in structs()} == declared
    assert "quern_attention_args" in declared


def test_sizes_and_offsets_are_c(tmp_path):
    expected, lines = [], []
    for struct in structs():
        lines.append(f"sizeof({struct.__name__})")
        expected.append((struct.__name__, ctypes.sizeof(struct)))
        for name, *_ in struct._fields_:
            member = getattr(struct, name)
            lines += [f"offsetof({struct.__name__}, {name})", f"sizeof((({struct.__name__} *)0)->{name})"]
            expected += [(f"{struct.__name__}.{name}", member.offset), (f"sizeof {name}", member.size)]
    got = compiled(tmp_path, lines)
    assert list(zip((what for what, _ in expected), got, strict=True)) == expected


def test_constants_are_c(tmp_path):
    numbers = (name for name, value in vars(_abi).items() if isinstance(value, int))
    names = [name for name in numbers if name.startswith(("QUERN_", "kDL"))]
    assert len(names) > 50
    assert dict(zip(names, compiled(tmp_path, names), strict=True)) == {name: getattr(_abi, name) for name in names}


def test_library_exports_every_function():
    missing = [name for name in _abi.FUNCTIONS if not hasattr(library.library(), name)]
    assert missing == []


def test_library_speaks_this_abi():
    assert library.library().quern_abi_version() == _abi.QUERN_ABI_VERSION
    assert library.version().count(".") == 2


def generate(tmp_path, text):
    """The _abi module of another header."""
    header, output = tmp_path / "quern.h", tmp_path / "other_abi.py"
    header.write_text(text)
    run = subprocess.run([sys.executable, GENERATOR, header, output], capture_output=True, text=True, check=False)
    if run.returncode:
        raise ValueError(run.stderr)
    spec = importlib.util.spec_from_file_location("other_abi", output)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NEW_OP = """
enum quern_scale_flags { QUERN_SCALE_TWICE = 1u << 16 };
/* out = factor * x */
typedef struct quern_scale_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_scale_flags */
  const DLTensor *x; /* [n] f32 */
  const DLTensor *out;
  float factor[2];
} quern_scale_args;
int32_t quern_scale_workspace(quern_context *context, const quern_scale_args *args, uint64_t *bytes,
                              quern_error *error);
int32_t quern_scale_prepare(quern_context *context, const quern_scale_args *args, quern_error *error);
int32_t quern_scale(quern_context *context, const quern_scale_args *args, quern_error *error);
"""
END = "#ifdef __cplusplus\n}"


def test_new_op_needs_no_hand_work(tmp_path):
    module = generate(tmp_path, HEADER.read_text().replace(END, NEW_OP + END))
    op = module.OPS["scale"]
    assert [name for name, *_ in op.args._fields_] == ["size", "flags", "x", "out", "factor"]
    assert op.args.x.offset == 8 and op.args.factor.size == 8
    assert op.flags.QUERN_SCALE_TWICE == 1 << 16
    assert op.text.startswith("/* out = factor * x */\ntypedef struct") and op.text.endswith("} quern_scale_args;")
    assert module.FUNCTIONS["quern_scale"][1][1] is ctypes.POINTER(op.args)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("union quern_u { int32_t a; };", "'union' is no type"),
        ("typedef struct quern_s { int a; } quern_s;", "'int' is no type"),
        ("int32_t quern_f(int32_t a, ...);", "'.' is no type"),
        ("#define QUERN_MAX(a, b) a", "is not understood"),
        ("typedef struct quern_t_args { uint32_t size; } quern_t_args;", "without quern_t, quern_t_prepare"),
    ],
)
def test_generator_refuses_what_it_does_not_read(tmp_path, text, complaint):
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        generate(tmp_path, HEADER.read_text().replace(END, text + "\n" + END))
