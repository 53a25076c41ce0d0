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
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <quern_ops.hpp>
#include <quern_records.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
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

// ---- Between C++ and the structs of quern.h that are no op's --------------------------------------------------------

// What a context calls until it is closed. What one throws ends the program: it would leave the library's locks held.
struct Callbacks {
  std::function<void(std::int32_t, std::string_view)> log;
  std::function<void(const Event&)> event;
};

// What the structs of one call point to.
class Held {
 public:
  explicit Held(Callbacks* callbacks = nullptr) : callbacks_(callbacks) {}

  // nullptr where it is empty.
  const char* text(const std::string& argument, const std::string& value) {
    if (const std::size_t nul = value.find('\0'); nul != std::string::npos && wrong_.text.empty()) {
      const std::string found = argument + ": a NUL given at byte " + std::to_string(nul);
      wrong_ = {QUERN_INVALID, 0, found + "; allowed is text without one"};
    }
    return value.empty() ? nullptr : value.c_str();
  }
  const char* const* texts(const std::string& argument, const std::vector<std::string>& values) {
    std::vector<const char*>& made = lists_.emplace_back();
    for (const std::string& value : values) made.push_back(text(argument, value));
    return made.data();
  }
  template <typename Struct>
  const Struct* keep(const Struct& value) {
    const auto made = std::make_shared<Struct>(value);
    structs_.push_back(made);
    return made.get();
  }
  template <typename Told>
  void log(const Told& told, quern_log_callback& callback, void*& user) {
    callbacks_->log = told;
    callback = [](void* to, std::int32_t level, const char* line) noexcept {
      static_cast<Callbacks*>(to)->log(level, line);
    };
    user = callbacks_;
  }
  template <typename Told>
  void event(const Told& told, quern_event_callback& callback, void*& user) {
    callbacks_->event = told;
    callback = [](void* to, const quern_event* event) noexcept {
      static_cast<Callbacks*>(to)->event(Event::of(*event));
    };
    user = callbacks_;
  }
  // What it throws cancels, and goes on behind the call.
  template <typename Item>
  void progress(const std::function<bool(std::uint64_t, std::uint64_t, const Item&)>& told,
                std::int32_t (*&callback)(void*, std::uint64_t, std::uint64_t, const typename Item::Raw*),
                void*& user) {
    struct Told {
      const std::function<bool(std::uint64_t, std::uint64_t, const Item&)>& told;
      std::exception_ptr& thrown;
    };
    const auto made = std::make_shared<Told>(Told{told, thrown_});
    structs_.push_back(made);
    callback = [](void* to, std::uint64_t done, std::uint64_t total,
                  const typename Item::Raw* result) noexcept -> std::int32_t {
      const Told& self = *static_cast<Told*>(to);
      if (self.thrown != nullptr) return 1;
      try {
        return self.told(done, total, Item::of(*result)) ? 1 : 0;
      } catch (...) {
        self.thrown = std::current_exception();
        return 1;
      }
    };
    user = made.get();
  }

  // An argument that C cannot be given; no text where there is none.
  [[nodiscard]] const Error& wrong() const noexcept { return wrong_; }
  void rethrow() const {
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  }

 private:
  Callbacks* callbacks_;
  Error wrong_;
  std::exception_ptr thrown_;
  std::deque<std::vector<const char*>> lists_;
  std::vector<std::shared_ptr<void>> structs_;
};

// A pair of keys, each 64 hexadecimal digits: the secret one signs bundles, the other is for ContextOptions.
struct Keys {
  static constexpr std::size_t kBytes = 65;  // with the NUL
  std::string secret_key;
  std::string public_key;

  static Result<Keys> make() {
    std::array<char, kBytes> secret = {}, shown = {};
    auto outcome = checked([&](quern_error* error) { return quern_keys_make(secret.data(), shown.data(), error); });
    if (!outcome) return outcome.error();
    return Keys{secret.data(), shown.data()};
  }
  // The pair of a secret key.
  static Result<Keys> of(const std::string& secret_key) {
    std::array<char, kBytes> shown = {};
    auto outcome =
        checked([&](quern_error* error) { return quern_keys_public(secret_key.c_str(), shown.data(), error); });
    if (!outcome) return outcome.error();
    return Keys{secret_key, shown.data()};
  }
  // Verifies a bundle and puts a signature over all of it behind those that it has.
  [[nodiscard]] Result<void> sign(const std::string& path) const {
    return checked([&](quern_error* error) { return quern_bundle_sign(path.c_str(), secret_key.c_str(), error); });
  }
};

