# An array that says of itself what NumPy's own export never does.
# SPDX-License-Identifier: Apache-2.0
from quern.tensor import _COPIED, _capsule_pointer, _Managed


class Placed:
    """Exports memory with a byte_offset, or says that it is a copy: fields that NumPy leaves at 0."""

    def __init__(self, array, *, offset=0, copied=False):
        self.array, self.offset, self.copied = array, offset, copied

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__(**options)
        managed = _Managed.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        managed.tensor.data -= self.offset
        managed.tensor.byte_offset += self.offset
        managed.flags |= _COPIED if self.copied else 0
        return capsule
