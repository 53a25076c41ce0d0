// The backend as ggml loads it: a registry of one device, its memory, and graphs run node by node on quern.
// SPDX-License-Identifier: Apache-2.0
#include <ggml-backend-impl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "ops.h"

namespace quern::ggml {
namespace {

constexpr std::size_t kAlignment = 256;

constexpr std::array kOps = {&kMulMat, &kFlashAttention, &kRmsNorm, &kNorm, &kGroupNorm, &kSoftMax,
                             &kRope,   &kGetRows,        &kSetRows, &kAdd,  &kSub,       &kMul,
                             &kDiv,    &kScale,          &kUnary,   &kGlu,  &kCopy,      &kCont,
                             &kDup};

void say(const std::string& text) { std::fprintf(stderr, "quern: %s\n", text.c_str()); }

struct Device {
  std::string name, description;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Widened> widened;
  quern_context* context = nullptr;
  ggml_backend_device device = {};
  ggml_backend_buffer_type buffer_type = {};
};
// Never destroyed: ggml keeps what it was given until the process ends.
Device& the_device() {
  static auto* kept = new Device;
  return *kept;
}

const Op* op_of(const ggml_tensor* node) {
  const auto found = std::find_if(kOps.begin(), kOps.end(), [&](const Op* op) { return op->op == node->op; });
  return found == kOps.end() ? nullptr : *found;
}
// What only gives memory another shape.
bool is_view(const ggml_tensor* node) {
  return node->op == GGML_OP_NONE || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_VIEW ||
         node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
}

// Exceptions stop here: ggml is C.
template <typename Body>
bool guarded(const char* what, Body body) {
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    say(std::string(what) + ": " + error.what());
    return false;
  }
}
// Where ggml's interface has no way to say that something failed.
template <typename Body>
void must(const char* what, Body body) {
  if (!guarded(what, body)) std::abort();
}

// ---- Buffers: context is the memory's address

void buffer_free(ggml_backend_buffer_t buffer) {
  must("free", [&] {
    the_device().widened->forget(buffer->context, buffer->size);
    the_device().memory->free(buffer->context);
  });
}
// Where the bytes of a tensor are that are about to be written.
void* written(const ggml_tensor* tensor, std::size_t offset, std::size_t size) {
  char* begin = static_cast<char*>(tensor->data) + offset;
  the_device().widened->forget(begin, size);
  return begin;
}
void* buffer_base(ggml_backend_buffer_t buffer) { return buffer->context; }
void buffer_memset(ggml_backend_buffer_t, ggml_tensor* tensor, std::uint8_t value, std::size_t offset,
                   std::size_t size) {
  must("memset", [&] { the_device().memory->fill(written(tensor, offset, size), value, size); });
}
void buffer_set(ggml_backend_buffer_t, ggml_tensor* tensor, const void* data, std::size_t offset, std::size_t size) {
  must("set", [&] { the_device().memory->put(written(tensor, offset, size), data, size); });
}
void buffer_get(ggml_backend_buffer_t, const ggml_tensor* tensor, void* data, std::size_t offset, std::size_t size) {
  must("get", [&] { the_device().memory->get(data, static_cast<const char*>(tensor->data) + offset, size); });
}
void buffer_clear(ggml_backend_buffer_t buffer, std::uint8_t value) {
  must("clear", [&] {
    the_device().widened->forget(buffer->context, buffer->size);
    the_device().memory->fill(buffer->context, value, buffer->size);
  });
}
bool buffer_copy(ggml_backend_buffer_t, const ggml_tensor* from, ggml_tensor* to) {
  Memory& memory = *the_device().memory;
  const std::size_t bytes = ggml_nbytes(from);
  if (from->buffer->buft == &the_device().buffer_type) {
    return guarded("copy", [&] { memory.copy(written(to, 0, bytes), from->data, bytes); });
  }
  return ggml_backend_buffer_is_host(from->buffer) &&
         guarded("copy", [&] { memory.put(written(to, 0, bytes), from->data, bytes); });
}

const char* type_name(ggml_backend_buffer_type_t) { return the_device().name.c_str(); }
ggml_backend_buffer_t type_allocate(ggml_backend_buffer_type_t type, std::size_t size) {
  ggml_backend_buffer_i calls = {};
  calls.free_buffer = buffer_free;
  calls.get_base = buffer_base;
  calls.memset_tensor = buffer_memset;
  calls.set_tensor = buffer_set;
  calls.get_tensor = buffer_get;
  calls.cpy_tensor = buffer_copy;
  calls.clear = buffer_clear;
  void* memory = nullptr;
  const bool made = guarded("memory", [&] { memory = the_device().memory->allocate(size == 0 ? 1 : size); });
  return made && memory != nullptr ? ggml_backend_buffer_init(type, calls, memory, size) : nullptr;
}
std::size_t type_alignment(ggml_backend_buffer_type_t) { return kAlignment; }
bool type_is_host(ggml_backend_buffer_type_t) { return the_device().memory->device().device_type == kDLCPU; }

// ---- The backend: context is a Run

const char* backend_name(ggml_backend_t) { return the_device().name.c_str(); }
void backend_free(ggml_backend_t backend) {
  delete static_cast<Run*>(backend->context);
  delete backend;
}
ggml_status backend_compute(ggml_backend_t backend, ggml_cgraph* graph) {
  Run& run = *static_cast<Run*>(backend->context);
  const ggml_tensor* at = nullptr;
  const bool done = guarded("graph", [&] {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
      at = ggml_graph_node(graph, i);
      if (is_view(at) || ggml_is_empty(at) || (at->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
      const Op* op = op_of(at);
      if (op == nullptr) throw Failed("an op that this backend does not run");
      if (at->buffer != nullptr && at->buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS) {
        the_device().widened->forget(at->data, ggml_nbytes(at));
      }
      op->run(run, at);
      run.end_node();
    }
  });
  if (!done && at != nullptr) say(std::string("at ") + ggml_op_desc(at) + " '" + at->name + "'");
  const bool finished = guarded("graph", [&] { run.end_graph(); });
  return done && finished ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
}

// ---- The device

const char* device_name(ggml_backend_dev_t) { return the_device().name.c_str(); }
const char* device_description(ggml_backend_dev_t) { return the_device().description.c_str(); }
void device_memory(ggml_backend_dev_t, std::size_t* free, std::size_t* total) {
  *free = *total = 0;
  guarded("memory", [&] { the_device().memory->room(free, total); });
}
// As a GPU, the `host` target too: programs offload to these.
enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }
void device_properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  *properties = {};
  properties->name = device_name(device);
  properties->description = device_description(device);
  properties->type = device_type(device);
  device_memory(device, &properties->memory_free, &properties->memory_total);
}
ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) { return &the_device().buffer_type; }
ggml_backend_t device_init(ggml_backend_dev_t device, const char*) {
  static const ggml_guid kGuid = {0x71, 0x75, 0x65, 0x72, 0x6e, 0x2d, 0x67, 0x67,
                                  0x6d, 0x6c, 0x2d, 0x62, 0x61, 0x63, 0x6b, 0x31};
  auto* backend = new ggml_backend{};
  backend->guid = const_cast<ggml_guid_t>(&kGuid);
  backend->iface.get_name = backend_name;
  backend->iface.free = backend_free;
  backend->iface.graph_compute = backend_compute;
  backend->device = device;
  backend->context = new Run(*the_device().memory, *the_device().widened, the_device().context);
  return backend;
}
bool device_supports(ggml_backend_dev_t, const ggml_tensor* node) {
  if (is_view(node)) return true;
  const Op* op = op_of(node);
  return op != nullptr && (ggml_is_empty(node) || op->is_supported(node));
}
bool device_takes(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
  // On `host` the CPU's memory is the device's.
  return type == &the_device().buffer_type || (type_is_host(type) && ggml_backend_buft_is_host(type));
}

