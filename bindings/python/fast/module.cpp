// quern._fast: the calls of ops without ctypes. It knows the C ABI by what the package tells it and does what is plain;
// everything else it hands back to the package.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/bound.h"
#include "bindings/python/fast/launcher.h"
#include "bindings/python/fast/limited.h"
#include "bindings/python/fast/outputs.h"
#include "bindings/python/fast/tensors.h"

namespace {

PyMethodDef functions[] = {
    {"set_up", quern::python::set_up, METH_VARARGS,
     "set_up(ops, (error, call, expression, stream, capturing), (kind_of, dtype_of, grad_is_enabled, code_of)); ops a "
     "list of (name, description, address of the call, address of the workspace's)"},
    {"empty", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(quern::python::empty)), METH_FASTCALL,
     "empty(shape, like, dtype): a tensor of PyTorch's on the device of one, or None where that is not for here"},
    {"alignment", quern::python::alignment, METH_O,
     "alignment(arrays): what the data of all in a list are aligned to, or None where one is not read here"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "quern._fast", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__fast(void) {
  PyObject* made = PyModule_Create(&definition);
  if (made != nullptr && (!quern::python::add_launcher(made) || !quern::python::add_bound(made))) {
    Py_DECREF(made);
    return nullptr;
  }
  return made;
}
