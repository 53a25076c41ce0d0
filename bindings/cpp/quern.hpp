// quern for C++20: contexts that close themselves, results that hold a value or an error, tensors over spans and over
// whatever speaks DLPack. Everything is quern.h's, which documents it; nothing here has to be linked but libquern.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <quern_ops.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace quern {

// ---- Results --------------------------------------------------------------------------------------------------------

// What went wrong: the text names the argument, what was given, what is allowed.
struct Error {
  quern_status status = QUERN_OK;
  std::int64_t native = 0;  // the driver's, compiler's or system's own code, 0 if none
  std::string text;
};

// What value() of a failed Result throws; nothing else here throws but for memory, and Tensor for a span that is short.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error)
      : std::runtime_error(std::string(quern_status_name(error.status)) + ": " + error.text),
        error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

// A value or an Error, as C++23's std::expected has them.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool has_value() const noexcept { return held_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] const Error& error() const { return std::get<1>(held_); }

  T& value() & { return has_value() ? *std::get_if<0>(&held_) : throw Failure(error()); }
  T&& value() && { return std::move(value()); }
  [[nodiscard]] const T& value() const& { return has_value() ? *std::get_if<0>(&held_) : throw Failure(error()); }
  T& operator*() & noexcept { return *std::get_if<0>(&held_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&held_)); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&held_); }
  T* operator->() noexcept { return std::get_if<0>(&held_); }
  const T* operator->() const noexcept { return std::get_if<0>(&held_); }
  template <typename Other>
  [[nodiscard]] T value_or(Other&& other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<Other>(other));
  }

  // What `next` makes of the value, itself a Result; or this error.
  template <typename Next>
  auto and_then(Next&& next) && -> std::invoke_result_t<Next, T> {
    if (!has_value()) return error();
    return std::forward<Next>(next)(std::move(**this));
  }

 private:
  std::variant<T, Error> held_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  [[nodiscard]] bool has_value() const noexcept { return error_ == nullptr; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] const Error& error() const { return error_ != nullptr ? *error_ : throw std::bad_variant_access(); }
  void value() const {
    if (!has_value()) throw Failure(error());
  }
  template <typename Next>
  auto and_then(Next&& next) && -> std::invoke_result_t<Next> {
    if (!has_value()) return error();
    return std::forward<Next>(next)();
  }

 private:
  std::unique_ptr<Error> error_;
};

// The Error of a call of quern.h: `call` takes the quern_error.
template <typename Call>
Result<void> checked(Call&& call) {
  quern_error error;
  error.size = sizeof error;
  error.native = 0;
  error.text[0] = '\0';
  const std::int32_t status = call(&error);
  if (status == QUERN_OK) return {};
  return Error{static_cast<quern_status>(status), error.native, error.text};
}

// A struct of quern.h's, zeroed, that knows its size.
template <typename Struct>
[[nodiscard]] Struct sized() {
  Struct made;
  std::memset(&made, 0, sizeof made);
  made.size = static_cast<std::uint32_t>(sizeof made);
  return made;
}

// ---- Tensors --------------------------------------------------------------------------------------------------------

// Elements that C++ has no type for: the bits of one.
struct bfloat16_bits {
  std::uint16_t bits;
};
struct float16_bits {
  std::uint16_t bits;
};
struct e4m3_bits {
  std::uint8_t bits;
};
struct e5m2_bits {
  std::uint8_t bits;
};

// DLPack's name for an element type. Specialise it for a type of your own, __nv_bfloat16 say.
template <typename T>
struct Element;
#define QUERN_ELEMENT(type, code, bits)                  \
  template <>                                            \
  struct Element<type> {                                 \
    static constexpr DLDataType value = {code, bits, 1}; \
  }
QUERN_ELEMENT(float, kDLFloat, 32);
QUERN_ELEMENT(double, kDLFloat, 64);
QUERN_ELEMENT(std::int8_t, kDLInt, 8);
QUERN_ELEMENT(std::int16_t, kDLInt, 16);
QUERN_ELEMENT(std::int32_t, kDLInt, 32);
QUERN_ELEMENT(std::int64_t, kDLInt, 64);
QUERN_ELEMENT(std::uint8_t, kDLUInt, 8);
QUERN_ELEMENT(std::uint16_t, kDLUInt, 16);
QUERN_ELEMENT(std::uint32_t, kDLUInt, 32);
QUERN_ELEMENT(std::uint64_t, kDLUInt, 64);
QUERN_ELEMENT(bfloat16_bits, kDLBfloat, 16);
QUERN_ELEMENT(float16_bits, kDLFloat, 16);
QUERN_ELEMENT(e4m3_bits, kDLFloat8_e4m3fn, 8);
QUERN_ELEMENT(e5m2_bits, kDLFloat8_e5m2, 8);
#undef QUERN_ELEMENT

inline constexpr DLDevice kHost = {kDLCPU, 0};

// A view of memory with a shape, given wherever quern.h takes a `const DLTensor *`. It borrows the memory, unless it
// was made of a DLPack owner.
class Tensor {
 public:
  static constexpr std::size_t kMaxDimensions = 8;
  using Extents = std::span<const std::int64_t>;

