# SPDX-License-Identifier: Apache-2.0
"""quern: GPU kernels specialised, compiled, cached and launched at run time, from Python.

    import quern

    with quern.Context("cuda") as context:
        out = context.attention(q, k_pages, v_pages, lengths=lengths, page_table=page_table, causal=True)

Tensors are anything with `__dlpack__`: PyTorch tensors on a GPU, NumPy arrays on the `host` target. Nothing is
copied."""

from ._abi import QUERN_VERSION_MAJOR, QUERN_VERSION_MINOR, QUERN_VERSION_PATCH
from .context import Context
from .errors import (
    CapturingError,
    CompileError,
    DamagedError,
    DriverError,
    Error,
    FaultError,
    ForkedError,
    InternalError,
    InvalidError,
    IoError,
    MissError,
    NoMemoryError,
    NotFoundError,
    PartialError,
    PendingError,
    StickyError,
    UnsupportedError,
)
from .experts import Routing
from .expression import Expression
from .kernel import Kernel, address
from .library import version
from .tensor import Shape, Tensor
from .wheels import nvidia_wheel_dirs

__version__ = f"{QUERN_VERSION_MAJOR}.{QUERN_VERSION_MINOR}.{QUERN_VERSION_PATCH}"

__all__ = [
    "CapturingError",
    "CompileError",
    "Context",
    "DamagedError",
    "DriverError",
    "Error",
    "Expression",
    "FaultError",
    "ForkedError",
    "InternalError",
    "InvalidError",
    "IoError",
    "Kernel",
    "MissError",
    "NoMemoryError",
    "NotFoundError",
    "PartialError",
    "PendingError",
    "Routing",
    "Shape",
    "StickyError",
    "Tensor",
    "UnsupportedError",
    "__version__",
    "address",
    "nvidia_wheel_dirs",
    "version",
]
