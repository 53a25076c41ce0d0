// What families of models do otherwise than a plain Llama, against the same maths in double: Gemma-2's caps, windows,
// norms behind each half of a layer, 1 + weight, embedding's scale and gelu; Qwen-2's biases, Qwen-3's norms of q and
// k, Mistral's windows; heads that turn in part, and biases of a Llama. Of each it is shown that the logits would be
// others without it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <stdexcept>

#include "bindings/engine/checkpoint/numbers.h"
#include "bindings/engine/model.h"
#include "bindings/json/json.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Config;
using Numbers = std::vector<double>;

// What all of them have, and what is a family's own.
constexpr const char* kSizes = R"("hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 256, "vocab_size": 96, "max_position_embeddings": 64,
  "rms_norm_eps": 1e-6, "bos_token_id": 2, "eos_token_id": 1, "rope_theta": 10000.0)";
constexpr const char* kGemma = R"("model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh",
  "query_pre_attn_scalar": 24, "sliding_window": 5, "attn_logit_softcapping": 2.5, "final_logit_softcapping": 6.0)";

std::string config_text(const std::string& own, const std::string& sizes = kSizes) {
  return "{" + own + ", " + sizes + "}";
}

// Random weights under the names that transformers gives them.
class Made final : public engine::Checkpoint {
 public:
  Made(const std::string& own, unsigned seed, const std::string& sizes = kSizes)
      : config_(engine::config_of_json(Json::parse(config_text(own, sizes)))) {
    std::mt19937 random(seed);
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, float most) {
      std::uniform_real_distribution<float> number(-most, most);
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      std::vector<std::uint16_t>& values = tensors_[name];
      for (std::int64_t i = 0; i < count; ++i) values.push_back(engine::bf16_of(number(random)));
    };
    const Config& c = config_;
    // Around 0 where 1 is added, else around 1, and wide enough that one is not another.
    const auto add_norm = [&](const std::string& name, std::int64_t size) {
      add(name, {size}, 0.8f);
      if (c.norm_plus_one) return;
      for (std::uint16_t& bits : tensors_[name]) {
        const float offset = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
        bits = engine::bf16_of(1.0f + offset);
      }
    };
    add("model.embed_tokens.weight", {c.vocabulary, c.hidden}, c.embedding_scale == 1.0f ? 3.0f : 0.3f);
    if (!c.tied) add("lm_head.weight", {c.vocabulary, c.hidden}, 0.3f);
    for (std::int64_t i = 0; i < c.layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".", attention = layer + "self_attn.";
      for (const char* name : {"input_layernorm", "post_attention_layernorm"})
        add_norm(layer + name + ".weight", c.hidden);
      for (const char* name : {"pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
        if (c.post_norms) add_norm(layer + name + ".weight", c.hidden);
      }
      for (const char* name : {"q_norm", "k_norm"}) {
        if (c.qk_norm) add_norm(attention + name + ".weight", c.head_dim);
      }
      for (const auto& [name, rows] :
           {std::pair{"q_proj", c.q_width()}, {"k_proj", c.kv_width()}, {"v_proj", c.kv_width()}}) {
        add(attention + name + ".weight", {rows, c.hidden}, 0.2f);
        if (c.qkv_bias) add(attention + name + ".bias", {rows}, 2.0f);
      }
      add(attention + "o_proj.weight", {c.hidden, c.q_width()}, 0.2f);
      if (c.output_bias) add(attention + "o_proj.bias", {c.hidden}, 2.0f);
      add(layer + "mlp.gate_proj.weight", {c.intermediate, c.hidden}, 0.2f);
      add(layer + "mlp.up_proj.weight", {c.intermediate, c.hidden}, 0.2f);
      add(layer + "mlp.down_proj.weight", {c.hidden, c.intermediate}, 0.2f);
    }
    add_norm("model.norm.weight", c.hidden);
  }
  Config config() const override { return config_; }
  engine::Vocabulary vocabulary() const override { return {}; }
  std::string chat_template() const override { return ""; }
  bool has(const std::string& name) const override { return tensors_.contains(name); }
  std::vector<std::uint16_t> bf16(const std::string& name, const std::vector<std::int64_t>&) const override {
    return tensors_.at(name);
  }

 private:
  Config config_;
  std::map<std::string, std::vector<std::uint16_t>> tensors_;
};

// One text's last logits, by loops in double.
class Reference {
 public:
  Reference(const Made& made, const Config& config) : made_(made), c_(config) {}