  // Over a span, which must hold every element that shape and strides (in elements; none: compact row-major) reach:
  // std::length_error else. `device` where the span is not the CPU's to read.
  template <typename T>
  Tensor(std::span<T> memory, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> strides = {}, DLDevice device = kHost)
      : Tensor(const_cast<std::remove_const_t<T>*>(memory.data()), Element<std::remove_const_t<T>>::value,
               Extents(shape.begin(), shape.size()), Extents(strides.begin(), strides.size()), device) {
    if (last() >= static_cast<std::int64_t>(memory.size())) {
      throw std::length_error("quern::Tensor: a span of " + std::to_string(memory.size()) +
                              " elements for a shape that " + "reaches element " + std::to_string(last()));
    }
  }
  template <typename T, typename Allocator>
  Tensor(std::vector<T, Allocator>& memory, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> strides = {})
      : Tensor(std::span<T>(memory), shape, strides) {}
  template <typename T, typename Allocator>
  Tensor(const std::vector<T, Allocator>& memory, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> strides = {})
      : Tensor(std::span<const T>(memory), shape, strides) {}

  // Over an address, of the device's memory say; NULL for prepare and workspace.
  Tensor(void* data, DLDataType dtype, Extents shape, Extents strides, DLDevice device) {
    if (shape.size() > kMaxDimensions || (!strides.empty() && strides.size() != shape.size())) {
      throw std::length_error("quern::Tensor: " + std::to_string(shape.size()) + " extents and " +
                              std::to_string(strides.size()) + " strides; allowed are up to 8, of each as many");
    }
    tensor_ = {data, device, static_cast<std::int32_t>(shape.size()), dtype, nullptr, nullptr, 0};
    std::copy(shape.begin(), shape.end(), extents_.begin());
    std::copy(strides.begin(), strides.end(), extents_.begin() + kMaxDimensions);
    has_strides_ = !strides.empty();
    refer();
  }
  Tensor(void* data, DLDataType dtype, std::initializer_list<std::int64_t> shape, DLDevice device = kHost)
      : Tensor(data, dtype, Extents(shape.begin(), shape.size()), {}, device) {}

  // Over what another library's tensor says, which lives longer than this.
  explicit Tensor(const DLTensor& other)
      : Tensor(other.data, other.dtype, Extents(other.shape, static_cast<std::size_t>(other.ndim)),
               other.strides == nullptr ? Extents() : Extents(other.strides, static_cast<std::size_t>(other.ndim)),
               other.device) {
    tensor_.byte_offset = other.byte_offset;
  }
#ifndef QUERN_DLPACK_TENSOR_ONLY
  // Takes a DLPack owner: its deleter runs when the last copy of this tensor is gone.
  explicit Tensor(DLManagedTensorVersioned* owner) : Tensor(owner->dl_tensor) { keep(owner); }
  explicit Tensor(DLManagedTensor* owner) : Tensor(owner->dl_tensor) { keep(owner); }
#endif

  Tensor(const Tensor& other) { *this = other; }
  Tensor& operator=(const Tensor& other) {
    tensor_ = other.tensor_;
    extents_ = other.extents_;
    has_strides_ = other.has_strides_;
    owner_ = other.owner_;
    refer();
    return *this;
  }
  ~Tensor() = default;

  // The same memory taken as other elements of the same width: bytes as e4m3.
  template <typename T>
  [[nodiscard]] Tensor as() const {
    if (Element<T>::value.bits != tensor_.dtype.bits)
      throw std::length_error("quern::Tensor: elements of another width");
    Tensor made = *this;
    made.tensor_.dtype = Element<T>::value;
    return made;
  }

  [[nodiscard]] const DLTensor& dl() const noexcept { return tensor_; }
  operator const DLTensor*() const noexcept { return &tensor_; }
  [[nodiscard]] void* data() const noexcept { return static_cast<std::byte*>(tensor_.data) + tensor_.byte_offset; }
  [[nodiscard]] Extents shape() const noexcept { return {extents_.data(), static_cast<std::size_t>(tensor_.ndim)}; }

 private:
  void refer() {
    tensor_.shape = extents_.data();
    tensor_.strides = has_strides_ ? extents_.data() + kMaxDimensions : nullptr;
  }

  template <typename Managed>
  void keep(Managed* owner) {
    owner_ = std::shared_ptr<Managed>(owner, [](Managed* one) {
      if (one->deleter != nullptr) one->deleter(one);
    });
  }

  // The index of the last element that the extents reach; -1: none.
  [[nodiscard]] std::int64_t last() const {
    std::int64_t reached = 0, compact = 1;
    for (std::size_t i = static_cast<std::size_t>(tensor_.ndim); i-- > 0;) {
      if (extents_[i] <= 0) return -1;
      const std::int64_t stride = has_strides_ ? extents_[kMaxDimensions + i] : compact;
      if (stride > 0) reached += (extents_[i] - 1) * stride;
      compact *= extents_[i];
    }
    return reached;
  }

