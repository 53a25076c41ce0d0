// quern's ops as custom calls of XLA, by its C FFI: for every op a handler of each platform, quern_PLATFORM_OP. A
// call's attributes `arguments` and `results` name its buffers, in their order and with commas between them; a name
// that takes a list is there once for each of its tensors. The other attributes are arguments by their names.
// SPDX-License-Identifier: Apache-2.0
#include <xla/ffi/api/c_api.h>

#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "described.h"
#include "places.h"

namespace {

using namespace quern::described;

[[noreturn]] void refuse(const std::string& text) { throw Refused(QUERN_INVALID, text); }

// XLA's element types as DLPack has them.
DLDataType type_of(XLA_FFI_DataType type, const std::string& name) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return {kDLBool, 8, 1};
    case XLA_FFI_DataType_S8:
      return {kDLInt, 8, 1};
    case XLA_FFI_DataType_S16:
      return {kDLInt, 16, 1};
    case XLA_FFI_DataType_S32:
      return {kDLInt, 32, 1};
    case XLA_FFI_DataType_S64:
      return {kDLInt, 64, 1};
    case XLA_FFI_DataType_U8:
      return {kDLUInt, 8, 1};
    case XLA_FFI_DataType_U16:
      return {kDLUInt, 16, 1};
    case XLA_FFI_DataType_U32:
      return {kDLUInt, 32, 1};
    case XLA_FFI_DataType_U64:
      return {kDLUInt, 64, 1};
    case XLA_FFI_DataType_F16:
      return {kDLFloat, 16, 1};
    case XLA_FFI_DataType_F32:
      return {kDLFloat, 32, 1};
    case XLA_FFI_DataType_F64:
      return {kDLFloat, 64, 1};
    case XLA_FFI_DataType_BF16:
      return {kDLBfloat, 16, 1};
    case XLA_FFI_DataType_F8E4M3FN:
      return {kDLFloat8_e4m3fn, 8, 1};
    case XLA_FFI_DataType_F8E5M2:
      return {kDLFloat8_e5m2, 8, 1};
    case XLA_FFI_DataType_F8E8M0FNU:
      return {kDLFloat8_e8m0fnu, 8, 1};
    default:
      refuse(name + ": quern has no elements of XLA's type " + std::to_string(type));
  }
}

// What XLA itself failed at, handed back to it as it is.
struct XlaFailed {
  XLA_FFI_Error* error;
};
void check_xla(XLA_FFI_Error* error) {
  if (error != nullptr) throw XlaFailed{error};
}

// What a call frame's functions of XLA do here.
class Xla {
 public:
  explicit Xla(const XLA_FFI_CallFrame& frame) : api_(*frame.api), context_(frame.ctx) {}

  [[nodiscard]] void* stream() const {
    XLA_FFI_Stream_Get_Args asked = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, context_, nullptr};
    check_xla(api_.XLA_FFI_Stream_Get(&asked));
    return asked.stream;
  }
  [[nodiscard]] std::int32_t ordinal() const {
    XLA_FFI_DeviceOrdinal_Get_Args asked = {XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, nullptr, context_, 0};
    check_xla(api_.XLA_FFI_DeviceOrdinal_Get(&asked));
    return asked.device_ordinal;
  }
  // Memory that is XLA's again when the call is over, in the order of its stream.
  [[nodiscard]] void* scratch(std::size_t bytes) const {
    XLA_FFI_DeviceMemory_Allocate_Args asked = {
        XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE, nullptr, context_, bytes, 1, nullptr};
    check_xla(api_.XLA_FFI_DeviceMemory_Allocate(&asked));
    return asked.data;
  }
  // A failure is left: the call's own result says more.
  void free_scratch(void* memory, std::size_t bytes) const {
    XLA_FFI_DeviceMemory_Free_Args asked = {XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE, nullptr, context_, bytes,
                                            memory};
    if (XLA_FFI_Error* error = api_.XLA_FFI_DeviceMemory_Free(&asked)) {
      XLA_FFI_Error_Destroy_Args destroyed = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
      api_.XLA_FFI_Error_Destroy(&destroyed);
    }
  }
  [[nodiscard]] XLA_FFI_Error* error(XLA_FFI_Error_Code code, const std::string& text) const {
    XLA_FFI_Error_Create_Args asked = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, text.c_str(), code};
    return api_.XLA_FFI_Error_Create(&asked);
  }

 private:
  const XLA_FFI_Api& api_;
  XLA_FFI_ExecutionContext* context_;
};

