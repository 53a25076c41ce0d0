// A checkpoint in one GGUF file: its values under the names of this engine, its tensors under transformers'.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/checkpoint/gguf.h"

namespace quern::engine {
namespace {

// How the tokenizers that files name by `tokenizer.ggml.pre` cut texts.
constexpr const char* kLlama3Words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDigit = R"(\p{N})";

constexpr std::array<std::pair<const char*, const char*>, 3> kOutside{
    {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}}};
constexpr std::array<std::pair<const char*, const char*>, 13> kOfLayers{
    {{"input_layernorm", "attn_norm"},
     {"self_attn.q_proj", "attn_q"},
     {"self_attn.k_proj", "attn_k"},
     {"self_attn.v_proj", "attn_v"},
     {"self_attn.o_proj", "attn_output"},
     {"self_attn.q_norm", "attn_q_norm"},
     {"self_attn.k_norm", "attn_k_norm"},
     {"post_attention_layernorm", "ffn_norm"},
     {"mlp.gate_proj", "ffn_gate"},
     {"mlp.up_proj", "ffn_up"},
     {"mlp.down_proj", "ffn_down"},
     {"pre_feedforward_layernorm", "ffn_norm"},
     {"post_feedforward_layernorm", "post_ffw_norm"}}};

// "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight"; empty where there is no such tensor.
std::string name_in_file(const std::string& name, bool gemma) {
  const std::size_t dot = name.rfind('.');
  std::string begin, middle = name.substr(0, dot);
  const std::string prefix = "model.layers.";
  if (middle.starts_with(prefix)) {
    const std::size_t end = middle.find('.', prefix.size());
    if (end == std::string::npos) return "";
    begin = "blk." + middle.substr(prefix.size(), end + 1 - prefix.size());
    middle = middle.substr(end + 1);
    // What transformers calls so is another norm in a Gemma-2 than in a Llama.
    if (gemma && middle == "post_attention_layernorm") return begin + "post_attention_norm" + name.substr(dot);
  }
  const auto find = [&](const auto& names) -> std::string {
    for (const auto& [ours, theirs] : names) {
      if (middle == ours) return begin + theirs + name.substr(dot);
    }
    return "";
  };
  return begin.empty() ? find(kOutside) : find(kOfLayers);
}

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(const std::string& path) : file_(path) {
    of_values([&] { config_ = read_config(); });
  }

  Config config() const override { return config_; }
  std::string chat_template() const override {
    const Json* found = file_.find("tokenizer.chat_template");
    return found == nullptr ? "" : of_values([&] { return found->string(); });
  }
  Vocabulary vocabulary() const override {
    return of_values([&] { return read_vocabulary(); });
  }
  bool has(const std::string& name) const override { return file_.tensor(theirs_of(name)) != nullptr; }

  std::vector<std::uint16_t> bf16(const std::string& name, const std::vector<std::int64_t>& shape) const override {
    const std::string theirs = theirs_of(name);
    const Gguf::Tensor* tensor = file_.tensor(theirs);
    if (tensor == nullptr) throw std::runtime_error(file_.path() + " has no tensor " + theirs + " (" + name + ")");
    check_shape(file_.path() + ": " + theirs, tensor->shape, shape);
    std::vector<std::uint16_t> values = file_.bf16(theirs);
    const bool turned = name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos;
    return turned && config_.type == "llama" ? unweave(values, shape[0]) : values;
  }

 private:
  // What read makes of the file's values; its errors name the file.
  template <class Read>
  auto of_values(const Read& read) const -> decltype(read()) {
    try {
      return read();
    } catch (const JsonError& error) {
      throw std::runtime_error(file_.path() + ": " + error.what());
    }
  }
  std::string theirs_of(const std::string& name) const { return name_in_file(name, config_.post_norms); }
  const Json* find(const char* name) const { return file_.find(architecture_ + "." + name); }
  std::int64_t whole(const char* name) const {
    const Json& found = file_.at(architecture_ + "." + name);
    if (!found.is_unsigned())
      throw JsonError(architecture_ + "." + name + " is " + found.dump().substr(0, 64) + ", no whole number");
    return checked(found.whole());
  }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return find(name) == nullptr ? otherwise : whole(name);
  }
  double number(const char* name, double otherwise) const {
    return find(name) == nullptr ? otherwise : find(name)->number();
  }
  static std::int64_t checked(std::uint64_t value) {
    return value > 1u << 30 ? throw JsonError("there is a size of " + std::to_string(value))
                            : static_cast<std::int64_t>(value);
  }
  std::int64_t token(const char* name) const {
    const Json* found = file_.find(std::string("tokenizer.ggml.") + name);
    return found == nullptr ? -1 : checked(found->whole());
  }

  Config read_config();
  void read_rope(Config* config) const;
  Vocabulary read_vocabulary() const;
  void read_types(Vocabulary* vocabulary) const;
  void read_pieces(Vocabulary* vocabulary) const;
  void read_ends(const std::string& model, const std::string& kind, Vocabulary* vocabulary) const;
  std::vector<std::uint16_t> unweave(const std::vector<std::uint16_t>& values, std::int64_t rows) const;

  Gguf file_;
  std::string architecture_;
  Config config_;
};

