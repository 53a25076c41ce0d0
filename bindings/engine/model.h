// A Llama's layers on quern's ops: one step computes the new tokens of a batch of sequences, prompts' chunks and single
// tokens together, and the logits of each sequence's last one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/engine/calls.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/device/stream.h"
#include "bindings/engine/inputs.h"
#include "bindings/engine/parallel/communicator.h"
#include "bindings/engine/step.h"
#include "bindings/engine/view.h"
#include "bindings/engine/weights/weights.h"
#include "quern.h"

namespace quern::engine {

class Model final : public Steps {
 public:
  // Throws std::runtime_error where a call of quern.h fails. The weights are e4m3 where the limits say so; with a
  // communicator they and the config are its rank's part.
  Model(quern_context* context, const quern_device_info& device, const Config& config, Weights weights,
        const Limits& limits, Communicator* communicator = nullptr);
  // Of a checkpoint's weights. Throws std::runtime_error where it is not as it says itself, too.
  Model(quern_context* context, const quern_device_info& device, const Checkpoint& checkpoint, const Limits& limits,
        Communicator* communicator = nullptr);

  std::vector<Next> step(const std::vector<Part>& parts) override;
  void repeat(std::int64_t times) override;
  void leave_out(const char* op) override;
  // The logits of the last step's parts, one row each; not behind a step with drafts.
  std::vector<float> logits();
  void copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) override;

  const Config& config() const override { return config_; }
  const Limits& limits() const override { return limits_; }

 private:
  struct Cache {
    void *keys = nullptr, *values = nullptr;  // [pages, page_size, kv_heads, head_dim]
  };

  struct Codes {
    void *data = nullptr, *scales = nullptr;
  };

  // model.cpp: a step as a whole
  void make_room();
  void make_rope_table();
  void prepare();
  void launch();
  void run();
  void run_all_sizes();
  View bf16(void* data, std::int64_t rows, std::int64_t columns) const;
  View cache(void* pages) const;
  View pairs(std::int64_t first, std::int64_t count) const;

  // layers.cpp
  void run_layer(std::size_t index);
  bool attends_in_codes() const;
  void normalise(bool first, void* weight, bool quantised);
  void add_half(void* post_norm, void* next, bool quantised);
  void add_ranks();
  void normalise_delta(void* weight);
  void quantise(void* from, std::int64_t rows, std::int64_t columns);
  void multiply(void* from, std::int64_t rows, std::int64_t in, const Matrix& by, std::int64_t out, const View& to,
                const quern_epilogue* epilogue);
  void multiply_fp8(const Codes& from, std::int64_t rows, std::int64_t in, const Matrix& by, std::int64_t out,
                    const View& to, const quern_epilogue* epilogue);
  void multiply_gated(const LayerWeights& weights);
  void attend(const LayerWeights& weights, const Cache& cache, std::int64_t window);
  View scales(void* data, std::int64_t rows, std::int64_t columns) const;

  // sampling/choose.cpp
  void choose();
  void verify();

  quern_context* context_;
  DLDevice device_;
  Config config_;
  Limits limits_;
  Weights weights_;
  std::unique_ptr<demo::Memory> memory_;
  std::unique_ptr<Stream> stream_;
  Communicator* communicator_;  // none: one device
  Calls calls_;
  std::vector<Cache> caches_;                      // of each layer
  std::int64_t table_columns_ = 0, measured_ = 0;  // measured_: how often something was left out
  View rope_table_;                                // of nothing where rope has a formula
  const quern_expression* cap_ = nullptr;          // of logits; none
  Size size_{};                                    // of the step that is computed

  // Of a step: what the layers hand on, all bf16 but the logits.
  void *residual_ = nullptr, *normed_ = nullptr, *qkv_ = nullptr, *attended_ = nullptr, *gated_ = nullptr,
       *delta_ = nullptr, *last_ = nullptr, *logits_ = nullptr;
  // With FP8 weights: what a product multiplies, e4m3, and a scale for each 128 of a row. A gated product writes others
  // than it reads.
  Codes codes_, gated_codes_;
  // And with an FP8 cache prompts' queries, a scale for each head of a token.
  void *queries_ = nullptr, *query_scales_ = nullptr;

  std::unique_ptr<Inputs> inputs_;
  std::int32_t* host_pairs_ = nullptr;  // of pages that are copied, [limits.sequences, 2]
  void* pairs_ = nullptr;
};

}  // namespace quern::engine
