// Models' config.json files: what is read from each, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class ModelConfig : public CommandTest {
 protected:
  static Json config(const std::string& name) {
    return Json::parse(read(std::filesystem::path(QUERN_CLI_CONFIGS) / (name + ".json")));
  }

  // What is read of the model. Nothing is compiled, and whether an op has kernels for it does not matter here.
  Json model(const Json& json, std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(),
                     {"warm", "--config", write("config.json", json.dump()), "--target", "sm_90a", "--list-only"});
    const Json result = quern_json(std::move(arguments));
    EXPECT_TRUE(result.contains("model")) << result;
    return result.value("model", Json::object());
  }

  // Refused, exit code 1, with a message that holds the file's name and every part.
  void refused(const std::string& text, const std::vector<std::string>& parts,
               std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(),
                     {"warm", "--config", write("config.json", text), "--target", "sm_90a", "--list-only"});
    const Json json = quern_json(std::move(arguments));
    EXPECT_EQ(json["code"], 1);
    const std::string message = json["error"]["text"];
    EXPECT_TRUE(has(message, "config.json"));
    for (const std::string& part : parts) EXPECT_TRUE(has(message, part));
  }
  void refused(const Json& json, const std::vector<std::string>& parts, std::vector<std::string> arguments = {}) const {
    refused(json.dump(), parts, std::move(arguments));
  }

  static void expect(const Json& model, const Json& wanted) {
    for (const auto& [name, value] : wanted.items()) EXPECT_EQ(model.value(name, Json()), value) << name;
  }
};

TEST_F(ModelConfig, Llama) {
  expect(model(config("llama-3-8b")), {{"model_type", "llama"}, {"hidden_size", 4096},  {"intermediate_size", 14336},
                                       {"layers", 32},          {"heads", 32},          {"kv_heads", 8},
                                       {"head_dim", 128},       {"vocab_size", 128256}, {"max_positions", 8192},
                                       {"tensor_parallel", 1},  {"sliding_window", 0},  {"experts", 0},
                                       {"logit_cap", 0.0},      {"dtype", "bf16"},      {"kv_dtype", "bf16"},
                                       {"gated_mlp", true},     {"activation", "silu"}, {"shared_experts", 0},
                                       {"sinks", false},        {"bias", false},        {"fp8", false},
                                       {"block_fp8", false},    {"mla", false}});
  expect(model(config("llama-3.1-70b"), {"--tp", "8"}),
         {{"heads", 64}, {"kv_heads", 8}, {"head_dim", 128}, {"layers", 80}, {"tensor_parallel", 8}});
}

TEST_F(ModelConfig, Mixtral) {
  expect(model(config("mixtral-8x7b")), {{"experts", 8},
                                         {"experts_per_token", 2},
                                         {"expert_intermediate_size", 14336},
                                         {"sliding_window", 0},
                                         {"head_dim", 128},
                                         {"kv_heads", 8}});
}

TEST_F(ModelConfig, Mistral) {
  Json json = config("llama-3-8b");
  json["model_type"] = "mistral";
  json["sliding_window"] = 4096;
  expect(model(json), {{"model_type", "mistral"}, {"sliding_window", 4096}});
  json["sliding_window"] = nullptr;
  json["head_dim"] = 160;
  expect(model(json), {{"sliding_window", 0}, {"head_dim", 160}});
}

TEST_F(ModelConfig, Qwen) {
  expect(model(config("qwen3-8b")),
         {{"model_type", "qwen3"}, {"head_dim", 128}, {"kv_heads", 8}, {"vocab_size", 151936}});
  Json json = config("qwen3-8b");
  json["model_type"] = "qwen2";
  json["sliding_window"] = 32768;
  json["use_sliding_window"] = false;
  expect(model(json), {{"model_type", "qwen2"}, {"sliding_window", 0}, {"bias", true}});
  json["use_sliding_window"] = true;
  expect(model(json), {{"sliding_window", 32768}});
  json["model_type"] = "qwen3_moe";
  json["num_experts"] = 128;
  json["num_experts_per_tok"] = 8;
  json["moe_intermediate_size"] = 768;
  expect(model(json), {{"experts", 128}, {"experts_per_token", 8}, {"expert_intermediate_size", 768}});
}

