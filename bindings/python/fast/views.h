// Views of an array's memory that its framework never hears of: what a copy between other orders and parts needs of
// transposes and slices, for a tenth of what a framework takes to make an array of its own for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/python/fast/tensors.h"

namespace quern::python {

// What an object of the type View is; NULL of any other object.
struct BorrowedView {
  PyObject* array;  // whose memory it is, held
  View view;
  const ExchangeApi* api;  // of the array's framework where that is PyTorch, else NULL
};
const BorrowedView* view_of(PyObject* object);

// Views are made of NumPy's and PyTorch's arrays and of Views.

// permuted(array, axes): a View of the array with its axes in this order, or None where the array is not read here.
PyObject* permuted(PyObject* module, PyObject* const* values, Py_ssize_t count);

// sliced(array, index): a View of what NumPy has at an index, a tuple of integers, slices of positive steps and at most
// one ...; or None as above.
PyObject* sliced(PyObject* module, PyObject* const* values, Py_ssize_t count);

// unflattened(array, axis, inner): a View of the array with an axis as two, the second of extent `inner`, which divides
// the axis's; or None as above.
PyObject* unflattened(PyObject* module, PyObject* const* values, Py_ssize_t count);

// retyped(array, code, bits): a View of the array with elements of another type of the same width; or None as above.
PyObject* retyped(PyObject* module, PyObject* const* values, Py_ssize_t count);

// joined(arrays, axis): what a list of arrays is behind one another along an axis: (the axis from the first one on, the
// extents along it, the whole's extents). None where they do not fit together or one is not read here.
PyObject* joined(PyObject* module, PyObject* const* values, Py_ssize_t count);

// parts(array, extents, axis): a list of Views, of so many elements each along an axis, one behind the other; or None
// as above. The extents' sum is the array's extent.
PyObject* parts(PyObject* module, PyObject* const* values, Py_ssize_t count);

// Puts the type View into the module. False with an exception.
bool add_view(PyObject* module);

}  // namespace quern::python