Config GgufCheckpoint::read_config() {
  architecture_ = file_.at("general.architecture").string();
  Config config;
  config.type = architecture_;  // Mistral's models are stored as Llamas
  const bool gemma = config.type == "gemma2";
  if (config.type != "llama" && config.type != "qwen2" && config.type != "qwen3" && !gemma)
    throw JsonError("general.architecture is " + config.type + "; allowed: llama, qwen2, qwen3, gemma2");
  if (whole("expert_count", 0) != 0)
    throw JsonError(architecture_ + ".expert_count is not 0: there are no experts here");
  const std::int64_t window = whole("attention.sliding_window", 0);
  if (window != 0 && !gemma)
    throw JsonError(architecture_ + ".attention.sliding_window is not 0: there are no windows here");
  config.hidden = whole("embedding_length");
  config.layers = whole("block_count");
  config.heads = whole("attention.head_count");
  config.kv_heads = whole("attention.head_count_kv", config.heads);
  config.head_dim = whole("attention.key_length", config.heads > 0 ? config.hidden / config.heads : 0);
  if (whole("attention.value_length", config.head_dim) != config.head_dim)
    throw JsonError(architecture_ + ".attention.value_length is not that of keys");
  config.intermediate = whole("feed_forward_length");
  config.positions = whole("context_length");
  config.vocabulary = static_cast<std::int64_t>(file_.at("tokenizer.ggml.tokens").items().size());
  config.eps = static_cast<float>(number("attention.layer_norm_rms_epsilon", 1e-6));
  config.tied = file_.tensor("output.weight") == nullptr;
  config.qk_norm = config.type == "qwen3";
  config.qkv_bias = file_.tensor("blk.0.attn_q.bias") != nullptr;
  config.output_bias = file_.tensor("blk.0.attn_output.bias") != nullptr;
  if (gemma) {  // the norms' weights are stored with their 1
    config.post_norms = true;
    config.activation = QUERN_ACTIVATION_GELU_TANH;
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
    config.attention_cap = static_cast<float>(number("attn_logit_softcapping", 50.0));
    config.logit_cap = static_cast<float>(number("final_logit_softcapping", 30.0));
    // The file does not say what the largest of them, of 46 layers, divides by.
    if (config.layers == 46 && config.heads > 0)
      config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.hidden / config.heads));
  }
  read_rope(&config);
  config.begin = token("bos_token_id");
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const std::int64_t end = token(name);
    if (end >= 0 && std::find(config.ends.begin(), config.ends.end(), end) == config.ends.end())
      config.ends.push_back(end);
  }
  check_config(config);
  for (std::int64_t i = 0; gemma && i < config.layers; ++i) config.windows.push_back(i % 2 == 0 ? window : 0);
  return config;
}

void GgufCheckpoint::read_rope(Config* config) const {
  quern_rope_options& rope = config->rope;
  rope.size = sizeof rope;
  rope.theta = number("rope.freq_base", 10000.0);
  if (whole("rope.dimension_count", config->head_dim) != config->head_dim)
    throw JsonError(architecture_ + ".rope.dimension_count is not the head dimension");
  const Json* type = find("rope.scaling.type");
  const std::string kind = type == nullptr ? "none" : type->string();
  if (kind == "linear" || kind == "yarn") {
    rope.scaling = kind == "linear" ? QUERN_ROPE_LINEAR : QUERN_ROPE_YARN;
    rope.factor = number("rope.scaling.factor", 1.0);
    if (kind == "yarn")
      rope.original_positions = static_cast<std::int32_t>(whole("rope.scaling.original_context_length"));
  } else if (kind != "none") {
    throw JsonError(architecture_ + ".rope.scaling.type is " + kind + "; allowed: none, linear, yarn");
  }
  // Llama 3.1's way comes as a divisor of each frequency.
  if (const Gguf::Tensor* divisors = file_.tensor("rope_freqs.weight"); divisors != nullptr) {
    check_shape(file_.path() + ": rope_freqs.weight", divisors->shape, {config->head_dim / 2});
    if (kind != "none") throw JsonError("there are both rope_freqs.weight and " + architecture_ + ".rope.scaling.type");
    config->rope_divisors = file_.f32("rope_freqs.weight");
    for (const float divisor : config->rope_divisors) {
      if (!(divisor > 0.0f)) throw JsonError("rope_freqs.weight has numbers that are not above 0");
    }
  }
}