  Numbers logits(const std::vector<std::int32_t>& tokens) const {
    std::vector<Numbers> x;
    const Numbers table = weights("model.embed_tokens");
    for (const std::int32_t token : tokens) {
      const auto row = table.begin() + token * c_.hidden;
      Numbers& numbers = x.emplace_back(row, row + c_.hidden);
      for (double& number : numbers) number *= static_cast<double>(c_.embedding_scale);
    }
    for (std::int64_t i = 0; i < c_.layers; ++i) run_layer(static_cast<std::size_t>(i), x);
    Numbers result = product(c_.tied ? table : weights("lm_head"), norm(x.back(), "model.norm"));
    for (double& logit : result) logit = capped(logit, c_.logit_cap);
    return result;
  }

 private:
  Numbers weights(const std::string& name, const char* kind = ".weight") const {
    Numbers values;
    for (const std::uint16_t bits : made_.bf16(name + kind, {}))
      values.push_back(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)));
    return values;
  }
  static double capped(double x, float cap) {
    const auto by = static_cast<double>(cap);
    return by > 0.0 ? by * std::tanh(x / by) : x;
  }
  static Numbers product(const Numbers& matrix, const Numbers& x) {
    Numbers result(matrix.size() / x.size());
    for (std::size_t row = 0; row < result.size(); ++row) {
      for (std::size_t i = 0; i < x.size(); ++i) result[row] += matrix[row * x.size() + i] * x[i];
    }
    return result;
  }
  Numbers norm(Numbers x, const std::string& name) const { return norm(std::move(x), weights(name)); }
  Numbers norm(Numbers x, const Numbers& by) const {
    double sum = 0.0;
    for (const double number : x) sum += number * number;
    const double root = std::sqrt(sum / static_cast<double>(x.size()) + static_cast<double>(c_.eps));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= (by[i] + (c_.norm_plus_one ? 1.0 : 0.0)) / root;
    return x;
  }
  void turn(Numbers& heads, std::size_t position) const {
    const auto dim = static_cast<std::size_t>(c_.head_dim);
    const std::size_t turning = c_.rope.rotary_dim != 0 ? static_cast<std::size_t>(c_.rope.rotary_dim) : dim;
    for (std::size_t head = 0; head < heads.size(); head += dim) {
      for (std::size_t i = 0; i < turning / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(c_.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(turning));
        const double a = heads[head + i], b = heads[head + i + turning / 2];
        heads[head + i] = a * std::cos(angle) - b * std::sin(angle);
        heads[head + i + turning / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  // Each head by itself.
  Numbers norm_heads(Numbers heads, const std::string& name) const {
    if (!c_.qk_norm) return heads;
    const Numbers by = weights(name);
    const auto dim = static_cast<std::ptrdiff_t>(c_.head_dim);
    for (auto head = heads.begin(); head != heads.end(); head += dim) {
      const Numbers normed = norm(Numbers(head, head + dim), by);
      std::copy(normed.begin(), normed.end(), head);
    }
    return heads;
  }
  Numbers attend(const std::vector<Numbers>& q, const std::vector<Numbers>& k, const std::vector<Numbers>& v,
                 std::size_t at, std::size_t window) const {
    const auto dim = static_cast<std::size_t>(c_.head_dim), group = static_cast<std::size_t>(c_.heads / c_.kv_heads);
    const std::size_t first = window > 0 && at + 1 > window ? at + 1 - window : 0;
    Numbers out(q[at].size());
    for (std::size_t head = 0; head < static_cast<std::size_t>(c_.heads); ++head) {
      const std::size_t kv = head / group * dim;
      double all = 0.0;
      Numbers sum(dim);
      for (std::size_t j = first; j <= at; ++j) {
        double score = 0.0;
        for (std::size_t i = 0; i < dim; ++i) score += q[at][head * dim + i] * k[j][kv + i];
        score *= c_.attention_scale > 0.0f ? static_cast<double>(c_.attention_scale)
                                           : 1.0 / std::sqrt(static_cast<double>(dim));
        const double weight = std::exp(capped(score, c_.attention_cap));
        all += weight;
        for (std::size_t i = 0; i < dim; ++i) sum[i] += weight * v[j][kv + i];
      }
      for (std::size_t i = 0; i < dim; ++i) out[head * dim + i] = sum[i] / all;
    }
    return out;
  }
  double activation(double x) const {
    if (c_.activation == QUERN_ACTIVATION_SILU) return x / (1.0 + std::exp(-x));
    return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  void run_layer(std::size_t index, std::vector<Numbers>& x) const {
    const std::string layer = "model.layers." + std::to_string(index) + ".";
    const auto by = [&](const char* name, const Numbers& of, bool biased = false) {
      Numbers result = product(weights(layer + name), of);
      if (!biased) return result;
      const Numbers bias = weights(layer + name, ".bias");
      for (std::size_t i = 0; i < result.size(); ++i) result[i] += bias[i];
      return result;
    };
    const auto add = [&](Numbers& to, Numbers what, const char* post) {
      if (c_.post_norms) what = norm(what, layer + post);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
    };
    std::vector<Numbers> q, k, v;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Numbers normed = norm(x[t], layer + "input_layernorm");
      q.push_back(norm_heads(by("self_attn.q_proj", normed, c_.qkv_bias), layer + "self_attn.q_norm"));
      k.push_back(norm_heads(by("self_attn.k_proj", normed, c_.qkv_bias), layer + "self_attn.k_norm"));
      v.push_back(by("self_attn.v_proj", normed, c_.qkv_bias));
      turn(q[t], t), turn(k[t], t);
    }
    const std::size_t window = c_.windows.empty() ? 0 : static_cast<std::size_t>(c_.windows[index]);
    for (std::size_t t = 0; t < x.size(); ++t) {
      add(x[t], by("self_attn.o_proj", attend(q, k, v, t, window), c_.output_bias), "post_attention_layernorm");
      const Numbers normed =
          norm(x[t], layer + (c_.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
      Numbers gate = by("mlp.gate_proj", normed);
      const Numbers up = by("mlp.up_proj", normed);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = activation(gate[i]) * up[i];
      add(x[t], by("mlp.down_proj", gate), "post_feedforward_layernorm");
    }
  }

  const Made& made_;
  Config c_;
};

double apart(const std::vector<float>& a, const Numbers& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

struct Family {
  const char* name;
  const char* own;  // of its config.json
  struct Change {
    const char* what;
    void (*change)(Config&);
  };
  std::vector<Change> without;  // each of these is another model
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

class Families : public testing::TestWithParam<Family> {};

TEST_P(Families, AreWhatTheirMathsSay) {
  const unsigned seed = std::random_device{}();
  std::printf("seed: %u\n", seed);
  const Made made(GetParam().own, seed);
  const demo::Context context = engine_context();
  engine::Limits limits;
  limits.sequences = 1, limits.tokens = 8, limits.context = 32, limits.graph = true;
  engine::Model model(context.get(), device_of(context.get()), made, limits);
  std::mt19937 random(seed);
  std::vector<std::int32_t> text, pages = {1, 0};
  for (int i = 0; i < 13; ++i) text.push_back(static_cast<std::int32_t>(random() % 96));
  for (std::size_t at = 0; at < text.size(); at += 7) {  // the last chunk is one token
    const auto first = text.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = std::min<std::size_t>(at == 0 ? 7 : 5, text.size() - at);
    model.step({{{first, first + static_cast<std::ptrdiff_t>(count)}, static_cast<std::int64_t>(at), &pages, {}}});
  }
  model.step({{{text.back()}, static_cast<std::int64_t>(text.size()) - 1, &pages, {}}});
  const std::vector<float> logits = model.logits();
  const Config config = made.config();
  const double right = apart(logits, Reference(made, config).logits(text));
  std::printf("%.4f apart\n", right);
  EXPECT_LT(right, 0.12);
  for (const auto& [what, change] : GetParam().without) {
    Config other = config;
    change(other);
    const double wrong = apart(logits, Reference(made, other).logits(text));
    EXPECT_GT(wrong, 2.0 * right) << what;
  }
}

const Family kFamilies[] = {
    {"Gemma2",
     kGemma,
     {{"1 + weight", [](Config& c) { c.norm_plus_one = false; }},
      {"norms behind", [](Config& c) { c.post_norms = false; }},
      {"the embedding's scale", [](Config& c) { c.embedding_scale = 1.0f; }},
      {"gelu", [](Config& c) { c.activation = QUERN_ACTIVATION_SILU; }},
      {"attention's scale", [](Config& c) { c.attention_scale = 1.0f; }},
      {"attention's cap", [](Config& c) { c.attention_cap = 0.0f; }},
      {"the logits' cap", [](Config& c) { c.logit_cap = 0.0f; }},
      {"windows", [](Config& c) { c.windows.clear(); }},
      {"the other layer's window", [](Config& c) { std::swap(c.windows[0], c.windows[1]); }}}},
    {"Qwen2",
     R"("model_type": "qwen2", "use_sliding_window": false, "sliding_window": 5)",
     {{"biases", [](Config& c) { c.qkv_bias = false; }}}},
    {"Qwen3",
     R"("model_type": "qwen3", "attention_bias": false)",
     {{"norms of heads", [](Config& c) { c.qk_norm = false; }}}},
    {"Mistral",
     R"("model_type": "mistral", "sliding_window": 5)",
     {{"windows", [](Config& c) { c.windows.clear(); }},
      {"a longer window", [](Config& c) { c.windows.assign(2, 6); }},
      {"the first layer's window", [](Config& c) { c.windows[0] = 0; }}}},
    {"Partial",
     R"("model_type": "llama", "partial_rotary_factor": 0.5)",
     {{"a half that stays", [](Config& c) { c.rope.rotary_dim = 0; }},
      {"less that turns", [](Config& c) { c.rope.rotary_dim = 8; }}}},
    {"Biased",
     R"("model_type": "llama", "attention_bias": true)",
     {{"the output's bias", [](Config& c) { c.output_bias = false; }},
      {"biases of q, k and v", [](Config& c) { c.qkv_bias = false; }}}},
};
INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(kFamilies), [](const auto& each) { return each.param.name; });

// With weights of 8 bits a step of single tokens hands codes from attention and from the gated product to what follows:
// it is as near to the maths as one of two tokens, whose results are quantised by launches of their own.
TEST(FamiliesInCodes, SingleTokensAreAsNearAsChunks) {
  const unsigned seed = std::random_device{}();
  std::printf("seed: %u\n", seed);
  std::string sizes = kSizes;
  sizes.replace(sizes.find("\"head_dim\": 32"), 14, "\"head_dim\": 128");
  const Made made(R"("model_type": "llama")", seed, sizes);
  const demo::Context context = engine_context();
  std::mt19937 random(seed);
  std::vector<std::int32_t> text;
  for (int i = 0; i < 21; ++i) text.push_back(static_cast<std::int32_t>(random() % 96));
  const Numbers right = Reference(made, made.config()).logits(text);
  const auto size_of = [](const Numbers& x) {
    double sum = 0.0;
    for (const double each : x) sum += each * each;
    return std::sqrt(sum / static_cast<double>(x.size()));
  };
  for (const bool cache : {false, true}) {
    engine::Limits limits;
    limits.sequences = 1, limits.tokens = 20, limits.context = 32, limits.fp8_weights = true, limits.fp8_cache = cache;
    engine::Model model(context.get(), device_of(context.get()), made, limits);
    const std::vector<std::int32_t> pages = {1, 0};
    double off[2];
    for (const std::size_t count : {1, 2}) {
      model.step({{{text.begin(), text.end() - static_cast<std::ptrdiff_t>(count)}, 0, &pages, {}}});
      const auto first = static_cast<std::int64_t>(text.size() - count);
      model.step({{{text.begin() + first, text.end()}, first, &pages, {}}});
      Numbers rest = right;
      const std::vector<float> logits = model.logits();
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= static_cast<double>(logits[i]);
      off[count - 1] = size_of(rest);
    }
    std::printf("%.4f and %.4f apart of %.4f\n", off[0], off[1], size_of(right));
    EXPECT_LT(off[0], 1.5 * off[1] + 0.01 * size_of(right));
    EXPECT_LT(off[0], 0.3 * size_of(right));
  }
}

TEST(FamiliesConfig, RefusesWhatItWouldGetWrong) {
  const auto refused = [](const std::string& from, const std::string& to) -> std::string {
    std::string text = config_text(kGemma);
    text.replace(text.find(from), from.size(), to);
    try {
      engine::config_of_json(Json::parse(text));
      return "";
    } catch (const JsonError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refused("gelu_pytorch_tanh", "relu"), "the activation is relu; allowed: gelu_pytorch_tanh");
  EXPECT_EQ(refused("\"sliding_window\": 5", "\"sliding_window\": 0"),
            "sliding_window is 0; allowed: null, 1 to 4194304");
  EXPECT_EQ(refused("\"bos_token_id\"", "\"layer_types\": [\"sliding_attention\"], \"bos_token_id\""),
            "layer_types are not as many as the layers");
  EXPECT_EQ(refused("gemma2", "gemma3"), "model_type is gemma3; allowed: llama, mistral, qwen2, qwen3, gemma2");
}

}  // namespace
}  // namespace quern::test
