// quern's ops as TVM-FFI functions: a module that tvm_ffi.load_module opens, with OP, OP_prepare and OP_workspace for
// every op. Arguments come as names and values in turn, since functions of TVM-FFI have no keywords:
//   module.gemm("a", a, "b", b, "out", out)
// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstring>
#include <exception>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define QUERN_DLPACK_TENSOR_ONLY
#include "described.h"
#include "places.h"

namespace {

using namespace quern::described;

[[noreturn]] void refuse(const std::string& text) { throw Refused(QUERN_INVALID, text); }

// What lies behind the header of an object.
template <typename Cell>
const Cell* cell_of(const TVMFFIAny& value) {
  return reinterpret_cast<const Cell*>(reinterpret_cast<const char*>(value.v_obj) + sizeof(TVMFFIObject));
}

std::optional<std::string_view> text_of(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFIRawStr:
      return std::string_view(value.v_c_str);
    case kTVMFFISmallStr:
      return std::string_view(value.v_bytes, value.small_str_len);
    case kTVMFFIStr:
      return std::string_view(cell_of<TVMFFIByteArray>(value)->data, cell_of<TVMFFIByteArray>(value)->size);
    default:
      return std::nullopt;
  }
}

const DLTensor* tensor_of(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
  return value.type_index == kTVMFFITensor ? cell_of<DLTensor>(value) : nullptr;
}

// A list's elements; none where it is no list.
std::optional<std::pair<const TVMFFIAny*, std::size_t>> list_of(const TVMFFIAny& value) {
  if (value.type_index != kTVMFFIArray && value.type_index != kTVMFFIList) return std::nullopt;
  const auto* cell = cell_of<TVMFFISeqCell>(value);
  return std::pair(static_cast<const TVMFFIAny*>(cell->data), static_cast<std::size_t>(cell->size));
}

