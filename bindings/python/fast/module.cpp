// quern._fast: the calls of ops without ctypes. It knows the C ABI by what the package tells it and does what is plain;
// everything else it hands back to the package.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/bound.h"
#include "bindings/python/fast/launcher.h"
#include "bindings/python/fast/limited.h"
#include "bindings/python/fast/outputs.h"
#include "bindings/python/fast/tensors.h"
#include "bindings/python/fast/views.h"

namespace {

// METH_FASTCALL's functions as the table has them.
PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef functions[] = {
    {"set_up", quern::python::set_up, METH_VARARGS,
     "set_up(ops, (error, call, expression, stream, capturing), (kind_of, dtype_of, grad_mode, code_of)); ops a "
     "list of (name, description, address of the call, address of the workspace's)"},
    {"empty", fast(quern::python::empty), METH_FASTCALL,
     "empty(shape, like, dtype): a tensor of PyTorch's on the device of one, or None where that is not for here"},
    {"together", fast(quern::python::together), METH_FASTCALL,
     "together(like, (shape, dtype, strides), ...): a list of such tensors, or None as above"},
    {"compact", fast(quern::python::compact), METH_FASTCALL,
     "compact(arrays, dtype): a list of compact tensors of their extents, or None as above"},
    {"shape", quern::python::shape, METH_O, "shape(array): its extents, or None where it is not read here"},
    {"element", quern::python::element, METH_O,
     "element(array): DLPack's code of its elements times 256, and their bits; or None as above"},
    {"alignment", quern::python::alignment, METH_O,
     "alignment(arrays): what the data of all in a list are aligned to, or None where one is not read here"},
    {"permuted", fast(quern::python::permuted), METH_FASTCALL,
     "permuted(array, axes): a View with the axes in this order, or None where the array is not read here"},
    {"sliced", fast(quern::python::sliced), METH_FASTCALL,
     "sliced(array, index): a View of what is at a tuple of integers, slices and ..., or None as above"},
    {"unflattened", fast(quern::python::unflattened), METH_FASTCALL,
     "unflattened(array, axis, inner): a View with an axis as two, or None as above"},
    {"retyped", fast(quern::python::retyped), METH_FASTCALL,
     "retyped(array, code, bits): a View with elements of another type, or None as above"},
    {"parts", fast(quern::python::parts), METH_FASTCALL,
     "parts(array, extents, axis): Views of so many elements each along an axis, or None as above"},
    {"joined", fast(quern::python::joined), METH_FASTCALL,
     "joined(arrays, axis): (axis, extents along it, the whole's extents) of arrays one behind the other, or None"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "quern._fast", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__fast(void) {
  PyObject* made = PyModule_Create(&definition);
  if (made != nullptr &&
      (!quern::python::add_launcher(made) || !quern::python::add_bound(made) || !quern::python::add_view(made))) {
    Py_DECREF(made);
    return nullptr;
  }
  return made;
}
