// Tensors that PyTorch makes for a call's results, without the way through its Python functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/python/fast/limited.h"

namespace quern::python {

// empty(shape, like, dtype): an uninitialised tensor of PyTorch's on `like`'s device, its elements of `dtype`, None:
// as `like`'s. None where that is not for here: other arrays, or a PyTorch that lacks what this needs.
PyObject* empty(PyObject* module, PyObject* const* values, Py_ssize_t count);

// together(like, (shape, dtype, strides), ...): a list of such tensors, strides in elements or None: compact. Small
// ones lie in one allocation, which then lives as long as any of them: asking PyTorch for memory takes longer than all
// else that makes a tensor. None as above.
PyObject* together(PyObject* module, PyObject* const* values, Py_ssize_t count);

// compact(arrays, dtype): a list of such tensors of the extents of each in a list, of their elements where the dtype is
// None.
PyObject* compact(PyObject* module, PyObject* const* values, Py_ssize_t count);

// `code_of`: (dtype) -> (DLPack code, bits).
void set_dtypes(PyObject* code_of);

}  // namespace quern::python