// A tensor that TVM-FFI counts.
class Held {
 public:
  Held() = default;
  explicit Held(TVMFFIObjectHandle handle) : handle_(handle) {}
  Held(const Held& other) : handle_(other.handle_) {
    if (handle_ != nullptr) TVMFFIObjectIncRef(handle_);
  }
  Held(Held&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Held& operator=(Held other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Held() {
    if (handle_ != nullptr) TVMFFIObjectDecRef(handle_);
  }
  [[nodiscard]] const DLTensor* tensor() const {
    return reinterpret_cast<const DLTensor*>(static_cast<const char*>(handle_) + sizeof(TVMFFIObject));
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return handle_ == nullptr ? 0 : static_cast<std::uint64_t>(tensor()->shape[0]);
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  TVMFFIObjectHandle handle_ = nullptr;
};

// Workspaces of GPUs, each for one device and stream, for all threads. A call takes one out while it launches, since
// it may launch several kernels one behind the other; what is launched afterwards comes, in the stream's order, behind
// them. Those that were used longest ago go first.
class Workspaces {
 public:
  static Workspaces& all() {
    // Never destroyed: the framework that the memory belongs to may be gone by then.
    static auto* made = new Workspaces;
    return *made;
  }
  // One of the stream's, empty where there is none of so many bytes; smaller ones are given up.
  Held take(DLDevice device, void* stream, std::uint64_t bytes) {
    std::list<Kept> gone;  // freed behind the lock: the framework may call back
    const std::lock_guard lock(mutex_);
    for (auto at = kept_.begin(); at != kept_.end();) {
      const auto next = std::next(at);
      if (at->is_of(device, stream)) {
        Held memory = at->memory;
        gone.splice(gone.begin(), kept_, at);
        if (memory.bytes() >= bytes) return memory;
      }
      at = next;
    }
    return {};
  }
  void keep(DLDevice device, void* stream, const Held& memory) {
    std::list<Kept> gone;
    const std::lock_guard lock(mutex_);
    if (kept_.size() == kMost) gone.splice(gone.begin(), kept_, std::prev(kept_.end()));
    kept_.push_front({device, stream, memory});
  }

 private:
  static constexpr std::size_t kMost = 32;
  struct Kept {
    DLDevice device;
    void* stream;
    Held memory;
    [[nodiscard]] bool is_of(DLDevice other, void* on) const {
      return device.device_type == other.device_type && device.device_id == other.device_id && stream == on;
    }
  };

  std::mutex mutex_;
  std::list<Kept> kept_;  // of calls that are over; what was used last in front
};

// One call's arguments as they came, and what they say of where it goes.
class Call {
 public:
  Call(const Op& op, const TVMFFIAny* given, std::int32_t count) : arguments_(op) {
    if (count % 2 != 0)
      refuse(std::string(op.name) + ": arguments are names and values in turn, the last has no value");
    for (std::int32_t i = 1; i < count && device_.device_type == 0; i += 2) find_device(given[i]);
    if (device_.device_type == 0) refuse(std::string(op.name) + ": no tensor is given");
    context_ = context_of(device_);
    if (device_.device_type != kDLCPU) {
      arguments_.common().stream = TVMFFIEnvGetStream(device_.device_type, device_.device_id);
    }
    for (std::int32_t i = 0; i < count; i += 2) put(given[i], given[i + 1]);
    if (device_.device_type == kDLCPU && arguments_.common().stream != nullptr) {
      refuse("stream: a handle given; tensors of the host have no streams, allowed is none");
    }
  }

  void run() {
    if (arguments_.common().workspace == nullptr) find_workspace();
    quern_error error = blank();
    const std::int32_t status = arguments_.op().run(context_, arguments_.get(), &error);
    const bool untouched =
        status == QUERN_OK || status == QUERN_MISS || status == QUERN_PENDING || status == QUERN_INVALID;
    if (untouched && workspace_ && !capturing_) Workspaces::all().keep(device_, arguments_.common().stream, workspace_);
    if (!untouched && host_) host_->drop();
    check(status, error);
  }
  void prepare() const {
    quern_error error = blank();
    check(arguments_.op().prepare(context_, arguments_.get(), &error), error);
  }
  [[nodiscard]] std::uint64_t workspace() const {
    std::uint64_t bytes = 0;
    quern_error error = blank();
    check(arguments_.op().workspace(context_, arguments_.get(), &bytes, &error), error);
    return bytes;
  }

 private:
  void find_device(const TVMFFIAny& value) {
    if (const DLTensor* tensor = tensor_of(value)) device_ = {tensor->device.device_type, tensor->device.device_id};
    if (const auto list = list_of(value); list && list->second > 0) find_device(list->first[0]);
  }

  void put(const TVMFFIAny& given_name, const TVMFFIAny& value) {
    const auto name = text_of(given_name);
    if (!name) refuse(std::string(arguments_.op().name) + ": arguments are names and values in turn");
    if (value.type_index == kTVMFFINone) return;
    if (*name == "stream") {
      if (value.type_index != kTVMFFIInt && value.type_index != kTVMFFIOpaquePtr) refuse("stream: a handle is wanted");
      arguments_.common().stream = value.v_ptr;
      return;
    }
    if (*name == "workspace") {
      const DLTensor* memory = tensor_of(value);
      if (memory == nullptr || memory->ndim != 1 || memory->dtype.bits != 8) refuse("workspace: bytes are wanted");
      arguments_.common().workspace = static_cast<std::byte*>(memory->data) + memory->byte_offset;
      arguments_.common().workspace_size = static_cast<std::uint64_t>(memory->shape[0]);
      return;
    }
    store(arguments_.place(*name), value);
  }

  void store(const Arguments::Place& place, const TVMFFIAny& value) {
    if (const DLTensor* tensor = tensor_of(value)) return arguments_.tensor(place, tensor);
    if (const auto text = text_of(value)) return arguments_.expression(place, context_, std::string(*text));
    if (value.type_index == kTVMFFIInt || value.type_index == kTVMFFIBool)
      return arguments_.integer(place, value.v_int64);
    if (value.type_index == kTVMFFIFloat) return arguments_.number(place, value.v_float64);
    if (const auto list = list_of(value)) {
      if (place.field->kind == kFloats) {
        std::vector<float> numbers;
        for (std::size_t i = 0; i < list->second; ++i) {
          const TVMFFIAny& item = list->first[i];
          if (item.type_index != kTVMFFIFloat && item.type_index != kTVMFFIInt) {
            refuse(std::string(place.field->name) + ": numbers are wanted");
          }
          numbers.push_back(item.type_index == kTVMFFIInt ? static_cast<float>(item.v_int64)
                                                          : static_cast<float>(item.v_float64));
        }
        return arguments_.floats(place, std::move(numbers));
      }
      std::vector<const DLTensor*> tensors;
      for (std::size_t i = 0; i < list->second; ++i) {
        tensors.push_back(tensor_of(list->first[i]));
        if (tensors.back() == nullptr && list->first[i].type_index != kTVMFFINone) {
          refuse(std::string(place.field->name) + ": tensors are wanted");
        }
      }
      return arguments_.tensors(place, std::move(tensors));
    }
    refuse(std::string(place.field->name) + ": a value of TVM-FFI's type " + std::to_string(value.type_index) +
           " given; allowed are tensors, numbers, strings and lists of these");
  }

  void find_workspace() {
    const std::uint64_t bytes = workspace();
    if (bytes == 0) return;
    Common& common = arguments_.common();
    common.workspace_size = bytes;
    if (device_.device_type == kDLCPU) {
      common.workspace = host_.emplace(bytes).memory();
      return;
    }
    // Into a graph goes one of its own, which is zeroed in it: the framework keeps a graph's memory for it.
    capturing_ = is_capturing(device_, common.stream);
    if (!capturing_) workspace_ = Workspaces::all().take(device_, common.stream, bytes);
    if (!workspace_) {
      // The framework's memory is in the order of its own stream.
      if (common.stream != TVMFFIEnvGetStream(device_.device_type, device_.device_id)) {
        refuse("workspace: none given for a stream of the call's own; allowed is one of " + std::to_string(bytes) +
               " bytes (uint8, zeroed once, 256-byte aligned)");
      }
      workspace_ = Held(allocate(bytes));
      zero(device_, common.stream, workspace_.tensor()->data, bytes);
    }
    common.workspace = workspace_.tensor()->data;
    common.workspace_size = workspace_.bytes();
  }

  // From the framework whose tensors this call was given.
  [[nodiscard]] TVMFFIObjectHandle allocate(std::uint64_t bytes) const {
    auto extent = static_cast<std::int64_t>(bytes);
    DLTensor wanted = {};
    wanted.device = {static_cast<DLDeviceType>(device_.device_type), device_.device_id};
    wanted.ndim = 1;
    wanted.dtype = {kDLUInt, 8, 1};
    wanted.shape = &extent;
    TVMFFIObjectHandle made = nullptr;
    if (TVMFFIEnvTensorAlloc(&wanted, &made) != 0) {
      TVMFFIObjectHandle raised = nullptr;
      TVMFFIErrorMoveFromRaised(&raised);
      if (raised != nullptr) TVMFFIObjectDecRef(raised);
      throw Refused(QUERN_NO_MEMORY, "workspace: the framework gave no " + std::to_string(bytes) +
                                         " bytes; give one (uint8, zeroed once, 256-byte aligned)");
    }
    return made;
  }

  Arguments arguments_;
  DLDevice device_ = {};
  quern_context* context_ = nullptr;
  Held workspace_;
  bool capturing_ = false;
  std::optional<HostWorkspace> host_;
};

const Op& op_named(const char* name) {
  for (const Op& op : ops()) {
    if (std::strcmp(op.name, name) == 0) return op;
  }
  refuse(name);
}

// What TVM-FFI's languages make their own exceptions of.
const char* kind_of(std::int32_t status) {
  switch (status) {
    case QUERN_INVALID:
      return "ValueError";
    case QUERN_UNSUPPORTED:
      return "NotImplementedError";
    case QUERN_NO_MEMORY:
      return "MemoryError";
    default:
      return "RuntimeError";
  }
}

template <typename Body>
int guarded(Body body) {
  try {
    body();
    return 0;
  } catch (const Refused& refused) {
    const std::string said = std::string(quern_status_name(refused.status)) + ": " + refused.what();
    TVMFFIErrorSetRaisedFromCStr(kind_of(refused.status), said.c_str());
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
  }
  return -1;
}

void give(TVMFFIAny* result, std::int64_t value) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = value;
}

}  // namespace

#define QUERN_EXPORT(name)                                                                              \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##name(void*, const TVMFFIAny* given, \
                                                                         std::int32_t count, TVMFFIAny* result)