Vocabulary GgufCheckpoint::read_vocabulary() const {
  Vocabulary vocabulary;
  vocabulary.source = file_.path();
  const auto name = [&](const char* what) { return std::string("tokenizer.ggml.") + what; };
  const std::string& model = file_.at(name("model")).string();
  if (model != "gpt2" && model != "llama")
    throw JsonError(name("model") + " is " + model + "; allowed: gpt2 (byte-level BPE), llama (SentencePiece)");
  for (const Json& entry : file_.at(name("tokens")).items()) vocabulary.entries.push_back(entry.string());
  const Json* pre = file_.find(name("pre"));
  const std::string kind = pre == nullptr ? "default" : pre->string();
  read_ends(model, kind, &vocabulary);
  if (model == "llama") {
    read_pieces(&vocabulary);
    return vocabulary;
  }
  if (kind == "llama-bpe" || kind == "llama3") {
    vocabulary.patterns = {kLlama3Words};
    vocabulary.whole_pieces = true;
  } else if (kind == "qwen2") {
    vocabulary.patterns = {kQwen2Words};
    vocabulary.nfc = true;
  } else if (kind == "smollm") {
    vocabulary.patterns = {kDigit, kWords};
  } else if (kind == "gpt-2" || kind == "default") {
    vocabulary.patterns = {kWords};
  } else {
    throw JsonError(name("pre") + " is " + kind + "; allowed: gpt-2, default, smollm, llama-bpe, llama3, qwen2");
  }
  for (const Json& merge : file_.at(name("merges")).items()) {
    const std::string& text = merge.string();
    // A half may itself be nothing but what stands for a space, never a space.
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) throw JsonError("the merge " + text + " is not of two entries");
    vocabulary.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  read_types(&vocabulary);
  return vocabulary;
}

// The tokens that begin and end texts, and whether they are put there; where a file does not say it, by its tokenizer.
void GgufCheckpoint::read_ends(const std::string& model, const std::string& kind, Vocabulary* vocabulary) const {
  vocabulary->begin = static_cast<std::int32_t>(token("bos_token_id"));
  vocabulary->end = static_cast<std::int32_t>(token("eos_token_id"));
  const Json *front = file_.find("tokenizer.ggml.add_bos_token"), *behind = file_.find("tokenizer.ggml.add_eos_token");
  const bool begins = front != nullptr ? front->boolean() : model == "llama" || kind == "llama-bpe";
  if (begins && vocabulary->begin >= 0) vocabulary->front = {vocabulary->begin};
  if (behind != nullptr && behind->boolean() && vocabulary->end >= 0) vocabulary->behind = {vocabulary->end};
}

// Tokens that are found in a text before anything else is, by their types.
void GgufCheckpoint::read_types(Vocabulary* vocabulary) const {
  const char* const name = "tokenizer.ggml.token_type";
  constexpr std::uint64_t kControl = 3, kDefined = 4;  // the first of these are not shown
  const Json* types = file_.find(name);
  if (types == nullptr) return;
  if (types->items().size() != vocabulary->entries.size())
    throw JsonError(std::string(name) + " is not as long as the vocabulary");
  for (std::size_t i = 0; i < vocabulary->entries.size(); ++i) {
    const std::uint64_t type = types->items()[i].whole();
    if (type == kControl || type == kDefined)
      vocabulary->specials.push_back({vocabulary->entries[i], static_cast<std::int32_t>(i), type == kDefined});
  }
}

// SentencePiece's: pieces with scores instead of merges.
void GgufCheckpoint::read_pieces(Vocabulary* vocabulary) const {
  const std::string scores = "tokenizer.ggml.scores", types = "tokenizer.ggml.token_type";
  for (const std::string& each : {scores, types}) {
    if (file_.at(each).items().size() != vocabulary->entries.size())
      throw JsonError(each + " is not as long as the vocabulary");
  }
  constexpr std::uint64_t kNormal = 1;
  vocabulary->by_characters = vocabulary->fuse_unknown = true;
  for (std::size_t i = 0; i < vocabulary->entries.size(); ++i) {
    const bool normal = file_.at(types).items()[i].whole() == kNormal;
    vocabulary->scores.push_back(normal ? static_cast<float>(file_.at(scores).items()[i].number())
                                        : std::numeric_limits<float>::quiet_NaN());
  }
  vocabulary->unknown = static_cast<std::int32_t>(token("unknown_token_id"));
  const Json* space = file_.find("tokenizer.ggml.add_space_prefix");
  if (space == nullptr || space->boolean()) vocabulary->prefix = Vocabulary::Prefix::anyway;
  vocabulary->drops_prefix = vocabulary->prefix != Vocabulary::Prefix::none;
  read_types(vocabulary);
}

// Files of Llamas have each head's rows in the order in which an interleaved rope turns them, 2i and 2i + 1 together;
// transformers, and this engine, turn i and i + d/2.
std::vector<std::uint16_t> GgufCheckpoint::unweave(const std::vector<std::uint16_t>& values, std::int64_t rows) const {
  std::vector<std::uint16_t> result(values.size());
  const std::int64_t dim = config_.head_dim, columns = static_cast<std::int64_t>(values.size()) / rows;
  if (rows % dim != 0) throw std::runtime_error(file_.path() + ": the rows of q and k are not those of whole heads");
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = row / dim, i = row % dim;
    const std::int64_t from = head * dim + i % (dim / 2) * 2 + i / (dim / 2);
    std::copy_n(values.begin() + from * columns, columns, result.begin() + row * columns);
  }
  return result;
}

}  // namespace

std::unique_ptr<Checkpoint> open_gguf(const std::string& file) { return std::make_unique<GgufCheckpoint>(file); }

}  // namespace quern::engine
