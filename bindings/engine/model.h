// A Llama's layers on quern's ops: one step computes the new tokens of a batch of sequences, prompts' chunks and single
// tokens together, and the logits of each sequence's last one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/demo/memory.h"
#include "bindings/engine/checkpoint.h"
#include "bindings/engine/graph.h"
#include "bindings/engine/view.h"
#include "bindings/engine/weights.h"
#include "quern.h"

namespace quern::engine {

// What a step may need at most; memory and kernels are made ready for it once.
struct Limits {
  std::int64_t sequences = 8;
  std::int64_t tokens = 256;    // of a step, of all sequences
  std::int64_t context = 1024;  // of a sequence
  std::int64_t pages = 0;       // of the cache; 0: as many as all sequences can fill
  std::int64_t page_size = 16;
  std::int64_t drafts = 0;       // of a sequence in a step
  bool fp8_cache = false;        // e4m3 instead of bf16
  bool fp8_weights = false;      // of the layers' products, with what they multiply; e4m3, quantised when loaded
  bool graph = false;            // on a GPU: a step of single tokens is captured once and then replayed
  bool batch_invariant = false;  // the bits of a sequence do not depend on the others'
};

// How a sequence's next token is chosen.
struct Sampling {
  float temperature = 0.0f;  // 0: the most probable one
  std::int32_t top_k = 0;    // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::uint64_t seed = 0;
};

// A sequence's part of a step.
struct Part {
  std::vector<std::int32_t> tokens;        // new ones, and drafts behind them
  std::int64_t position = 0;               // of the first of them
  const std::vector<std::int32_t>* pages;  // of the whole sequence, for these tokens too
  Sampling sampling;
  std::int64_t drafts = 0;  // how many of the tokens are; at most limits.drafts, and none but where temperature is 0
};

class Model {
 public:
  // Throws std::runtime_error where the checkpoint is not as it says itself, and where a call of quern.h fails.
  Model(quern_context* context, const quern_device_info& device, const Checkpoint& checkpoint, const Limits& limits);

  // Each part's next tokens: its drafts as far as the model would have said the same, and one more. At most
  // limits.tokens tokens of at most limits.sequences parts.
  std::vector<std::vector<std::int32_t>> step(const std::vector<Part>& parts);
  // The logits of the last step's parts, one row each; not behind a step with drafts.
  std::vector<float> logits();
  // Copies whole pages of the cache, (from, to), at most one a sequence.
  void copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs);

  const Config& config() const { return config_; }
  const Limits& limits() const { return limits_; }

 private:
  struct Layer {
    LayerWeights weights;
    void *keys = nullptr, *values = nullptr;  // [pages, page_size, kv_heads, head_dim]
  };
  // How many tokens and sequences a step has.
  struct Size {
    std::int64_t tokens, sequences, most_new;  // most_new: of one sequence
    std::int64_t each = 1;                     // rows of logits of a sequence: with drafts limits.drafts + 1
  };

  View bf16(void* data, std::int64_t rows, std::int64_t columns) const;
  View integers(std::int64_t place, std::int64_t count) const;
  View numbers(void* data, std::int64_t count) const;
  void make_room();
  void make_rope_table();
  void prepare();
  void upload(const std::vector<Part>& parts, const Size& size);
  void run(const Size& size);
  void run_layer(const Size& size, std::size_t index);
  Matrix place_matrix(const std::vector<std::uint16_t>& values, std::int64_t rows, std::int64_t columns);
  View scales(void* data, std::int64_t rows, std::int64_t columns) const;
  void normalise(const Size& size, bool first, void* weight, bool quantised);
  void quantise(void* from, std::int64_t rows, std::int64_t columns);
  void multiply(void* from, std::int64_t rows, std::int64_t in, const Matrix& by, std::int64_t out, const View& to,
                const quern_epilogue* epilogue);
  void multiply_fp8(void* from, void* from_scales, std::int64_t rows, std::int64_t in, const Matrix& by,
                    std::int64_t out, const View& to, const quern_epilogue* epilogue);
  void multiply_gated(const Size& size, const LayerWeights& weights);
  void attend(const Size& size, const Layer& layer);
  void choose(const Size& size);
  void verify(const Size& size);
  template <class Args, class Launch, class Measure, class Ready>
  void make(Args& args, Launch launch, Measure measure, Ready ready);

  quern_context* context_;
  DLDevice device_;
  Config config_;
  Limits limits_;
  std::unique_ptr<demo::Memory> memory_;
  std::unique_ptr<Graphs> graphs_;  // of steps of single tokens, by the number of sequences; none where not asked for
  std::vector<Layer> layers_;
  Weights weights_;
  std::int64_t table_columns_ = 0;
  View rope_table_;  // of nothing where rope has a formula

  // Of a step: what the layers hand on, all bf16 but the logits.
  void *residual_ = nullptr, *normed_ = nullptr, *qkv_ = nullptr, *attended_ = nullptr, *gated_ = nullptr,
       *delta_ = nullptr, *last_ = nullptr, *logits_ = nullptr;
  // With FP8 weights: what a product multiplies, e4m3, and a scale for each 128 of a row.
  void *quantised_ = nullptr, *scales_ = nullptr, *gated_scales_ = nullptr;
  void* workspace_ = nullptr;
  std::uint64_t workspace_size_ = 0;
  bool preparing_ = false;  // the calls of run() ready their kernels rather than launch

  // What a step reads besides: integers one behind the other, and what tokens are chosen by.
  struct Places {
    std::int64_t tokens, positions, cu_q, lengths, table, last, top_k, ids, copies, rows, drafts, draft_counts,
        accepted, verified, count;
  } at_{};
  std::unique_ptr<demo::Mirrored<std::int32_t>> inputs_;
  std::unique_ptr<demo::Mirrored<float>> parameters_;         // temperature, top-p and min-p, one behind the other
  std::unique_ptr<demo::Mirrored<std::int64_t>> randomness_;  // seeds, and offsets behind them
  std::int64_t rows_ = 0;                                     // of logits
};

}  // namespace quern::engine
