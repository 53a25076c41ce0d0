// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/description.h"

namespace quern::python {

bool Description::read(PyObject* told) {
  PyObject *parts = nullptr, *arguments = nullptr;
  if (!PyArg_ParseTuple(told, "O!O!", &PyList_Type, &parts, &PyList_Type, &arguments)) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(parts); ++i) {
    Part part;
    Py_ssize_t pointer = 0;
    if (!PyArg_ParseTuple(PyList_GetItem(parts, i), "In", &part.size, &pointer)) return false;
    if (part.size > kPartBytes || parts_.size() == kMaxParts) {
      PyErr_SetString(PyExc_ValueError, "a struct is larger, or has more parts, than this module has room for");
      return false;
    }
    part.pointer = static_cast<std::size_t>(pointer);
    parts_.push_back(part);
  }
  const Py_ssize_t count = PyList_Size(arguments);
  if (count > 200) {
    PyErr_SetString(PyExc_ValueError, "an op has more arguments than this module has room for");
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    Argument argument;
    PyObject *name = nullptr, *enumerators = nullptr;
    long field = 0;
    Py_ssize_t part = 0, offset = 0, count_offset = 0;
    unsigned bit = 0;
    if (!PyArg_ParseTuple(PyList_GetItem(arguments, i), "UlnnnIO", &name, &field, &part, &offset, &count_offset, &bit,
                          &enumerators)) {
      return false;
    }
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    argument.name = Owned(name);
    argument.field = static_cast<Field>(field);
    argument.part = static_cast<std::size_t>(part);
    argument.offset = static_cast<std::size_t>(offset);
    argument.count_offset = static_cast<std::size_t>(count_offset);
    argument.bit = bit;
    if (enumerators != Py_None) argument.enumerators = Owned::share(enumerators);
    arguments_.push_back(std::move(argument));
    std::size_t slot = slot_of(name);
    while (slots_[slot] != 0) slot = (slot + 1) % kSlots;
    slots_[slot] = static_cast<std::uint8_t>(arguments_.size());
  }
  return true;
}

const Argument* Description::find(PyObject* name) const {
  // Names at call sites are interned, so that their address is enough.
  for (std::size_t slot = slot_of(name); slots_[slot] != 0; slot = (slot + 1) % kSlots) {
    const Argument& argument = arguments_[slots_[slot] - 1U];
    if (argument.name.get() == name) return &argument;
  }
  for (const Argument& argument : arguments_) {
    if (PyUnicode_Compare(argument.name.get(), name) == 0) return &argument;
  }
  return nullptr;
}

}  // namespace quern::python
