// The tensors of a call on `host` with a seed, which runs as with QUERN_CALL_PROGRAMMATIC: the launch before it may be
// writing all of them, but for what the call's flags say is constant. The executor keeps them from kernels that have
// not waited for that launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "capi/quern.h"
#include "jit/driver.h"

namespace quern::ops {

class LateTensors {
 public:
  // `constant` are the names, as read() has them, of those that may be read at any time.
  explicit LateTensors(std::span<const std::string_view> constant) : constant_(constant) {}
  // Throws std::bad_alloc. Tensors much larger than what tests have are left out, and those of few elements far apart.
  void note(const char* name, std::uint8_t* data, std::int64_t element_bytes, bool indices,
            std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);
  std::span<const jit::LateMemory> memory() const { return memory_; }

 private:
  std::span<const std::string_view> constant_;
  std::vector<jit::LateMemory> memory_;
};

// What the flags of these args promise.
template <class Args>
std::span<const std::string_view> constant_tensors(const Args& args) {
  static constexpr std::string_view kB[] = {"b", "scale_b"}, kWeight[] = {"weight"};
  // Of the last four attention itself names what is not constant: this call's tokens.
  static constexpr std::string_view kPast[] = {"lengths", "cu_q", "page_table", "page_indptr", "page_indices",
                                               "cu_kv",   "k",    "v",          "k_scale",     "v_scale"};
  constexpr bool product = std::is_same_v<Args, quern_gemm_args> || std::is_same_v<Args, quern_fp8_gemm_args> ||
                           std::is_same_v<Args, quern_grouped_fp8_gemm_args>;
  if constexpr (product) {
    if ((args.flags & QUERN_GEMM_CONSTANT_B) != 0) return kB;
  }
  if constexpr (std::is_same_v<Args, quern_rmsnorm_args>) {
    if ((args.flags & QUERN_RMSNORM_CONSTANT_WEIGHT) != 0) return kWeight;
  }
  if constexpr (std::is_same_v<Args, quern_attention_args>) {
    if ((args.flags & QUERN_ATTENTION_CONSTANT_PAST) != 0) return kPast;
  }
  return {};
}

}  // namespace quern::ops