// Scratch memory for as long as this lives.
class Scratch {
 public:
  Scratch(const Xla& xla, std::size_t bytes) : xla_(xla), bytes_(bytes), memory_(xla.scratch(bytes)) {}
  ~Scratch() { xla_.free_scratch(memory_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] void* memory() const { return memory_; }

 private:
  const Xla& xla_;
  std::size_t bytes_;
  void* memory_;
};

constexpr std::size_t kWorkspaceAlignment = 256;

std::string text_of(const XLA_FFI_ByteSpan& span) { return {span.ptr, span.len}; }

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < names.size();) {
    const std::size_t end = std::min(names.find(',', start), names.size());
    parts.push_back(names.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

template <typename Value>
Value read(const void* memory) {
  Value value;
  std::memcpy(&value, memory, sizeof value);
  return value;
}

// A whole number or a truth value among an attribute's numbers; false where it is none.
bool integer_of(XLA_FFI_DataType type, const void* value, std::int64_t& made) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      made = read<std::uint8_t>(value) != 0 ? 1 : 0;
      return true;
    case XLA_FFI_DataType_S32:
      made = read<std::int32_t>(value);
      return true;
    case XLA_FFI_DataType_U32:
      made = read<std::uint32_t>(value);
      return true;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
      made = read<std::int64_t>(value);
      return true;
    default:
      return false;
  }
}

class Call {
 public:
  Call(const Op& op, std::int32_t device_type, const XLA_FFI_CallFrame& frame) : xla_(frame), arguments_(op) {
    device_ = {device_type, device_type == kDLCPU ? 0 : xla_.ordinal()};
    context_ = context_of(device_);
    if (device_type != kDLCPU) arguments_.common().stream = xla_.stream();
    std::vector<std::string> given, results;
    for (std::int64_t i = 0; i < frame.attrs.size; ++i) {
      const std::string name = text_of(*frame.attrs.names[i]);
      const void* value = frame.attrs.attrs[i];
      if (name == "arguments" || name == "results") {
        if (frame.attrs.types[i] != XLA_FFI_AttrType_STRING) refuse(name + ": names with commas are wanted");
        (name == "arguments" ? given : results) = split(text_of(*static_cast<const XLA_FFI_ByteSpan*>(value)));
      } else {
        put(name, frame.attrs.types[i], value);
      }
    }
    // A result of an argument's name is that argument, written in place.
    buffers("arguments", given, frame.args.size, frame.args.args);
    buffers("results", results, frame.rets.size, frame.rets.rets);
    for (auto& [name, tensors] : lists_) arguments_.tensors(arguments_.place(name), std::move(tensors));
  }

  void run() {
    std::uint64_t bytes = 0;
    quern_error error = blank();
    check(arguments_.op().workspace(context_, arguments_.get(), &bytes, &error), error);
    Common& common = arguments_.common();
    common.workspace_size = bytes;
    const bool on_host = device_.device_type == kDLCPU;
    std::optional<HostWorkspace> host;
    if (bytes != 0 && on_host) common.workspace = host.emplace(bytes).memory();
    // XLA promises no more than a few bytes of alignment.
    std::optional<Scratch> scratch;
    if (bytes != 0 && !on_host) {
      scratch.emplace(xla_, bytes + kWorkspaceAlignment);
      const auto start = reinterpret_cast<std::uintptr_t>(scratch->memory()) + kWorkspaceAlignment - 1;
      common.workspace = reinterpret_cast<void*>(start / kWorkspaceAlignment * kWorkspaceAlignment);
      zero(device_, common.stream, common.workspace, bytes);
    }
    const std::int32_t status = arguments_.op().run(context_, arguments_.get(), &error);
    if (host && status != QUERN_OK && status != QUERN_INVALID) host->drop();
    check(status, error);
  }