#define QUERN_OP(op)                                                                                       \
  QUERN_EXPORT(op) {                                                                                       \
    (void)result;                                                                                          \
    static const Op& kOp = op_named(#op);                                                                  \
    return guarded([&] { Call(kOp, given, count).run(); });                                                \
  }                                                                                                        \
  QUERN_EXPORT(op##_prepare) {                                                                             \
    (void)result;                                                                                          \
    static const Op& kOp = op_named(#op);                                                                  \
    return guarded([&] { Call(kOp, given, count).prepare(); });                                            \
  }                                                                                                        \
  QUERN_EXPORT(op##_workspace) {                                                                           \
    static const Op& kOp = op_named(#op);                                                                  \
    return guarded([&] { give(result, static_cast<std::int64_t>(Call(kOp, given, count).workspace())); }); \
  }
#define QUERN_FIELD(type, field, name, kind)
#define QUERN_LIST(type, field, name, kind, count)
#define QUERN_PART(type, field, part)
#define QUERN_END()
#include "ops.inc"

// constant(name): the number of a macro or enumerator of quern.h, for flags and kinds.
QUERN_EXPORT(constant) {
  return guarded([&] {
    const auto name = count == 1 ? text_of(given[0]) : std::nullopt;
    if (!name) refuse("constant: one name is wanted");
    for (const Constant& one : constants()) {
      if (*name == one.name) return give(result, one.value);
    }
    refuse("constant: quern.h has no '" + std::string(*name) + "'");
  });
}

// use_context(device type, ordinal, address): has calls on this device go to this quern_context, which stays the
// caller's.
QUERN_EXPORT(use_context) {
  (void)result;
  return guarded([&] {
    for (std::int32_t i = 0; i < 3; ++i) {
      if (count != 3 || given[i].type_index != kTVMFFIInt) refuse("use_context: three integers are wanted");
    }
    use_context(
        {static_cast<decltype(DLDevice::device_type)>(given[0].v_int64), static_cast<std::int32_t>(given[1].v_int64)},
        reinterpret_cast<quern_context*>(given[2].v_int64));
  });
}
