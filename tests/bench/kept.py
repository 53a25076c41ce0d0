# What a benchmark writes of a run: where it ran, when, and the command that repeats it, beside what it measured.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import Any


def write(path: str, **measured: Any) -> None:
    """Writes `measured` as JSON, behind date, machine and command. Needs PyTorch and an NVIDIA GPU."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": f"one {properties.name} ({properties.multi_processor_count} SMs, CUDA {torch.version.cuda}), "
        f"PyTorch {torch.__version__}",
        "command": f"PYTHONPATH=build/python python3 tests/bench/{Path(sys.argv[0]).name} {shlex.join(sys.argv[1:])}",
        **measured,
    }
    Path(path).write_text(json.dumps(result, indent=1) + "\n")