TEST_F(ModelConfig, Gemma2) {
  expect(model(config("gemma-2-9b")), {{"head_dim", 256},
                                       {"heads", 16},
                                       {"kv_heads", 8},
                                       {"logit_cap", 50.0},
                                       {"final_logit_cap", 30.0},
                                       {"embedding_scale", true},
                                       {"sliding_window", 4096},
                                       {"activation", "gelu_tanh"}});
}

TEST_F(ModelConfig, GptOss) {
  expect(model(config("gpt-oss-20b")), {{"sinks", true},
                                        {"head_dim", 64},
                                        {"heads", 64},
                                        {"kv_heads", 8},
                                        {"experts", 32},
                                        {"experts_per_token", 4},
                                        {"expert_intermediate_size", 2880},
                                        {"bias", true},
                                        {"sliding_window", 128}});
}

TEST_F(ModelConfig, Gpt2) {
  expect(model(config("gpt2")), {{"hidden_size", 768},
                                 {"intermediate_size", 3072},
                                 {"layers", 12},
                                 {"heads", 12},
                                 {"kv_heads", 12},
                                 {"head_dim", 64},
                                 {"max_positions", 1024},
                                 {"activation", "gelu_tanh"},
                                 {"bias", true},
                                 {"layer_norm", true},
                                 {"gated_mlp", false}});
}

TEST_F(ModelConfig, Deepseek) {
  expect(model(config("deepseek-v3"), {"--tp", "16"}), {{"mla", true},
                                                        {"block_fp8", true},
                                                        {"heads", 128},
                                                        {"head_dim", 192},
                                                        {"v_head_dim", 128},
                                                        {"rope_head_dim", 64},
                                                        {"kv_lora_rank", 512},
                                                        {"q_lora_rank", 1536},
                                                        {"experts", 256},
                                                        {"experts_per_token", 8},
                                                        {"expert_intermediate_size", 2048},
                                                        {"shared_experts", 1},
                                                        {"fp8", false},
                                                        {"bias", false}});
  Json json = config("deepseek-v3");
  json["model_type"] = "deepseek_v2";
  json["q_lora_rank"] = nullptr;
  json.erase("quantization_config");
  json["n_shared_experts"] = 0;
  expect(model(json), {{"mla", true}, {"q_lora_rank", 0}, {"block_fp8", false}, {"shared_experts", 0}});
  json.erase("n_shared_experts");
  expect(model(json), {{"shared_experts", 0}});
}

TEST_F(ModelConfig, TheArchitectureServesWhereTheTypeIsMissing) {
  Json json = config("llama-3-8b");
  json.erase("model_type");
  expect(model(json), {{"model_type", "llama"}});
}

TEST_F(ModelConfig, TypesFromFileAndCommandLine) {
  Json json = config("llama-3-8b");
  json["torch_dtype"] = "float16";
  expect(model(json), {{"dtype", "f16"}, {"kv_dtype", "f16"}});
  expect(model(json, {"--kv-dtype", "e4m3"}), {{"dtype", "f16"}, {"kv_dtype", "e4m3"}});
  expect(model(json, {"--dtype", "bf16", "--page-size", "32"}),
         {{"dtype", "bf16"}, {"kv_dtype", "bf16"}, {"page_size", 32}});
  json.erase("torch_dtype");
  json["dtype"] = "float16";
  expect(model(json), {{"dtype", "f16"}});
  json["dtype"] = "float32";
  refused(json, {"dtype", "float32", "bfloat16, float16", "--dtype"});
  expect(model(json, {"--dtype", "bf16"}), {{"dtype", "bf16"}});
}

