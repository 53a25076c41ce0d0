// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/bound.h"

#include "bindings/python/fast/launcher.h"
#include "bindings/python/fast/tensors.h"

namespace quern::python {
namespace {

struct Bound {
  PyObject head;
  Launcher* launcher;
  OpCall call;
  quern_merge_state_args* args;  // for the fields that every op's begins with
  const ExchangeApi* exchange;
  PyObject* keep;
  PyObject* exchange_object;
  PyObject* result;
};

PyTypeObject*& bound_type() {
  static PyTypeObject* kept = nullptr;
  return kept;
}

Bound& self_of(PyObject* self) { return *reinterpret_cast<Bound*>(self); }

PyObject* run(PyObject* object, PyObject* arguments, PyObject* named) {
  Bound& self = self_of(object);
  if (PyTuple_Size(arguments) != 0 || (named != nullptr && PyDict_Size(named) != 0)) {
    PyErr_SetString(PyExc_TypeError, "a bound call takes no arguments: it has them");
    return nullptr;
  }
  if (self.launcher->context == nullptr) return raise(QUERN_INVALID, 0, "context: is closed");
  if (self.exchange != nullptr) {
    const DLDevice device = self.launcher->device;
    if (self.exchange->current_stream(device.device_type, device.device_id, &self.args->stream) != 0) return nullptr;
  }
  quern_error error = blank();
  const std::int32_t status = launch(self.call, self.launcher->context, self.args, &error);
  if (status != QUERN_OK) return raise(status, error.native, error.text);
  Py_INCREF(self.result);
  return self.result;
}

void destroy(PyObject* object) {
  Bound& self = self_of(object);
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(reinterpret_cast<PyObject*>(self.launcher));
  for (PyObject* held : {self.keep, self.exchange_object, self.result}) Py_XDECREF(held);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

PyType_Slot kSlots[] = {{Py_tp_call, reinterpret_cast<void*>(run)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                        {Py_tp_doc, const_cast<char*>("A call with its arguments: bound() launches it and returns its "
                                                      "outputs, the same ones each time.")},
                        {0, nullptr}};
PyType_Spec kSpec = {"quern._fast.Bound", sizeof(Bound), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                     kSlots};

}  // namespace

PyObject* bind(PyObject* launcher, PyObject* arguments) {
  PyObject *name = nullptr, *keep = nullptr, *result = nullptr, *exchange = nullptr;
  unsigned long long address = 0;
  if (!PyArg_ParseTuple(arguments, "UKOOO", &name, &address, &keep, &result, &exchange)) return nullptr;
  const Op* op = find_op(name);
  if (op == nullptr) {
    PyErr_SetString(PyExc_ValueError, "no op has this name");
    return nullptr;
  }
  const ExchangeApi* api = nullptr;
  if (exchange != Py_None) {
    api = exchange_of(exchange);
    if (api == nullptr) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "the exchange API has another version");
      return nullptr;
    }
  }
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(bound_type(), Py_tp_alloc));
  PyObject* made = allocate(bound_type(), 0);
  if (made == nullptr) return nullptr;
  Bound& self = self_of(made);
  for (PyObject* held : {launcher, keep, exchange, result}) Py_INCREF(held);
  self.launcher = reinterpret_cast<Launcher*>(launcher);
  self.call = op->call;
  self.args = reinterpret_cast<quern_merge_state_args*>(address);
  self.exchange = api;
  self.keep = keep;
  self.exchange_object = exchange;
  self.result = result;
  return made;
}

bool add_bound(PyObject* module) {
  const Owned type(PyType_FromSpec(&kSpec));
  if (!type || PyModule_AddObjectRef(module, "Bound", type.get()) != 0) return false;
  bound_type() = reinterpret_cast<PyTypeObject*>(Owned::share(type.get()).release());
  return true;
}

}  // namespace quern::python