  DLTensor tensor_ = {};
  std::array<std::int64_t, 2 * kMaxDimensions> extents_ = {};
  bool has_strides_ = false;
  std::shared_ptr<void> owner_;
};

// Zeroed memory of the CPU for the ops on `host`, aligned and grown as they ask. On a GPU it is the caller's
// allocator's.
class HostWorkspace {
 public:
  // At least so many bytes, which one call in flight may use at a time.
  std::span<std::byte> reserve(std::uint64_t bytes) {
    if (bytes > memory_.size()) {
      memory_ = {};
      memory_ = std::vector<Line>((bytes + sizeof(Line) - 1) / sizeof(Line));
    }
    return {memory_.data()->bytes, memory_.size() * sizeof(Line)};
  }

 private:
  struct alignas(256) Line {
    std::byte bytes[256] = {};
  };
  std::vector<Line> memory_;
};

// ---- Contexts -------------------------------------------------------------------------------------------------------

// What an op is given: Gemm, Attention and the others of quern_ops.hpp.
template <typename Op>
concept OpCall = requires { typename Op::Args; } && sizeof(Op) == sizeof(typename Op::Args);

// One device, its kernels and its cache; closed when it goes out of scope. Safe to use from several threads.
class Context {
 public:
  // Options as in quern.h, from sized<quern_context_options>().
  static Result<Context> open(const quern_context_options& options) {
    quern_context* made = nullptr;
    auto outcome = checked([&](quern_error* error) { return quern_context_create(&options, &made, error); });
    if (!outcome) return outcome.error();
    return Context(made);
  }
  static Result<Context> cuda(std::int32_t ordinal = 0) {
    auto options = sized<quern_context_options>();
    options.device_type = kDLCUDA;
    options.device_id = ordinal;
    return open(options);
  }
  // The kernels on the CPU: for tests and development.
  static Result<Context> host() {
    auto options = sized<quern_context_options>();
    options.device_type = kDLCPU;
    return open(options);
  }

  [[nodiscard]] quern_context* get() const noexcept { return handle_.get(); }

  // The three calls of an op, by what it is given: `context.run(quern::Gemm{.a = a, .b = b, .out = out})`. An op that
  // needs a workspace has it among its arguments, or takes a HostWorkspace.
  template <OpCall Op>
  Result<void> run(const Op& op) const {
    const auto args = std::bit_cast<typename Op::Args>(op);
    return checked([&](quern_error* error) { return Op::kRun(get(), &args, error); });
  }
  template <OpCall Op>
  Result<void> run(Op op, HostWorkspace& memory) const {
    auto bytes = workspace(op);
    if (!bytes) return bytes.error();
    if (*bytes > 0) {
      const std::span<std::byte> reserved = memory.reserve(*bytes);
      op.workspace = reserved.data();
      op.workspace_size = reserved.size();
    }
    return run(op);
  }
  template <OpCall Op>
  Result<void> prepare(const Op& op) const {
    const auto args = std::bit_cast<typename Op::Args>(op);
    return checked([&](quern_error* error) { return Op::kPrepare(get(), &args, error); });
  }
  template <OpCall Op>
  [[nodiscard]] Result<std::uint64_t> workspace(const Op& op) const {
    const auto args = std::bit_cast<typename Op::Args>(op);
    std::uint64_t bytes = 0;
    auto outcome = checked([&](quern_error* error) { return Op::kWorkspace(get(), &args, &bytes, error); });
    if (!outcome) return outcome.error();
    return bytes;
  }

  [[nodiscard]] Result<quern_device_info> device() const {
    return filled<quern_device_info>([&](auto* info, quern_error* error) { return quern_device(get(), info, error); });
  }
  [[nodiscard]] Result<quern_stats> stats() const {
    return filled<quern_stats>([&](auto* stats, quern_error* error) { return quern_get_stats(get(), stats, error); });
  }

  // A formula for `expression` of an epilogue; it lives as long as the context.
  [[nodiscard]] Result<const quern_expression*> expression(const std::string& text) const {
    const quern_expression* made = nullptr;
    auto outcome =
        checked([&](quern_error* error) { return quern_expression_create(get(), text.c_str(), &made, error); });
    if (!outcome) return outcome.error();
    return made;
  }

  // Everything that this context has specialised, as `quern warm` reads it.
  [[nodiscard]] Result<std::string> manifest() const {
    std::string text;
    for (std::uint64_t length = 0;; text.resize(length + 1)) {
      length = text.size();
      auto outcome = checked([&](quern_error* error) { return quern_manifest(get(), text.data(), &length, error); });
      if (!outcome) return outcome.error();
      if (length < text.size()) {
        text.resize(length);
        return text;
      }
    }
  }

 private:
  struct Close {
    void operator()(quern_context* context) const noexcept { quern_context_destroy(context); }
  };

  explicit Context(quern_context* made) : handle_(made) {}

  template <typename Struct, typename Call>
  static Result<Struct> filled(Call&& call) {
    auto made = sized<Struct>();
    auto outcome = checked([&](quern_error* error) { return call(&made, error); });
    if (!outcome) return outcome.error();
    return made;
  }

  std::unique_ptr<quern_context, Close> handle_;
};

}  // namespace quern