TEST_F(ModelConfig, Activations) {
  const std::pair<const char*, const char*> names[] = {
      {"silu", "silu"},          {"swish", "silu"},          {"gelu", "gelu"},
      {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
      {"relu", "relu"},
  };
  Json json = config("llama-3-8b");
  for (const auto& [given, read] : names) {
    json["hidden_act"] = given;
    expect(model(json), {{"activation", read}});
  }
  json["hidden_activation"] = "gelu";
  expect(model(json), {{"activation", "gelu"}});
  json.erase("hidden_activation");
  json.erase("hidden_act");
  expect(model(json), {{"activation", "silu"}});
  json = config("gpt2");
  json.erase("activation_function");
  expect(model(json), {{"activation", "gelu_tanh"}});
}

TEST_F(ModelConfig, Biases) {
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    Json json = config("llama-3-8b");
    json[field] = true;
    expect(model(json), {{"bias", true}});
    json[field] = false;
    expect(model(json), {{"bias", false}});
    json[field] = "yes";
    refused(json, {field, "\"yes\" given", "true or false"});
  }
}

TEST_F(ModelConfig, WeightsIn8BitFloatingPoint) {
  const auto group = [](const char* strategy) {
    return Json{{"weights", {{"num_bits", 8}, {"type", "float"}, {"strategy", strategy}}}};
  };
  const Json scaled_per_channel[] = {
      {{"quant_method", "fp8"}},
      {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", nullptr}},
      {{"quant_method", "fbgemm_fp8"}},
      {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}},
      {{"quant_method", "compressed-tensors"}, {"config_groups", {{"group_0", group("channel")}}}},
      {{"quant_method", "compressed-tensors"}, {"config_groups", {{"a", group("tensor")}, {"b", group("channel")}}}},
  };
  Json json = config("llama-3-8b");
  for (const Json& quantisation : scaled_per_channel) {
    json["quantization_config"] = quantisation;
    expect(model(json), {{"fp8", true}, {"block_fp8", false}});
  }
  json["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  expect(model(json), {{"fp8", false}, {"block_fp8", true}});
}

TEST_F(ModelConfig, WeightsByCommandLine) {
  const Json dense = config("llama-3-8b"), blocks = config("deepseek-v3");
  expect(model(dense, {"--weights", "fp8"}), {{"fp8", true}, {"block_fp8", false}});
  expect(model(dense, {"--weights", "fp8-block"}), {{"fp8", false}, {"block_fp8", true}});
  expect(model(blocks, {"--weights", "bf16"}), {{"fp8", false}, {"block_fp8", false}});
  expect(model(blocks, {"--weights", "fp8"}), {{"fp8", true}, {"block_fp8", false}});
}

TEST_F(ModelConfig, WhatNoKernelIsMadeForIsSaid) {
  const auto noted = [&](const Json& json, const std::string& part, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(),
                     {"warm", "--config", write("config.json", json.dump()), "--target", "sm_90a", "--list-only"});
    const Json result = quern_json(std::move(arguments));
    EXPECT_EQ(result["notes"].size(), part.empty() ? 0U : 1U) << json["quantization_config"];
    for (const Json& note : result["notes"]) EXPECT_TRUE(has(note.get<std::string>(), part));
    expect(result["model"], {{"fp8", false}, {"block_fp8", false}});
  };
  const Json others[] = {
      {{"quant_method", "awq"}},
      {{"quant_method", "fp8"}, {"fmt", "e5m2"}},
      {{"quant_method", "fp8"}, {"weight_block_size", {64, 128}}},
      {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}, {"version", "gemv"}},
      {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 256}},
      {{"quant_method", "gptq"}, {"bits", 8}, {"group_size", 128}},
      {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"checkpoint_format", "marlin"}},
      {{"quant_method", "modelopt"}, {"quant_algo", "W4A16_AWQ"}},
      {{"quant_method", "mxfp4"}},
      {{"quant_method", "compressed-tensors"}},
      {{"quant_method", "compressed-tensors"}, {"config_groups", {{"a", {{"weights", {{"num_bits", 4}}}}}}}},
      {{"quant_method", 8}},
  };
  for (const Json& quantisation : others) {
    Json json = config("llama-3-8b");
    json["quantization_config"] = quantisation;
    noted(json, quantisation["quant_method"].dump());
    noted(json, "", {"--weights", "bf16"});
  }
  Json json = config("llama-3-8b");
  json["hidden_act"] = "relu2";
  noted(json, "'relu2'");
  expect(model(json), {{"activation", "none"}});
}

