# The names of element types and their DLPack codes.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from . import _abi
from .errors import InvalidError

# DLPack codes that quern.h does not need to name.
_BOOL = 6

# name: (code, bits). The first name of a pair is the one that messages use.
CODES: dict[str, tuple[int, int]] = {
    "f16": (_abi.kDLFloat, 16),
    "f32": (_abi.kDLFloat, 32),
    "f64": (_abi.kDLFloat, 64),
    "bf16": (_abi.kDLBfloat, 16),
    "e4m3": (_abi.kDLFloat8_e4m3fn, 8),
    "e5m2": (_abi.kDLFloat8_e5m2, 8),
    "bool": (_BOOL, 8),
    **{f"i{bits}": (_abi.kDLInt, bits) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (_abi.kDLUInt, bits) for bits in (8, 16, 32, 64)},
}
# What NumPy, ml_dtypes and PyTorch call them.
ALIASES: dict[str, str] = {
    "float16": "f16",
    "half": "f16",
    "float32": "f32",
    "float": "f32",
    "float64": "f64",
    "double": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
# What NumPy, ml_dtypes and PyTorch call them first.
LONG: dict[str, str] = {"bool": "bool", **{short: long for long, short in reversed(ALIASES.items())}}
NAMES: dict[tuple[int, int], str] = {code: name for name, code in CODES.items()}


def code_of(dtype: object, argument: str = "dtype") -> tuple[int, int]:
    """Of "bf16", "bfloat16", numpy.float32, torch.float16 and so on, DLPack's code and the bits."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    name = str(name or dtype).rpartition(".")[2]
    code = CODES.get(ALIASES.get(name, name))
    if code is None:
        raise InvalidError(f"{argument}: {dtype!r} is no element type; known are {', '.join(CODES)}")
    return code


def parse(dtype: object, argument: str = "dtype") -> _abi.DLDataType:
    """The same in DLPack's form."""
    return _abi.DLDataType(*code_of(dtype, argument), 1)


# Names by the dtypes that were asked for: objects that live as long as their framework, and strings. NumPy's are apart:
# torch.compile cannot read a dict that has them for keys.
_short_names: dict[object, str] = {}
_numpy_names: dict[object, str] = {}


def short_name(dtype: object, argument: str = "dtype") -> str:
    """The short name, "bf16", of what `code_of` takes."""
    try:
        known = _short_names.get(dtype) or _numpy_names.get(dtype)
    except TypeError:  # of what cannot be a key
        known = None
    if known is None:
        known = NAMES[code_of(dtype, argument)]
        names = _short_names if isinstance(dtype, str) or type(dtype).__module__ == "torch" else _numpy_names
        if len(names) < 100:
            names[dtype] = known
    return known


def name_of(dtype: _abi.DLDataType) -> str:
    """The short name, "bf16", of DLPack's form; "code C, B bits" where it has none here."""
    return NAMES.get((dtype.code, dtype.bits), f"code {dtype.code}, {dtype.bits} bits")
