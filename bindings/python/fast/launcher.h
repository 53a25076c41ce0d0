// A context's calls of ops: arguments read into the args struct, and launched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bindings/python/fast/description.h"
#include "bindings/python/fast/limited.h"
#include "capi/quern.h"

namespace quern::python {

using OpCall = std::int32_t (*)(quern_context*, const void* args, quern_error*);
using OpWorkspace = std::int32_t (*)(quern_context*, const void* args, std::uint64_t* bytes, quern_error*);

struct Op {
  Owned name;
  Description description;
  OpCall call = nullptr;
  OpWorkspace workspace = nullptr;
};

// The ops of the library that was opened.
const Op* find_op(PyObject* name);

// Functions of the package that calls come back to.
struct Package {
  PyObject* error = nullptr;       // (status, native, text) -> the exception to raise
  PyObject* call = nullptr;        // (context, op, **arguments): the same call through ctypes
  PyObject* expression = nullptr;  // (value, context) -> the address of an expression's handle
  PyObject* stream = nullptr;      // (stream, arrays, device) -> its handle as an integer
  PyObject* capturing = nullptr;   // (device) -> whether its current stream is being captured
};
const Package& package();

// What a thread used last on a stream: it is kept for the thread's next call, as the package does itself.
struct Workspace {
  unsigned long thread = 0;
  void* stream = nullptr;
  Owned owner;
  void* address = nullptr;
  std::uint64_t bytes = 0;
};

// The Python object, made by a Context for itself.
struct Launcher {
  PyObject head;
  quern_context* context;  // NULL once closed
  DLDevice device;
  PyObject* device_object;  // the pair that the package knows the device by
  PyObject* owner;          // a weak reference to the Context
  PyObject* take;           // (bytes, stream, device, arrays) -> owner, address, bytes: a workspace
  PyObject* drop;           // (stream): forgets one
  PyObject* expressions;    // a dict: a formula's text to the address of its handle, which lives as long as the Context
  std::array<Workspace, 8>* workspaces;
  std::size_t oldest;
};

// Makes the type; false with an exception.
bool add_launcher(PyObject* module);
// The module's set_up(ops, functions): see module.cpp.
PyObject* set_up(PyObject* module, PyObject* arguments);

// One that a call can write to; its text alone is 4 KiB, which nothing clears.
quern_error blank();
// Launches without the GIL; what the call returned.
std::int32_t launch(OpCall call, quern_context* context, const void* args, quern_error* error);
// Sets the exception of a status; NULL.
PyObject* raise(std::int32_t status, std::int64_t native, const char* text);

}  // namespace quern::python