TEST_F(ModelConfig, TensorParallel) {
  expect(model(config("llama-3-8b"), {"--tp", "16"}), {{"tensor_parallel", 16}, {"kv_heads", 8}});
  refused(config("gpt2"), {"--tp", "8 given", "divisor", "12"}, {"--tp", "8"});
  Json json = config("llama-3-8b");
  json["num_attention_heads"] = 48;
  json["hidden_size"] = 48 * 128;
  json["num_key_value_heads"] = 4;
  refused(json, {"--tp", "6 given", "4 key and value heads"}, {"--tp", "6"});
}

TEST_F(ModelConfig, UnknownModel) {
  Json json = config("llama-3-8b");
  json["model_type"] = "mamba";
  json["state_size"] = 16;
  refused(json, {"model_type", "mamba", "known: llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, gemma2",
                 "--model-type llama"});
  json.erase("model_type");
  json["architectures"] = {"MambaForCausalLM"};
  refused(json, {"MambaForCausalLM", "known: llama"});
  json.erase("architectures");
  refused(json, {"model_type", "missing", "known: llama"});
  json.erase("state_size");
  json.erase("num_attention_heads");
  refused(json, {"model_type", "missing", "known: llama"});
}

TEST_F(ModelConfig, AnUnknownModelIsReadByItsFields) {
  const auto read = [&](Json json, const char* family, const std::vector<std::string>& told) {
    json["model_type"] = "newcomer";
    expect(model(json), {{"model_type", family}});
    const Finished finished =
        quern({"warm", "--config", folder() / "config.json", "--target", "sm_90a", "--list-only", "--allow-missing"});
    EXPECT_TRUE(has(finished.err, "model_type 'newcomer' is not known: read by its fields as " + std::string(family)));
    for (const std::string& text : told) EXPECT_TRUE(has(finished.err, text));
  };
  read(config("llama-3-8b"), "llama", {});
  read(config("deepseek-v3"), "deepseek_v3", {});
  read(config("mixtral-8x7b"), "mixtral", {});
  read(config("gpt2"), "gpt2", {});
  Json odd = config("llama-3-8b");
  odd["clip_qkv"] = 8;
  odd["alibi"] = false;
  odd["attention_bias"] = true;
  odd["qk_layernorm"] = true;
  odd["linear_num_heads"] = 16;
  odd["gates"] = {"sigmoid"};
  odd["gated"] = false;
  odd["bos_token_id"] = 1;
  read(odd, "llama", {"left out: field clip_qkv", "not looked at: gates, linear_num_heads\n"});
  odd["model_type"] = "newcomer";
  expect(model(odd), {{"bias", true}, {"qk_norm", true}});
  odd.erase("model_type");
  odd.erase("architectures");
  expect(model(odd), {{"model_type", "llama"}});
}

