// A call with its arguments, to be launched again and again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/python/fast/limited.h"

namespace quern::python {

// Launcher.bind(op, address of the args struct, what keeps it and its tensors alive, result, a capsule of the
// ExchangeApi whose current stream each launch is on, or None).
PyObject* bind(PyObject* launcher, PyObject* arguments);

// Makes the type; false with an exception.
bool add_bound(PyObject* module);

}  // namespace quern::python
