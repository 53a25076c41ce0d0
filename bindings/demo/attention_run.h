// Attention as a serving engine calls it: prompts prefilled in chunks, then a token of every sequence a step, each
// answer held against the stored truth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/demo/activations.h"
#include "bindings/demo/memory.h"
#include "bindings/demo/paged_cache.h"
#include "quern.h"

namespace quern::demo {

inline constexpr std::int64_t kChunk = 128;       // query tokens of a sequence in one prefill call
inline constexpr std::int64_t kDecodeSteps = 32;  // the last tokens of every sequence come one by one

// What one kind of call cost and how far off its answers were.
struct Phase {
  std::int64_t calls = 0;
  std::int64_t tokens = 0;
  double milliseconds = 0;  // of the calls, each waited for
  double out_error = 0;     // the largest |out - truth|
  double lse_error = 0;     // the largest |lse - truth|
};

class AttentionRun {
 public:
  AttentionRun(quern_context* context, const quern_device_info& device, const Activations& activations);

  // Readies every kernel that the calls below can reach.
  void prepare();
  // Runs every sequence of a layer from its first token to its last, over pages shuffled by `seed`.
  void serve(const Layer& layer, unsigned seed);

  const Phase& prefill() const { return prefill_; }
  const Phase& decode() const { return decode_; }

 private:
  struct Call;
  struct Span {
    std::int64_t from, to;  // tokens of a sequence
  };
  void step(const Layer& layer, PagedCache& cache, const std::vector<Span>& spans, Phase& phase);
  void compare(const Sequence& truth, const Span& span, std::int64_t row, Phase& phase) const;

  quern_context* context_;
  const quern_device_info device_;
  const Activations& activations_;
  const std::size_t batch_;
  const std::int64_t max_tokens_;
  std::unique_ptr<Memory> memory_;
  Mirrored<std::uint16_t> q_, out_;
  Mirrored<float> lse_;
  Mirrored<std::int32_t> lengths_, cu_q_;
  void* workspace_ = nullptr;
  std::uint64_t workspace_size_ = 0;
  Phase prefill_, decode_;
};

}  // namespace quern::demo
