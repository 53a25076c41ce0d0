// CPython's limited API: one binary for every Python from 3.11 on, where buffers became part of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace quern::python {

// A reference to a Python object that this code owns; empty where an exception has been set.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* taken) : object_(taken) {}
  static Owned share(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Owned(borrowed);
  }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    // The old object goes last: what its end runs may look here.
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }

  [[nodiscard]] PyObject* get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace quern::python