 private:
  void buffers(const char* what, const std::vector<std::string>& names, std::int64_t count, void** given) {
    if (static_cast<std::int64_t>(names.size()) != count) {
      refuse(std::string(what) + ": " + std::to_string(names.size()) + " names given for " + std::to_string(count) +
             " buffers");
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(given[i]);
      const DLTensor* tensor = arguments_.own(buffer.data, device_, type_of(buffer.dtype, names[i]), buffer.dims,
                                              static_cast<std::size_t>(buffer.rank));
      const Arguments::Place place = arguments_.place(names[i]);
      if (place.field->kind == kTensors) {
        lists_[names[i]].push_back(tensor);
      } else {
        arguments_.tensor(place, tensor);
      }
    }
  }

  void put(const std::string& name, XLA_FFI_AttrType type, const void* value) {
    const Arguments::Place place = arguments_.place(name);
    std::int64_t whole = 0;
    if (type == XLA_FFI_AttrType_STRING) {
      return arguments_.expression(place, context_, text_of(*static_cast<const XLA_FFI_ByteSpan*>(value)));
    }
    if (type == XLA_FFI_AttrType_SCALAR) {
      const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(value);
      if (integer_of(scalar.dtype, scalar.value, whole)) return arguments_.integer(place, whole);
      if (scalar.dtype == XLA_FFI_DataType_F32) return arguments_.number(place, read<float>(scalar.value));
      if (scalar.dtype == XLA_FFI_DataType_F64) return arguments_.number(place, read<double>(scalar.value));
    }
    if (type == XLA_FFI_AttrType_ARRAY) {
      const auto& array = *static_cast<const XLA_FFI_Array*>(value);
      const auto* numbers = static_cast<const float*>(array.data);
      if (array.dtype == XLA_FFI_DataType_F32) return arguments_.floats(place, {numbers, numbers + array.size});
    }
    refuse(name +
           ": an attribute of another kind given; allowed are int32, int64, bool, float32, float64, strings and "
           "arrays of float32");
  }

  Xla xla_;
  Arguments arguments_;
  DLDevice device_ = {};
  quern_context* context_ = nullptr;
  std::map<std::string, std::vector<const DLTensor*>> lists_;
};

XLA_FFI_Error_Code code_of(std::int32_t status) {
  switch (status) {
    case QUERN_INVALID:
      return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case QUERN_UNSUPPORTED:
      return XLA_FFI_Error_Code_UNIMPLEMENTED;
    case QUERN_NOT_FOUND:
    case QUERN_MISS:
      return XLA_FFI_Error_Code_NOT_FOUND;
    case QUERN_NO_MEMORY:
      return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    default:
      return XLA_FFI_Error_Code_INTERNAL;
  }
}

XLA_FFI_Error* handle(const char* name, std::int32_t device_type, const XLA_FFI_CallFrame& frame) {
  // XLA asks a handler once what it was made for.
  if (frame.extension_start != nullptr && frame.extension_start->type == XLA_FFI_Extension_Metadata) {
    auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame.extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return nullptr;
  }
  try {
    for (const Op& op : ops()) {
      if (std::strcmp(op.name, name) == 0) Call(op, device_type, frame).run();
    }
    return nullptr;
  } catch (const XlaFailed& failed) {
    return failed.error;
  } catch (const Refused& refused) {
    return Xla(frame).error(code_of(refused.status),
                            std::string(quern_status_name(refused.status)) + ": " + refused.what());
  } catch (const std::exception& error) {
    return Xla(frame).error(XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}

}  // namespace

#define QUERN_HANDLER(platform, op, device)                                                                            \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* quern_##platform##_##op(XLA_FFI_CallFrame* frame) { \
    return handle(#op, device, *frame);                                                                                \
  }
#define QUERN_OP(op)               \
  QUERN_HANDLER(cpu, op, kDLCPU)   \
  QUERN_HANDLER(cuda, op, kDLCUDA) \
  QUERN_HANDLER(rocm, op, kDLROCM)
#define QUERN_FIELD(type, field, name, kind)
#define QUERN_LIST(type, field, name, kind, count)
#define QUERN_PART(type, field, part)
#define QUERN_END()
#include "ops.inc"
