// DLPack's C exchange API (1.3): a table of functions that a framework hangs on its tensors' type, in a capsule. With
// it a tensor is read without making a Python object. Declared here, as quern.h's DLTensor is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"

namespace quern::python {

inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";

struct ExchangeHeader {
  DLPackVersion version;
  ExchangeHeader* previous;
};

struct ExchangeApi {
  ExchangeHeader header;
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** made, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* text));
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** made);
  int (*object_from_managed)(DLManagedTensorVersioned* managed, void** object);
  // Fills `tensor` with what belongs to the object and lives as long as it does unchanged; may be NULL.
  int (*tensor_from_object)(void* object, DLTensor* tensor);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** stream);
};

}  // namespace quern::python
