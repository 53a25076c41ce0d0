# Where NVIDIA's wheels of this Python environment keep their libraries.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
from pathlib import Path


def nvidia_wheel_dirs() -> list[str]:
    """Folders with libnvrtc from the wheels nvidia-cuda-nvrtc (CUDA 13) and nvidia-cuda-nvrtc-cu12, newest first."""
    found = importlib.util.find_spec("nvidia")
    folders = {
        str(library.parent.resolve())
        for root in (found.submodule_search_locations or () if found else ())
        for library in Path(root).glob("*/lib/libnvrtc.so.*")
    }
    # nvidia/cu13/lib before nvidia/cuda_nvrtc/lib, which is CUDA 12's.
    return sorted(folders, key=lambda folder: ("/cuda_nvrtc/" in folder, folder))