// A kernel of the caller's own: all of this is part of its key.
struct KernelDesc {
  struct Named {
    std::string name = {};
    std::string text = {};
  };
  std::uint32_t flags = 0;  // QUERN_CALL_CACHED_ONLY, QUERN_CALL_BACKGROUND
  std::string entry = {};
  Named source = {};                  // its name as the compiler's log has it
  std::vector<Named> headers = {};    // what the source may include; nothing else can be
  std::vector<Named> constants = {};  // become #define NAME TEXT
  std::vector<std::string> options = {};
  std::string target = {};  // "": the context's device
  std::uint32_t max_shared_bytes = 0;
};

// A kernel that is ready to launch; it lives as long as its context.
class Kernel {
 public:
  Kernel(quern_context* context, quern_kernel* made) : context_(context), made_(made) {}

  [[nodiscard]] quern_kernel* get() const noexcept { return made_; }  // nullptr: of a target that is not the device's
  [[nodiscard]] Result<KernelInfo> info() const {
    auto made = sized<quern_kernel_info>();
    auto outcome = checked([&](quern_error* error) { return quern_kernel_get_info(made_, &made, error); });
    if (!outcome) return outcome.error();
    return KernelInfo::of(made);
  }
  // `how` as in quern.h, from sized<quern_launch>(); arguments are the values of the kernel's parameters, which are not
  // checked against them: numbers, and addresses as pointers.
  template <typename... Arguments>
    requires(std::is_trivially_copyable_v<Arguments> && ...)
  [[nodiscard]] Result<void> launch(quern_launch how, Arguments... arguments) const {
    std::array<void*, sizeof...(Arguments) + 1> places = {static_cast<void*>(&arguments)..., nullptr};
    how.args = places.data();
    how.arg_count = sizeof...(Arguments);
    return checked([&](quern_error* error) { return quern_kernel_launch(context_, made_, &how, error); });
  }

