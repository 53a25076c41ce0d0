// Every op's args with fields of any value and tensors of any shape: a call refuses them by name or takes them, and
// never says that quern has a bug. Nothing is launched, and the tensors have no data.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "capi/quern.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

struct Field {
  std::string_view owner;
  std::size_t offset, size;
  bool tensor, pointer;
};
constexpr Field kFields[] = {
#define QUERN_STRUCT(name)
#define QUERN_FIELD(owner, field)                                                                                 \
  {#owner, offsetof(owner, field), sizeof(owner::field), std::is_same_v<decltype(owner::field), const DLTensor*>, \
   std::is_pointer_v<decltype(owner::field)>},
#include "tests/abi/layout.def"
#undef QUERN_FIELD
#undef QUERN_STRUCT
};

struct Op {
  std::string_view args;
  std::size_t size, flags;
  std::int32_t (*workspace)(quern_context*, const void*, std::uint64_t*, quern_error*);
  std::int32_t (*prepare)(quern_context*, const void*, quern_error*);
};
constexpr Op kOps[] = {
#define QUERN_OP(name, ...)                                                                                 \
  {"quern_" #name "_args", sizeof(quern_##name##_args), offsetof(quern_##name##_args, flags),               \
   [](quern_context* context, const void* args, std::uint64_t* bytes, quern_error* error) {                 \
     return quern_##name##_workspace(context, static_cast<const quern_##name##_args*>(args), bytes, error); \
   },                                                                                                       \
   [](quern_context* context, const void* args, quern_error* error) {                                       \
     return quern_##name##_prepare(context, static_cast<const quern_##name##_args*>(args), error);          \
   }},
#include "sources/ops.def"
#undef QUERN_OP
};

quern_context* context() {
  static quern_context* const made = [] {
    quern_context_options options{};
    options.size = sizeof(options);
    options.device_type = kDLCPU;
    options.flags = QUERN_CONTEXT_NO_CACHE;
    options.miss_policy = QUERN_MISS_CACHED_ONLY;
    quern_context* context = nullptr;
    if (quern_context_create(&options, &context, nullptr) != QUERN_OK) std::abort();
    return context;
  }();
  return made;
}

struct Tensor {
  DLTensor value;
  std::int64_t shape[6], strides[6];
};

std::int64_t extent(Bytes& bytes) {
  static constexpr std::int64_t kExtents[] = {0,  1,   2,   3,    4,    7,     8,      16,        32,        64,
                                              80, 96,  128, 192,  256,  512,   576,    1024,      4096,      5120,
                                              -1, 132, 656, 7168, 8192, 65536, 129280, INT32_MAX, INT64_MAX, INT64_MIN};
  const unsigned which = bytes.below(40);
  return which < std::size(kExtents) ? kExtents[which] : bytes.take<std::int64_t>();
}

void fill(Bytes& bytes, Tensor& tensor) {
  static constexpr DLDataType kTypes[] = {{kDLFloat, 16, 1}, {kDLBfloat, 16, 1},       {kDLFloat, 32, 1},
                                          {kDLInt, 32, 1},   {kDLFloat8_e4m3fn, 8, 1}, {kDLInt, 64, 1},
                                          {kDLUInt, 8, 1},   {kDLFloat8_e5m2, 8, 1},   {kDLInt, 8, 1}};
  tensor = {};
  tensor.value.device = {kDLCPU, 0};
  tensor.value.ndim = static_cast<std::int32_t>(bytes.below(7));
  const unsigned type = bytes.below(16);
  tensor.value.dtype = type < std::size(kTypes) ? kTypes[type] : bytes.take<DLDataType>();
  for (int i = 0; i < tensor.value.ndim; ++i) tensor.shape[i] = extent(bytes), tensor.strides[i] = extent(bytes);
  tensor.value.shape = tensor.shape;
  if (bytes.below(3) == 0) tensor.value.strides = tensor.strides;
  if (bytes.below(16) == 0) tensor.value.byte_offset = bytes.take<std::uint64_t>();
}

void run(std::string_view input) {
  Bytes bytes(input);
  const Op& op = kOps[bytes.below(std::size(kOps))];
  alignas(16) unsigned char args[1024] = {};
  static_assert(sizeof(quern_attention_args) < sizeof(args));
  if (op.size > sizeof(args)) std::abort();
  Tensor tensors[40];
  std::size_t used = 0;
  for (const Field& field : kFields) {
    if (field.owner != op.args) continue;
    unsigned char* const at = args + field.offset;
    const unsigned how = bytes.below(4);
    if (field.tensor) {
      if (how == 0) continue;
      if (used == std::size(tensors)) std::abort();
      // Often as the one before: most ops want tensors that agree.
      if (how == 1 && used > 0)
        tensors[used] = tensors[used - 1], tensors[used].value.shape = tensors[used].shape;
      else
        fill(bytes, tensors[used]);
      if (tensors[used].value.strides != nullptr) tensors[used].value.strides = tensors[used].strides;
      const DLTensor* const tensor = &tensors[used++].value;
      std::memcpy(at, &tensor, sizeof(tensor));
    } else if (!field.pointer && field.size <= 8 && how == 3) {
      const std::int64_t value = field.size == 8 ? bytes.take<std::int64_t>() : bytes.take<std::int32_t>();
      std::memcpy(at, &value, field.size);
    } else if (!field.pointer && field.size <= 8 && how == 2) {
      const std::int64_t value = bytes.below(20);
      std::memcpy(at, &value, field.size);
    }
  }
  // Threads that compile what was thought up here would outlive this input.
  std::uint32_t flags = 0;
  std::memcpy(&flags, args + op.flags, sizeof(flags));
  flags &= ~static_cast<std::uint32_t>(QUERN_CALL_BACKGROUND);
  std::memcpy(args + op.flags, &flags, sizeof(flags));
  const auto size = static_cast<std::uint32_t>(op.size);
  std::memcpy(args, &size, sizeof(size));
  quern_error error{};
  error.size = sizeof(error);
  std::uint64_t needed = 0;
  for (const std::int32_t status :
       {op.workspace(context(), args, &needed, &error), op.prepare(context(), args, &error)}) {
    if (status != QUERN_OK && status != QUERN_MISS && status != QUERN_INVALID && status != QUERN_UNSUPPORTED) {
      std::fprintf(stderr, "%.*s: status %d: %s\n", static_cast<int>(op.args.size()), op.args.data(), status,
                   error.text);
      std::abort();
    }
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (std::size_t op = 0; op < std::size(kOps); ++op) {
    std::string seed(400, '\0');
    std::uint32_t state = static_cast<std::uint32_t>(op) * 2654435761U + 1;
    for (char& byte : seed) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    seed[0] = static_cast<char>(op);
    seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace

const Target structs{"structs", run, seeds};

}  // namespace quern::fuzz
