// The C ABI's structs but for the ops' args: options, models, kernels with their sources and constants, and the names
// by which entries are asked for. Fields of any value, sizes of any, pointers that are given or not: a call refuses
// them by name or takes them, and never says that quern has a bug. Nothing is compiled, since the contexts name a
// helper that is not there.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <type_traits>

#include "capi/quern.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

// An array and the field that counts it; arrays of structs say theirs.
struct Counted {
  std::string_view owner;
  std::size_t array, count;
};
#define COUNTED(owner, array, count) {#owner, offsetof(owner, array), offsetof(owner, count)}
constexpr Counted kCounted[] = {
    COUNTED(quern_context_options, bundles, bundle_count),
    COUNTED(quern_context_options, search_dirs, search_dir_count),
    COUNTED(quern_context_options, trusted_keys, trusted_key_count),
    COUNTED(quern_warm_options, targets, target_count),
    COUNTED(quern_warm_options, manifest, manifest_length),
    COUNTED(quern_tune_options, manifest, manifest_length),
    COUNTED(quern_tune_options, rows, row_count),
    COUNTED(quern_kernel_desc, headers, header_count),
    COUNTED(quern_kernel_desc, constants, constant_count),
    COUNTED(quern_kernel_desc, options, option_count),
};
#undef COUNTED

enum class Kind : unsigned char { number, text, texts, numbers, model, source, constant, callback, user, other };

template <class T>
constexpr Kind kind_of() {
  if (std::is_same_v<T, const char*>) return Kind::text;
  if (std::is_same_v<T, const char* const*>) return Kind::texts;
  if (std::is_same_v<T, const std::int64_t*>) return Kind::numbers;
  if (std::is_same_v<T, const quern_model*>) return Kind::model;
  if (std::is_same_v<T, const quern_source*>) return Kind::source;
  if (std::is_same_v<T, const quern_constant*>) return Kind::constant;
  if (std::is_same_v<T, void*>) return Kind::user;
  if (std::is_pointer_v<T>) return Kind::callback;
  return sizeof(T) <= 8 ? Kind::number : Kind::other;
}

