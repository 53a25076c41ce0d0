// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/weights/weights.h"

#include <cstdint>
#include <initializer_list>
#include <string>

namespace quern::engine {
namespace {

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Placer& placer, Shard shard)
      : checkpoint_(checkpoint), placer_(placer), shard_(shard) {}

  enum class Cut { none, rows, columns };  // what of a matrix is this part's

  struct Part {
    std::string name;
    std::int64_t rows;
  };
  void* load(std::initializer_list<Part> parts, std::int64_t columns, Cut cut = Cut::none) {
    return placer_.plain(read(parts, columns, cut));
  }
  Matrix load_matrix(std::initializer_list<Part> parts, std::int64_t columns, Cut cut) {
    const std::vector<std::uint16_t> all = read(parts, columns, cut);
    if (cut == Cut::columns) columns /= shard_.size;
    return placer_.matrix(all, static_cast<std::int64_t>(all.size()) / columns, columns);
  }
  bool is_first() const { return shard_.rank == 0; }

 private:
  // One below the other. `columns` 0: vectors.
  std::vector<std::uint16_t> read(std::initializer_list<Part> parts, std::int64_t columns, Cut cut) const {
    std::vector<std::uint16_t> all;
    for (const Part& part : parts) {
      const std::vector<std::int64_t> shape = columns == 0 ? std::vector{part.rows} : std::vector{part.rows, columns};
      const std::vector<std::uint16_t> values = checkpoint_.bf16(part.name, shape);
      const auto take = [&](std::int64_t first, std::int64_t count) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
        all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
      };
      const auto size = static_cast<std::int64_t>(values.size()), own = size / shard_.size;
      if (cut == Cut::none) {
        take(0, size);
      } else if (cut == Cut::rows) {
        take(shard_.rank * own, own);
      } else {
        const std::int64_t width = columns / shard_.size;
        for (std::int64_t row = 0; row < part.rows; ++row) take(row * columns + shard_.rank * width, width);
      }
    }
    return all;
  }

  const Checkpoint& checkpoint_;
  Placer& placer_;
  Shard shard_;
};

LayerWeights load_layer(Loader& loader, const Config& c, const std::string& prefix) {
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  LayerWeights layer;
  layer.attention_norm = loader.load({{prefix + "input_layernorm.weight", c.hidden}}, 0);
  layer.qkv = loader.load_matrix({{attention + "q_proj.weight", c.q_width()},
                                  {attention + "k_proj.weight", c.kv_width()},
                                  {attention + "v_proj.weight", c.kv_width()}},
                                 c.hidden, Loader::Cut::rows);
  if (c.qkv_bias) {
    layer.qkv_bias = loader.load({{attention + "q_proj.bias", c.q_width()},
                                  {attention + "k_proj.bias", c.kv_width()},
                                  {attention + "v_proj.bias", c.kv_width()}},
                                 0, Loader::Cut::rows);
  }
  if (c.qk_norm) {
    layer.q_norm = loader.load({{attention + "q_norm.weight", c.head_dim}}, 0);
    layer.k_norm = loader.load({{attention + "k_norm.weight", c.head_dim}}, 0);
  }
  layer.output = loader.load_matrix({{attention + "o_proj.weight", c.hidden}}, c.q_width(), Loader::Cut::columns);
  // What the devices give is summed: one of them adds the bias.
  if (c.output_bias && loader.is_first()) layer.output_bias = loader.load({{attention + "o_proj.bias", c.hidden}}, 0);
  const auto norm = [&](const char* name) { return loader.load({{prefix + name + ".weight", c.hidden}}, 0); };
  layer.mlp_norm = norm(c.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm");
  if (c.post_norms) {
    layer.attention_post_norm = norm("post_attention_layernorm");
    layer.mlp_post_norm = norm("post_feedforward_layernorm");
  }
  layer.gate_up =
      loader.load_matrix({{mlp + "gate_proj.weight", c.intermediate}, {mlp + "up_proj.weight", c.intermediate}},
                         c.hidden, Loader::Cut::rows);
  layer.down = loader.load_matrix({{mlp + "down_proj.weight", c.hidden}}, c.intermediate, Loader::Cut::columns);
  return layer;
}

}  // namespace

Weights load_weights(const Checkpoint& checkpoint, const Config& config, Placer placer, Shard shard) {
  Loader loader(checkpoint, placer, shard);
  Weights weights;
  weights.embedding = loader.load({{"model.embed_tokens.weight", config.vocabulary}}, config.hidden);
  for (std::int64_t i = 0; i < config.layers; ++i)
    weights.layers.push_back(load_layer(loader, config, "model.layers." + std::to_string(i) + "."));
  weights.norm = loader.load({{"model.norm.weight", config.hidden}}, 0);
  const std::string logits = config.tied ? "model.embed_tokens.weight" : "lm_head.weight";
  if (config.tied && !placer.fp8()) {
    weights.logits.data = weights.embedding;
  } else {
    weights.logits = loader.load_matrix({{logits, config.vocabulary}}, config.hidden, Loader::Cut::none);
  }
  weights.memory = placer.take();
  return weights;
}

}  // namespace quern::engine