 private:
  quern_context* context_;
  quern_kernel* made_;
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
  // The same by C++'s own types: open(ContextOptions{.device_type = kDLCUDA, .bundles = {"/srv/kernels.bundle"}}).
  static Result<Context> open(const ContextOptions& options) {
    Close close{std::make_unique<Callbacks>()};
    Held held(close.callbacks.get());
    const quern_context_options given = options.raw(held);
    if (!held.wrong().text.empty()) return held.wrong();
    quern_context* made = nullptr;
    auto outcome = checked([&](quern_error* error) { return quern_context_create(&given, &made, error); });
    if (!outcome) return outcome.error();
    return Context(made, std::move(close));
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

  [[nodiscard]] Result<DeviceInfo> device() const {
    return filled<DeviceInfo>([&](auto* info, quern_error* error) { return quern_device(get(), info, error); });
  }
  [[nodiscard]] Result<Stats> stats() const {
    return filled<Stats>([&](auto* stats, quern_error* error) { return quern_get_stats(get(), stats, error); });
  }
  // Where the cache is, what is in it and whether it serves.
  [[nodiscard]] Result<CacheStats> cache_stats() const {
    return filled<CacheStats>(
        [&](auto* stats, quern_error* error) { return quern_cache_get_stats(get(), stats, error); });
  }

  // Compiles and stores what of the manifest and the model is not in the cache or a bundle, without touching a device.
  // Where some failed, or progress cancelled by true, the error is QUERN_PARTIAL and `partial` gets what there is.
  Result<std::vector<WarmResult>> warm(const WarmOptions& options, std::vector<WarmResult>* partial = nullptr) const {
    return asked<WarmResult>(quern_warm, quern_list_warm_result, options, partial);
  }
  // Makes what warm makes of the context's own target, as its miss policy has it, and loads it on the device.
  Result<std::vector<WarmResult>> load(const WarmOptions& options, std::vector<WarmResult>* partial = nullptr) const {
    return asked<WarmResult>(quern_load, quern_list_warm_result, options, partial);
  }
  // Unloads the kernels of an op, or those whose key begins with prefix; "": all. None of them may be running, or be in
  // a captured graph that is launched again. Gives how many they were.
  [[nodiscard]] Result<std::uint64_t> unload(const std::string& prefix = "") const {
    return counted([&](auto* count, quern_error* error) { return quern_unload(get(), prefix.c_str(), count, error); });
  }
  // Waits until nothing is being compiled in the background, for at most so long; false where something still is.
  [[nodiscard]] Result<bool> wait(std::uint64_t milliseconds) const {
    auto outcome = checked([&](quern_error* error) { return quern_wait(get(), milliseconds, error); });
    if (!outcome && outcome.error().status != QUERN_PENDING) return outcome.error();
    return outcome.has_value();
  }
  // Drops the compilations in the background that have not begun. Gives how many they were.
  [[nodiscard]] Result<std::uint64_t> cancel() const {
    return counted([&](auto* count, quern_error* error) { return quern_cancel(get(), count, error); });
  }
  // Measures on the context's device which kernels do matrix products fastest, and keeps them in the cache.
  Result<std::vector<TuneResult>> tune(const TuneOptions& options, std::vector<TuneResult>* partial = nullptr) const {
    return asked<TuneResult>(quern_tune, quern_list_tune_result, options, partial);
  }
  // Runs every cached kernel on the context's device and holds it against the `host` target's execution. Where one
  // differs or failed, the error is QUERN_DAMAGED and `partial` gets the results.
  Result<std::vector<VerifyResult>> verify(const VerifyOptions& options,
                                           std::vector<VerifyResult>* partial = nullptr) const {
    return asked<VerifyResult>(quern_verify, quern_list_verify_result, options, partial);
  }

  // Every entry whose key begins with prefix, or whose op or target equals it; "": all.
  [[nodiscard]] Result<std::vector<Entry>> cache_list(const std::string& prefix = "") const {
    return listed<Entry>(quern_list_entry, nullptr, [&](quern_list** list, quern_error* error) {
      return quern_cache_list(get(), prefix.c_str(), list, error);
    });
  }
  // The one entry whose key begins with key (at least 4 digits), image and all.
  [[nodiscard]] Result<Entry> cache_inspect(const std::string& key) const {
    auto entries = listed<Entry>(quern_list_entry, nullptr, [&](quern_list** list, quern_error* error) {
      return quern_cache_inspect(get(), key.c_str(), list, error);
    });
    if (!entries) return entries.error();
    return std::move(entries->front());
  }
  // Reads and checks every row and bundle. Where one does not verify, the error is QUERN_DAMAGED and `partial` gets the
  // findings.
  Result<std::vector<Finding>> cache_verify(std::vector<Finding>* partial = nullptr) const {
    return found(quern_cache_verify, partial);
  }
  // What is here: drivers, devices, compilers, the helper, the cache.
  [[nodiscard]] Result<std::vector<Finding>> doctor() const { return found(quern_doctor, nullptr); }
  // Every kernel that a compiler has refused in this context and not made since, with the compiler's log.
  [[nodiscard]] Result<std::vector<Finding>> failures() const { return found(quern_failures, nullptr); }
  // What calls of a checked context found wrong in their index tensors since this was asked last.
  [[nodiscard]] Result<std::vector<Fault>> faults() const {
    return listed<Fault>(quern_list_fault, nullptr, [&](quern_list** list, quern_error* error) {
      return quern_faults(get(), list, nullptr, error);
    });
  }
  // Removes entries, least recently used first.
  Result<TrimResult> cache_trim(const TrimOptions& options = {}) const {
    Held held;
    const quern_trim_options given = options.raw(held);
    return filled<TrimResult>(
        [&](auto* result, quern_error* error) { return quern_cache_trim(get(), &given, result, error); });
  }
  // Writes the cache, or what prefix selects as in cache_list, as a bundle; the path is absolute. Gives the number of
  // entries.
  Result<std::uint64_t> cache_export(const std::string& path, const std::string& prefix = "") const {
    return counted([&](auto* count, quern_error* error) {
      return quern_cache_export(get(), path.c_str(), prefix.c_str(), count, error);
    });
  }
  // Adds a bundle's entries to the cache, all verified before the first is written. Gives how many were not there.
  Result<std::uint64_t> cache_import(const std::string& path) const {
    return counted(
        [&](auto* count, quern_error* error) { return quern_cache_import(get(), path.c_str(), count, error); });
  }

  // Readies a kernel of the caller's own.
  [[nodiscard]] Result<Kernel> kernel(const KernelDesc& desc) const {
    Held held;
    const auto source_of = [&](const KernelDesc::Named& named) {
      auto made = sized<quern_source>();
      made.name = held.text("source", named.name);
      made.text = held.text(named.name, named.text);
      return made;
    };
    std::vector<quern_source> headers;
    std::vector<quern_constant> constants;
    for (const KernelDesc::Named& header : desc.headers) headers.push_back(source_of(header));
    for (const KernelDesc::Named& constant : desc.constants) {
      auto made = sized<quern_constant>();
      made.name = held.text("constants", constant.name);
      // A constant may be empty, which is not the same as none.
      made.value = constant.text.empty() ? "" : held.text(constant.name, constant.text);
      constants.push_back(made);
    }
    const quern_source source = source_of(desc.source);
    auto given = sized<quern_kernel_desc>();
    given.flags = desc.flags;
    given.entry = held.text("entry", desc.entry);
    given.source = &source;
    given.headers = headers.data();
    given.header_count = headers.size();
    given.constants = constants.data();
    given.constant_count = constants.size();
    given.options = held.texts("options", desc.options);
    given.option_count = desc.options.size();
    given.target = held.text("target", desc.target);
    given.max_shared_bytes = desc.max_shared_bytes;
    if (!held.wrong().text.empty()) return held.wrong();
    quern_kernel* made = nullptr;
    auto outcome = checked([&](quern_error* error) { return quern_kernel_prepare(get(), &given, &made, error); });
    if (!outcome) return outcome.error();
    return Kernel(get(), made);
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
  // It has the callbacks, which the context calls until it is gone.
  struct Close {
    std::unique_ptr<Callbacks> callbacks;
    void operator()(quern_context* context) const noexcept { quern_context_destroy(context); }
  };

  explicit Context(quern_context* made, Close close = {}) : handle_(made, std::move(close)) {}

  template <typename Told, typename Call>
  static Result<Told> filled(Call&& call) {
    auto made = sized<typename Told::Raw>();
    auto outcome = checked([&](quern_error* error) { return call(&made, error); });
    if (!outcome) return outcome.error();
    return Told::of(made);
  }
  template <typename Call>
  static Result<std::uint64_t> counted(Call&& call) {
    std::uint64_t count = 0;
    auto outcome = checked([&](quern_error* error) { return call(&count, error); });
    if (!outcome) return outcome.error();
    return count;
  }
  // What a call that gives a list has put there; what there is in spite of an error goes to `partial`.
  template <typename Item, typename Get, typename Call>
  static Result<std::vector<Item>> listed(Get&& get, std::vector<Item>* partial, Call&& call) {
    struct Free {
      void operator()(quern_list* list) const noexcept { quern_list_free(list); }
    };
    quern_list* made = nullptr;
    auto outcome = checked([&](quern_error* error) { return call(&made, error); });
    const std::unique_ptr<quern_list, Free> list(made);
    std::vector<Item> items;
    for (std::uint64_t i = 0; list != nullptr && i < quern_list_count(list.get()); ++i) {
      auto item = sized<typename Item::Raw>();
      const auto read = checked([&](quern_error*) { return get(list.get(), i, &item); });
      if (!read) return read.error();
      items.push_back(Item::of(item));
    }
    if (outcome) return items;
    if (partial != nullptr) *partial = std::move(items);
    return outcome.error();
  }
  template <typename Item, typename Call, typename Get, typename Options>
  Result<std::vector<Item>> asked(Call&& call, Get&& get, const Options& options, std::vector<Item>* partial) const {
    Held held;
    const auto given = options.raw(held);
    if (!held.wrong().text.empty()) return held.wrong();
    auto outcome = listed<Item>(
        get, partial, [&](quern_list** list, quern_error* error) { return call(this->get(), &given, list, error); });
    held.rethrow();
    return outcome;
  }
  template <typename Call>
  Result<std::vector<Finding>> found(Call&& call, std::vector<Finding>* partial) const {
    return listed<Finding>(quern_list_finding, partial,
                           [&](quern_list** list, quern_error* error) { return call(get(), list, error); });
  }

  std::unique_ptr<quern_context, Close> handle_;
};

}  // namespace quern