TEST_F(ModelConfig, AnUnknownModelIsReadAsOneThatIsNamed) {
  Json json = config("llama-3-8b");
  json["model_type"] = "mamba";
  expect(model(json, {"--model-type", "llama"}), {{"model_type", "llama"}, {"heads", 32}});
  const Finished wrong = quern({"warm", "--config", write("config.json", json.dump()), "--model-type", "vax"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(has(wrong.err, "--model-type: 'vax' given; known: llama"));
}

// Families that are read as a Llama but for what they call things.
TEST_F(ModelConfig, MoreFamilies) {
  const Json llama = config("llama-3-8b");
  for (const char* type : {"phi3", "glm4", "granite"}) {
    Json json = llama;
    json["model_type"] = type;
    expect(model(json), {{"model_type", type},
                         {"heads", 32},
                         {"gated_mlp", true},
                         {"activation", "silu"},
                         {"rotary_dim", std::string_view(type) == "glm4" ? 64 : 0},
                         {"rope_interleaved", std::string_view(type) == "glm4"}});
  }
  Json gemma = {{"model_type", "gemma3"},
                {"torch_dtype", "bfloat16"},
                {"text_config",
                 {{"model_type", "gemma3_text"},
                  {"hidden_size", 2560},
                  {"intermediate_size", 10240},
                  {"num_hidden_layers", 34},
                  {"sliding_window", 1024}}}};
  expect(model(gemma), {{"model_type", "gemma3_text"},
                        {"hidden_size", 2560},
                        {"layers", 34},
                        {"heads", 8},
                        {"kv_heads", 4},
                        {"head_dim", 256},
                        {"sliding_window", 1024},
                        {"qk_norm", true},
                        {"activation", "gelu_tanh"}});
  Json scout = llama;
  scout["model_type"] = "llama4_text";
  scout["num_local_experts"] = 16;
  scout["intermediate_size"] = 8192;
  scout["intermediate_size_mlp"] = 16384;
  expect(model({{"model_type", "llama4"}, {"text_config", scout}}), {{"model_type", "llama4_text"},
                                                                     {"intermediate_size", 16384},
                                                                     {"experts", 16},
                                                                     {"experts_per_token", 1},
                                                                     {"expert_intermediate_size", 8192},
                                                                     {"rope_interleaved", true},
                                                                     {"shared_experts", 1}});
  Json qwen = llama;
  qwen["model_type"] = "qwen2_moe";
  qwen["num_experts"] = 60;
  qwen["num_experts_per_tok"] = 4;
  qwen["moe_intermediate_size"] = 1408;
  qwen["shared_expert_intermediate_size"] = 5632;
  expect(model(qwen), {{"model_type", "qwen2_moe"}, {"experts", 60}, {"shared_experts", 4}, {"bias", true}});
  qwen["shared_expert_intermediate_size"] = 5633;
  refused(qwen, {"shared_expert_intermediate_size", "5633", "1408"});
  Json kimi = config("deepseek-v3");
  kimi["model_type"] = "kimi_k2";
  expect(model(kimi), {{"model_type", "kimi_k2"}, {"mla", true}, {"kv_lora_rank", 512}});
}

// Of a head's dimensions only a share may turn. What is listed turns as many.
TEST_F(ModelConfig, AShareOfAHeadTurns) {
  Json phi = config("llama-3-8b");
  phi["model_type"] = "phi3";
  phi["partial_rotary_factor"] = 0.75;
  expect(model(phi), {{"head_dim", 128}, {"rotary_dim", 96}, {"rope_interleaved", false}});
  const Json listed =
      quern_json({"warm", "--config", write("config.json", phi.dump()), "--target", "sm_90a", "--list-only"});
  int turning = 0;
  for (const Json& kernel : listed["kernels"]) {
    if (kernel["op"] != "kv_append" && kernel["op"] != "rope") continue;
    ++turning;
    EXPECT_TRUE(has(kernel["spec"].get<std::string>(), "rotary_dim=96")) << kernel;
  }
  EXPECT_GE(turning, 2);
  phi.erase("partial_rotary_factor");
  expect(model(phi), {{"rotary_dim", 0}});
  phi["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  expect(model(phi), {{"rotary_dim", 64}});
  phi["partial_rotary_factor"] = 1.0;
  expect(model(phi), {{"rotary_dim", 0}});
  Json glm = phi;
  glm["model_type"] = "glm4";
  expect(model(glm), {{"rotary_dim", 0}});
  for (const Json& wrong : {Json(0), Json(-0.5), Json(1.5), Json("half"), Json(0.0079)}) {
    phi["partial_rotary_factor"] = wrong;
    refused(phi, {"partial_rotary_factor", "up to 1", "128 dimensions"});
  }
}

TEST_F(ModelConfig, MissingFields) {
  for (const char* field :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    Json json = config("llama-3-8b");
    json.erase(field);
    refused(json, {field, "missing", "from 1 to"});
    json[field] = nullptr;
    refused(json, {field, "missing"});
  }
  Json json = config("mixtral-8x7b");
  json.erase("num_local_experts");
  refused(json, {"num_local_experts", "missing"});
  json = config("deepseek-v3");
  json.erase("kv_lora_rank");
  refused(json, {"kv_lora_rank", "missing"});
}

TEST_F(ModelConfig, MalformedFields) {
  for (const Json& value : {Json(0), Json(-8), Json(8.5), Json("32"), Json(true), Json::array({32}), Json(1e30),
                            Json(std::uint64_t{1} << 40)}) {
    Json json = config("llama-3-8b");
    json["num_attention_heads"] = value;
    refused(json, {"num_attention_heads", value.dump() + " given", "a whole number from 1 to 65536"});
  }
  Json json = config("llama-3-8b");
  json["num_key_value_heads"] = 7;
  refused(json, {"num_key_value_heads", "7 given", "divisor", "32"});
  json = config("llama-3-8b");
  json["hidden_size"] = 4100;
  refused(json, {"head_dim", "missing", "4100", "32"});
  json = config("gemma-2-9b");
  json["attn_logit_softcapping"] = "much";
  refused(json, {"attn_logit_softcapping", "\"much\" given", "number"});
  json = config("gemma-2-9b");
  json["final_logit_softcapping"] = -1;
  refused(json, {"final_logit_softcapping", "-1 given", "number"});
  json = config("llama-3-8b");
  json["model_type"] = 7;
  refused(json, {"model_type", "7 given", "a string"});
  json = config("qwen3-8b");
  json["use_sliding_window"] = 1;
  refused(json, {"use_sliding_window", "1 given", "true or false"});
  json = config("llama-3-8b");
  json["quantization_config"] = "fp8";
  refused(json, {"quantization_config", "\"fp8\" given", "object"});
  json = config("llama-3-8b");
  json["torch_dtype"] = 16;
  refused(json, {"torch_dtype", "16 given", "a string"});
  json.erase("model_type");
  json["architectures"] = "LlamaForCausalLM";
  refused(json, {"architectures", "an array of strings"});
}

TEST_F(ModelConfig, NotJson) {
  const std::string whole = config("llama-3-8b").dump(1);
  refused(whole.substr(0, whole.size() / 2), {"not valid JSON", "line "});
  refused(std::string(), {"not valid JSON"});
  refused(std::string("{\"model_type\": \"llama\xff\"}"), {"not valid JSON"});
  refused(std::string("[1, 2]"), {"array given", "one JSON object"});
  refused(std::string(100000, '['), {"not valid JSON"});
}

TEST_F(ModelConfig, NoSuchFile) {
  const Json json = quern_json({"warm", "--config", "nowhere.json", "--target", "sm_90a"});
  EXPECT_EQ(json["code"], 1);
  EXPECT_EQ(json["error"]["status"], "QUERN_NOT_FOUND");
  EXPECT_TRUE(has(json["error"]["text"].get<std::string>(), "nowhere.json"));
  EXPECT_EQ(quern({"warm", "--config", folder(), "--target", "sm_90a"}).code, 1);
}

}  // namespace
}  // namespace quern::cli_tests
