// Tensors that PyTorch makes for a call's results, without the way through its Python functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/python/fast/limited.h"

namespace quern::python {

// empty(shape, like, dtype): an uninitialised tensor of PyTorch's on `like`'s device, its elements of `dtype`, None:
// as `like`'s. None where that is not for here: other arrays, or a PyTorch that lacks what this needs.
PyObject* empty(PyObject* module, PyObject* const* values, Py_ssize_t count);

// `code_of`: (dtype) -> (DLPack code, bits).
void set_dtypes(PyObject* code_of);

}  // namespace quern::python