struct Field {
  std::string_view owner, name;
  std::size_t offset, size;
  Kind kind;
};
constexpr Field kFields[] = {
#define QUERN_STRUCT(name)
#define QUERN_FIELD(owner, field) \
  {#owner, #field, offsetof(owner, field), sizeof(owner::field), kind_of<decltype(owner::field)>()},
#include "tests/abi/layout.def"
#undef QUERN_FIELD
#undef QUERN_STRUCT
};

// Memory that is as large as the structs made in it say.
class Made {
 public:
  explicit Made(Bytes& bytes) : bytes_(bytes) {}

  // A struct of this name, or an array of them that lie as far apart as the first one says.
  unsigned char* make(std::string_view owner, std::size_t size, std::uint64_t count = 1) {
    std::size_t told = size;
    switch (bytes_.below(24)) {
      case 0:
        told = 8 * bytes_.below(32);  // never in the middle of a pointer
        break;
      case 1:
        told = size + 8 * bytes_.below(8);
        break;
      case 2:  // beyond what any struct may have: nothing of it may be looked at
        return refused_by_size();
      default:
        break;
    }
    const std::size_t stride = std::max<std::size_t>(told, 8);
    // The last one may say that it has 254 bytes, wherever its place ends.
    std::string& memory =
        kept_.emplace_back(std::max(count, std::uint64_t{1}) * stride + std::max<std::size_t>(size, 255), '\0');
    auto* const first = reinterpret_cast<unsigned char*>(memory.data());
    for (std::uint64_t i = 0; i < count; ++i) {
      // What lies behind a smaller struct is not its own; a larger one has what this library does not know.
      std::string one(std::max(size, told), '\0');
      if (told > size && bytes_.below(2) == 0) one[size + bytes_.below(255) % (told - size)] = 1;
      fill(owner, reinterpret_cast<unsigned char*>(one.data()));
      const auto number = static_cast<std::uint32_t>(i == 0 || bytes_.below(8) != 0 ? told : bytes_.below(255));
      std::memcpy(one.data(), &number, sizeof(number));
      std::memcpy(first + i * stride, one.data(), std::min(stride, one.size()));
    }
    return first;
  }

  // Mostly one that may stand in this field.
  const char* text(std::string_view field = {}) {
    struct Fitting {
      std::string_view field;
      std::array<const char*, 4> texts;
    };
    static constexpr Fitting kFitting[] = {
        {"target", {"host", "sm_90a", "gfx90a", "host64"}},
        {"targets", {"host", "sm_90a", "gfx90a", "host64"}},
        {"entry", {"k", "kernel_1", "k", "K"}},
        {"name", {"k.cuh", "FACTOR", "BY", "a/b.cuh"}},
        {"value", {"1", "(2.0f)", "float", "\"a b\""}},
        {"text", {"#include \"quern/kernel.cuh\"\nint k;\n", "#pragma once\n", "", "#include \"a/b.cuh\"\n"}},
        {"options", {"-O2", "-DX=1", "-I/tmp", "-std=c++20"}},
        {"prefix", {"", "attention", "0123456789ab", "host"}},
        {"cache_path", {"/nowhere", "relative", "", "/"}},
        {"host_compiler", {"/nowhere/c++", "c++", "", "/usr/bin/c++"}},
        {"compiler_pin", {"nvrtc 13.0", "cxx g++ 12", "", "\n"}},
        {"manifest",
         {"merge_state * dtype=f16\nattention *\nkernel host entry=a=b\n", "gemm * dtype=bf16 n=40 k=32",
          "fp8_gemm * scales=vectors n=8 k=32\n# a comment\n", "argmax host dtype=f32\n"}},
    };
    if (bytes_.below(4) != 0) {
      for (const Fitting& each : kFitting)
        if (each.field == field) return each.texts[bytes_.below(4)];
    }
    static constexpr std::array<const char*, 16> kTexts = {
        "host",
        "sm_90a",
        "*",
        "gfx942",
        "",
        "kernel",
        "attention",
        "/nowhere",
        "relative",
        "merge_state * dtype=f16\nattention *\nkernel host entry=a=b\n",
        "gemm * dtype=bf16 n=40 k=32",
        "k.cuh",
        "FACTOR",
        "-O2",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "#include \"quern/kernel.cuh\"\nQUERN_KERNEL(k, 32, 1, float* p) {}\n"};
    const unsigned which = bytes_.below(24);
    if (which < kTexts.size()) return kTexts[which];
    std::string& own = kept_.emplace_back(bytes_.below(96), '\0');
    for (char& c : own) c = bytes_.take<char>();
    return own.c_str();
  }

 private:
  unsigned char* refused_by_size() {
    static constexpr std::uint32_t kSizes[] = {0, 1, 4, 7, 65'537, 0x7fffffff, 0x80000000, 0xffffffff};
    std::string& memory = kept_.emplace_back(8, '\0');
    const std::uint32_t told = kSizes[bytes_.below(std::size(kSizes))];
    std::memcpy(memory.data(), &told, sizeof(told));
    return reinterpret_cast<unsigned char*>(memory.data());
  }

  std::uint64_t number(std::size_t size, std::string_view field = {}) {
    static constexpr std::uint64_t kUsual[] = {1, 2, 8, 16, 32, 64, 128, 512, 4096, 14336, 32000};
    static constexpr std::uint64_t kExtremes[] = {INT32_MAX, UINT32_MAX, UINT64_MAX, 0x80000000, 65'536};
    // Anything but the few values that are known ends a call at once.
    const bool known = field == "flags" || field == "reserved" || field == "log_level" || field == "device_id" ||
                       field == "device_type" || field == "miss_policy" || field == "activation" ||
                       field == "milliseconds";
    switch (bytes_.below(known ? 64 : 8)) {
      case 0:
        return kExtremes[bytes_.below(std::size(kExtremes))];
      case 1:
        return size == 8 ? bytes_.take<std::uint64_t>() : bytes_.take<std::uint32_t>();
      case 2:
        return bytes_.below(20);
      case 3:
      case 4:
      case 5:
        return kUsual[bytes_.below(std::size(kUsual))];
      default:
        return 0;
    }
  }

  void fill(std::string_view owner, unsigned char* at) {
    const Counted* count_of = nullptr;
    for (const Field& field : kFields) {
      if (field.owner != owner || field.name == "size") continue;
      const auto is_count = [&](const Counted& c) { return c.owner == owner && c.count == field.offset; };
      if (std::any_of(std::begin(kCounted), std::end(kCounted), is_count)) continue;  // with its array
      const auto is_array = [&](const Counted& c) { return c.owner == owner && c.array == field.offset; };
      const Counted* const counted = std::find_if(std::begin(kCounted), std::end(kCounted), is_array);
      count_of = counted == std::end(kCounted) ? nullptr : counted;
      // More than the array has would be the caller's own mistake; so would be less than none.
      std::uint64_t count = count_of == nullptr ? 1 : bytes_.below(5);
      const void* pointer = nullptr;
      const bool given = bytes_.below(16) != 0;
      switch (field.kind) {
        case Kind::number: {
          const std::uint64_t value = number(field.size, field.name);
          std::memcpy(at + field.offset, &value, field.size);
          continue;
        }
        case Kind::other:
        case Kind::user:
          continue;
        case Kind::callback:
          continue;  // set where the struct is used
        case Kind::text:
          if (given) pointer = text(field.name);
          if (count_of != nullptr && pointer != nullptr) count = std::strlen(static_cast<const char*>(pointer));
          break;
        case Kind::texts:
          if (given) pointer = texts(count, field.name);
          break;
        case Kind::numbers:
          if (given) pointer = numbers(count);
          break;
        case Kind::model:
          if (given) pointer = make("quern_model", sizeof(quern_model));
          break;
        case Kind::source:
          if (given) pointer = make("quern_source", sizeof(quern_source), count);
          break;
        case Kind::constant:
          if (given) pointer = make("quern_constant", sizeof(quern_constant), count);
          break;
      }
      std::memcpy(at + field.offset, &pointer, sizeof(pointer));
      if (count_of == nullptr) continue;
      if (pointer == nullptr && bytes_.below(2) == 0) count = number(8);  // of an array that is not there
      std::memcpy(at + count_of->count, &count, sizeof(count));
    }
    // The length of a text is the caller's word for what may be read.
    if (owner == "quern_source") {
      auto* const source = reinterpret_cast<quern_source*>(at);
      source->length = source->text == nullptr ? source->length : bytes_.below(255) % (std::strlen(source->text) + 1);
    }
  }

  const void* texts(std::uint64_t count, std::string_view field) {
    auto& pointers = lists_.emplace_back(count + 1);
    for (std::uint64_t i = 0; i < count; ++i) pointers[i] = bytes_.below(16) == 0 ? nullptr : text(field);
    return pointers.data();
  }
  const void* numbers(std::uint64_t count) {
    std::string& memory = kept_.emplace_back(8 * count + 8, '\0');
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t value = number(8);
      std::memcpy(memory.data() + 8 * i, &value, 8);
    }
    return memory.data();
  }

  Bytes& bytes_;
  std::deque<std::string> kept_;
  std::deque<std::vector<const char*>> lists_;
};

quern_context_options plain_options(std::int32_t device) {
  quern_context_options options{};
  options.size = sizeof(options);
  options.device_type = device;
  options.flags = QUERN_CONTEXT_NO_CACHE | QUERN_CONTEXT_NVRTC_IN_HELPER;
  options.helper_path = "/nowhere/quern-compile-helper";
  options.host_threads = 1;
  return options;
}

// What is kept of refused kernels goes with a context: another one now and then.
quern_context* context(bool has_device) {
  static quern_context* made[2] = {};
  static int uses[2] = {};
  quern_context*& one = made[has_device];
  if (++uses[has_device] % 1000 == 0) {
    quern_context_destroy(one);
    one = nullptr;
  }
  const quern_context_options options = plain_options(has_device ? kDLCPU : 0);
  if (one == nullptr && quern_context_create(&options, &one, nullptr) != QUERN_OK) std::abort();
  return one;
}

void expect_own_fault(const char* what, std::int32_t status, const quern_error& error) {
  if (status == QUERN_INTERNAL || status == QUERN_NO_MEMORY || status < 0 ||
      std::strcmp(quern_status_name(status), "QUERN_UNKNOWN") == 0) {
    std::fprintf(stderr, "%s: status %d: %s\n", what, status, error.text);
    std::abort();
  }
}

// Every string of a row may be read.
template <class Row, class Get>
void read_rows(quern_list* list, Get get) {
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    Row row{};
    row.size = sizeof(row);
    if (get(list, i, &row) != QUERN_OK) std::abort();
    std::size_t read = 0;
    if constexpr (requires { row.text; }) read += std::strlen(row.text);
    if constexpr (requires { row.op; }) read += std::strlen(row.op);
    if (read > 1 << 24) std::abort();
  }
  quern_list_free(list);
}

std::int32_t answer = 0;
template <class Result>
std::int32_t told(void*, std::uint64_t, std::uint64_t, const Result*) {
  return answer;
}

void run_context(Bytes& bytes, quern_error& error) {
  Made made(bytes);
  unsigned char* const raw = made.make("quern_context_options", sizeof(quern_context_options));
  std::uint32_t size = 0;
  std::memcpy(&size, raw, sizeof(size));
  // Nothing is to be made in the file system, and nothing to be started, for what was thought up here.
  if (size <= 65'536) {
    const auto set = [&](std::size_t offset, const void* value, std::size_t length) {
      if (size >= offset + length) std::memcpy(raw + offset, value, length);
    };
    const quern_context_options plain = plain_options(0);
    std::uint32_t flags = 0;
    std::memcpy(&flags, raw + offsetof(quern_context_options, flags), size >= 8 ? sizeof(flags) : 0);
    flags |= plain.flags;
    set(offsetof(quern_context_options, flags), &flags, sizeof(flags));
    set(offsetof(quern_context_options, helper_path), &plain.helper_path, sizeof(plain.helper_path));
    std::int32_t device = 0;
    std::memcpy(&device, raw + offsetof(quern_context_options, device_type), size >= 12 ? sizeof(device) : 0);
    // Looking for a GPU's driver takes longer than all else.
    if (device == kDLCUDA || device == kDLROCM) device = kDLCPU;
    set(offsetof(quern_context_options, device_type), &device, sizeof(device));
  }
  quern_context* context = nullptr;
  const std::int32_t status =
      quern_context_create(reinterpret_cast<const quern_context_options*>(raw), &context, &error);
  expect_own_fault("quern_context_create", status, error);
  if ((status == QUERN_OK) != (context != nullptr)) std::abort();
  quern_context_destroy(context);
}

void run(std::string_view input) {
  Bytes bytes(input);
  quern_error error{};
  error.size = sizeof(error);
  const unsigned call = bytes.below(8);
  const bool device = bytes.below(8) != 0;
  answer = bytes.below(4) == 0 ? 1 : 0;
  if (call == 0) return run_context(bytes, error);
  quern_context* const on = context(device);
  Made made(bytes);
  quern_list* list = nullptr;
  const auto take = [&]<class T>(const char* name, T) {
    auto* const given = reinterpret_cast<T*>(made.make(name, sizeof(T)));
    return given;
  };
  // Where the struct has them.
  const auto tell = [](auto* options, auto callback) {
    if (options->size < sizeof(*options) || options->size > 65'536) return;
    options->progress = callback;
  };
  switch (call) {
    case 1:
    case 2: {
      auto* const options = take("quern_warm_options", quern_warm_options{});
      tell(options, told<quern_warm_result>);
      const std::int32_t status =
          call == 1 ? quern_warm(on, options, &list, &error) : quern_load(on, options, &list, &error);
      expect_own_fault("quern_warm or quern_load", status, error);
      return read_rows<quern_warm_result>(list, quern_list_warm_result);
    }
    case 3: {
      auto* const options = take("quern_tune_options", quern_tune_options{});
      tell(options, told<quern_tune_result>);
      // What is measured would be products of any size.
      if (options->size >= 8 && options->size <= 65'536) options->flags |= QUERN_TUNE_LIST_ONLY;
      expect_own_fault("quern_tune", quern_tune(on, options, &list, &error), error);
      return read_rows<quern_tune_result>(list, quern_list_tune_result);
    }
    case 4: {
      auto* const options = take("quern_verify_options", quern_verify_options{});
      tell(options, told<quern_verify_result>);
      expect_own_fault("quern_verify", quern_verify(on, options, &list, &error), error);
      return read_rows<quern_verify_result>(list, quern_list_verify_result);
    }
    case 5:
    case 6: {
      auto* const desc = take("quern_kernel_desc", quern_kernel_desc{});
      // Threads that compile would outlive this input.
      if (desc->size >= 8 && desc->size <= 65'536) desc->flags &= ~static_cast<std::uint32_t>(QUERN_CALL_BACKGROUND);
      quern_kernel* kernel = nullptr;
      expect_own_fault("quern_kernel_prepare", quern_kernel_prepare(on, desc, &kernel, &error), error);
      return;
    }
    default: {
      const std::string prefix = bytes.below(4) == 0 ? made.text() : std::string(bytes.rest());
      expect_own_fault("quern_cache_list", quern_cache_list(on, prefix.c_str(), &list, &error), error);
      read_rows<quern_entry>(list, quern_list_entry);
      list = nullptr;
      expect_own_fault("quern_cache_inspect", quern_cache_inspect(on, prefix.c_str(), &list, &error), error);
      read_rows<quern_entry>(list, quern_list_entry);
      std::uint64_t count = 0;
      expect_own_fault("quern_unload", quern_unload(on, prefix.c_str(), &count, &error), error);
    }
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (std::uint32_t number = 0; number < 256; ++number) {
    std::string seed(400, '\0');
    std::uint32_t state = number * 2654435761U + 1;
    for (char& byte : seed) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    seed[0] = static_cast<char>(number % 8);
    // Of some the size is right and nothing but the fields is random.
    if (number >= 64) seed[3] = 7;
    seeds.push_back(seed);
  }
  seeds.emplace_back("\7\1\1\1attention");
  seeds.emplace_back(
      "\7\1\1\1"
      "0123456789ab");
  return seeds;
}

}  // namespace

const Target requests{"requests", run, seeds};

}  // namespace quern::fuzz