// ---- The registry

const char* registry_name(ggml_backend_reg_t) { return "QUERN"; }
std::size_t registry_count(ggml_backend_reg_t) { return the_device().context == nullptr ? 0 : 1; }
ggml_backend_dev_t registry_device(ggml_backend_reg_t, std::size_t) { return &the_device().device; }

// QUERN_GGML_DEVICE, cuda:0 without. Without the device the registry has none, and programs go on with what they have.
void open_device(ggml_backend_reg_t registry) {
  Device& made = the_device();
  const char* asked = std::getenv("QUERN_GGML_DEVICE");
  const std::string name = asked == nullptr || *asked == '\0' ? "cuda:0" : asked;
  std::string why;
  made.memory = open_memory(name, why);
  if (made.memory == nullptr) {
    if (asked != nullptr) say(why);
    return;
  }
  made.widened = std::make_unique<Widened>(*made.memory, &made.buffer_type);
  quern_context_options options = {};
  options.size = sizeof options;
  options.device_type = made.memory->device().device_type;
  options.device_id = made.memory->device().device_id;
  options.target = name == "host64" ? "host64" : nullptr;
  quern_error error = {};
  error.size = sizeof error;
  if (quern_context_create(&options, &made.context, &error) != QUERN_OK) {
    say(error.text);
    made.context = nullptr;
    return;
  }
  quern_device_info info = {};
  info.size = sizeof info;
  if (quern_device(made.context, &info, nullptr) == QUERN_OK) {
    made.description = std::string("quern ") + quern_version() + " on " + info.name + " (" + info.target + ")";
  }
  made.name = "QUERN0";
  made.device.iface.get_name = device_name;
  made.device.iface.get_description = device_description;
  made.device.iface.get_memory = device_memory;
  made.device.iface.get_type = device_type;
  made.device.iface.get_props = device_properties;
  made.device.iface.init_backend = device_init;
  made.device.iface.get_buffer_type = device_buffer_type;
  made.device.iface.supports_op = device_supports;
  made.device.iface.supports_buft = device_takes;
  made.device.reg = registry;
  made.buffer_type.iface.get_name = type_name;
  made.buffer_type.iface.alloc_buffer = type_allocate;
  made.buffer_type.iface.get_alignment = type_alignment;
  made.buffer_type.iface.is_host = type_is_host;
  made.buffer_type.device = &made.device;
}

ggml_backend_reg_t the_registry() {
  static ggml_backend_reg* const kRegistry = [] {
    auto* made = new ggml_backend_reg{};
    made->api_version = GGML_BACKEND_API_VERSION;
    made->iface.get_name = registry_name;
    made->iface.get_device_count = registry_count;
    made->iface.get_device = registry_device;
    open_device(made);
    return made;
  }();
  return kRegistry;
}

}  // namespace
}  // namespace quern::ggml

GGML_BACKEND_DL_IMPL(quern::ggml::the_registry)
