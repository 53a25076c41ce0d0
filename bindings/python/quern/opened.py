# What is made by a context needs of it.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Protocol


class Opened(Protocol):
    """A Context, for the modules that Context itself is made of."""

    _device: tuple[int, int]  # DLPack's device type and number

    def _open(self) -> Any:
        """The handle; an error once closed."""
