// `quern warm --config`: what models need, that it is little, and what of it no kernel serves.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "tests/cli/command.h"
#include "tests/engine/gguf_file.h"

namespace quern::cli_tests {
namespace {

class WarmModels : public CommandTest {};

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// What each published model needs of each kind of op, and that it is little: with weights as its file says and
// otherwise, whatever the number of ranks.
TEST_F(WarmModels, ModelsNeedFewKernels) {
  struct Model {
    const char* file;
    std::size_t most;
    bool fp8, experts;
  };
  for (const Model& model : {Model{"deepseek-v3", 107, true, true}, Model{"llama-3-8b", 67, false, false},
                             Model{"llama-3.1-70b", 66, false, false}, Model{"qwen3-8b", 67, false, false},
                             Model{"mixtral-8x7b", 88, false, true}}) {
    for (const char* weights : {"", "bf16", "fp8", "fp8-block"}) {
      for (const char* ranks : {"1", "8"}) {
        std::vector<std::string> arguments = {
            "warm",   "--config",    std::string(QUERN_CLI_CONFIGS) + "/" + model.file + ".json",
            "--tp",   ranks,         "--target",
            "sm_90a", "--list-only", "--allow-missing"};
        if (*weights != 0) arguments.insert(arguments.end(), {"--weights", weights});
        const Json listed = quern_json(arguments);
        SCOPED_TRACE(std::string(model.file) + " " + weights + " over " + ranks);
        EXPECT_EQ(listed["code"], 0) << listed;
        std::map<std::string, int> ops;
        for (const Json& kernel : listed["kernels"]) {
          EXPECT_EQ(kernel["text"], "");
          ++ops[kernel["op"]];
        }
        EXPECT_LE(listed["kernels"].size(), model.most);
        const bool fp8 = *weights == 0 ? model.fp8 : std::string_view(weights) != "bf16";
        EXPECT_GT(ops["attention"], 0);
        EXPECT_GT(ops["gemm"], 0);
        EXPECT_EQ(ops["fp8_gemm"] > 0, fp8);
        EXPECT_EQ(ops["quantize"] > 0, fp8);
        EXPECT_EQ(ops["grouped_fp8_gemm"] > 0, fp8 && model.experts);
        EXPECT_EQ(ops["moe_route"] > 0, model.experts);
        EXPECT_EQ(ops["moe_combine"] > 0, model.experts);
        EXPECT_GT(ops["merge_states"], 0);
        EXPECT_EQ(ops["rope"] > 0, std::string_view(model.file) != "gpt2");
        EXPECT_EQ(ops["sample"], 6);
      }
    }
  }
}

// All that serving DeepSeek-V3 by latent attention takes, and nothing of it missing: tokens into the cache with and
// without their queries, decode and the joining of its pieces, prefill as ragged attention with heads of 192 and 128.
TEST_F(WarmModels, DeepseekIsServedByLatentAttention) {
  const std::string config = std::string(QUERN_CLI_CONFIGS) + "/deepseek-v3.json";
  for (const char* cache : {"bf16", "e4m3"}) {
    SCOPED_TRACE(cache);
    const Json listed = quern_json({"warm", "--config", config, "--tp", "8", "--kv-dtype", cache, "--page-size", "64",
                                    "--target", "sm_90a", "--list-only"});
    const bool codes = std::string_view(cache) == "e4m3";
    std::map<std::string, int> found;
    for (const Json& kernel : listed["kernels"]) {
      const std::string op = kernel["op"], spec = kernel["spec"];
      const auto has = [&](const char* text) { return spec.find(text) != std::string::npos; };
      EXPECT_NE(kernel["outcome"], "unserved") << kernel;
      if (op == "mla_append") {
        EXPECT_TRUE(has("d_latent=512 d_rope=64") && has("interleaved=1") && has("norm=bf16")) << spec;
        ++found[has("queries=1") ? "append and queries" : "append"];
        EXPECT_EQ(has("cache=plain"), !codes) << spec;
      }
      if (op == "mla_decode") ++found[has("variant=combine") ? "combine" : "decode"];
      if (op == "attention" && has("dim_k=192 dim_v=128") && has("page_size=ragged")) ++found["prefill"];
      if (op == "kv_copy_pages") ++found["copies of pages"];
    }
    EXPECT_EQ(found["append"], codes ? 2 : 1);
    EXPECT_EQ(found["append and queries"], codes ? 2 : 1);
    EXPECT_GE(found["decode"], codes ? 2 : 1);
    EXPECT_GE(found["combine"], 1);
    EXPECT_GE(found["prefill"], 1);
    EXPECT_EQ(found["copies of pages"], 1);
  }
}

// A cache of 8 bits with a scale a token and head is made by other kernels than one with a scale a tensor or head.
TEST_F(WarmModels, ScalesOfTheCacheAreAsAsked) {
  const std::string config = std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json";
  for (const char* scales : {"tensor", "token"}) {
    const Json listed = quern_json({"warm", "--config", config, "--kv-dtype", "int8", "--kv-scales", scales, "--target",
                                    "sm_90a", "--list-only", "--page-size", "16"});
    const bool by_token = std::string_view(scales) == "token";
    EXPECT_EQ(listed["model"]["kv_token_scales"], by_token);
    std::map<std::string, int> found;
    for (const Json& kernel : listed["kernels"]) {
      if (kernel["op"] != "attention" && kernel["op"] != "kv_append") continue;
      const std::string spec = kernel["spec"];
      const char* const constant = kernel["op"] == "attention" ? " scales=token" : " scale=token";
      EXPECT_EQ(spec.find(constant) != std::string::npos, by_token) << kernel["op"] << ' ' << spec;
      ++found[kernel["op"]];
    }
    EXPECT_GE(found["attention"], 2);
    EXPECT_GE(found["kv_append"], 2);
  }
}

// What more is of 8 bits, by the options that say so: other kernels for it, beside those of single tokens.
TEST_F(WarmModels, WhatElseIsOfEightBitsIsAsAsked) {
  const std::string config = std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json";
  const auto count = [&](const std::vector<std::string>& options, const char* op,
                         const std::vector<const char*>& parts) {
    std::vector<std::string> arguments = {"warm",        "--config",    config,        "--target",
                                          "sm_90a,host", "--list-only", "--page-size", "16"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    std::map<std::string, int> found = {{"sm_90a", 0}, {"host", 0}};
    const Json listed = quern_json(arguments);
    EXPECT_EQ(listed["code"], 0) << listed;
    for (const Json& kernel : listed["kernels"]) {
      const std::string spec = ' ' + kernel["spec"].get<std::string>() + ' ';
      const bool all = std::all_of(parts.begin(), parts.end(), [&](const char* part) { return holds(spec, part); });
      if (kernel["op"] == op && all) ++found[kernel["target"]];
    }
    EXPECT_EQ(found["sm_90a"] > 0, found["host"] > 0);
    return found["sm_90a"];
  };
  const std::vector<std::string> plain, cache = {"--kv-dtype", "e4m3"}, weights = {"--weights", "fp8-block"},
                                        queries = {"--kv-dtype", "e4m3", "--q-dtype", "e4m3"},
                                        logits = {"--weights", "fp8-block", "--logits", "fp8"};
  EXPECT_EQ(count(cache, "attention", {" q=e4m3 "}), 0);
  EXPECT_EQ(count(queries, "attention", {" q=e4m3 ", " cache=e4m3 "}), 3);
  EXPECT_EQ(count(queries, "attention", {" q=bf16 ", " cache=e4m3 "}), 3);
  EXPECT_EQ(count(cache, "kv_append", {" q=e4m3 "}), 0);
  EXPECT_EQ(count(queries, "kv_append", {" q=e4m3 ", " q_scale=token ", " table=none "}), 1);
  EXPECT_EQ(count(plain, "quantize", {" scale=block "}), 0);
  EXPECT_EQ(count(weights, "quantize", {" scale=block "}), 1) << "the weights themselves";
  EXPECT_EQ(count(weights, "fp8_gemm", {" out=f32 "}), 0);
  EXPECT_GT(count(weights, "gemm", {" out=f32 "}), 0);
  EXPECT_GT(count(logits, "fp8_gemm", {" out=f32 "}), 0);
  EXPECT_EQ(count(logits, "gemm", {" out=f32 "}), 0);
}

TEST_F(WarmModels, WhatGoesWithoutEightBitsIsRefused) {
  const std::string llama = std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json",
                    deepseek = std::string(QUERN_CLI_CONFIGS) + "/deepseek-v3.json";
  const auto refused = [&](const std::string& config, std::vector<std::string> options, const char* what) {
    options.insert(options.begin(), {"warm", "--config", config, "--target", "host", "--list-only"});
    const Json told = quern_json(options);
    EXPECT_EQ(told["code"], 1);
    EXPECT_TRUE(has(told["error"]["text"].get<std::string>(), what)) << told;
  };
  refused(llama, {"--q-dtype", "e4m3"}, "--q-dtype: e4m3 given for a KV cache of bf16; allowed: with keys and values");
  refused(llama, {"--q-dtype", "e4m3", "--kv-dtype", "int8"}, "for a KV cache of int8");
  refused(deepseek, {"--q-dtype", "e4m3", "--kv-dtype", "e4m3"}, "for a KV cache of latents");
  refused(llama, {"--logits", "fp8"}, "--logits: fp8 given for weights of bf16; allowed: with weights of fp8");
}

// What Gemma-2's tokens are chosen by is capped in the product that makes it, and its embeddings are multiplied.
TEST_F(WarmModels, CapsAndScalesAreListed) {
  for (const char* family : {"gemma-2-9b", "llama-3-8b"}) {
    const bool gemma = std::string_view(family) == "gemma-2-9b";
    const Json listed = quern_json({"warm", "--config", std::string(QUERN_CLI_CONFIGS) + "/" + family + ".json",
                                    "--target", "sm_90a", "--list-only"});
    int capped = 0, plain = 0, scaled = 0;
    for (const Json& kernel : listed["kernels"]) {
      const std::string spec = kernel["spec"];
      if (kernel["op"] == "gather" && holds(spec, "table=bf16 out=bf16")) ++scaled;
      if (kernel["op"] != "gemm" || !holds(spec, "out=f32")) continue;
      ++(holds(spec, "tanh") ? capped : plain);
    }
    EXPECT_EQ(capped > 0, gemma) << listed;
    EXPECT_EQ(plain > 0, !gemma);
    EXPECT_EQ(scaled, gemma ? 1 : 0);
  }
}

// A GGUF file says what its model is; the command says the same of it as of the config.json that the model has.
TEST_F(WarmModels, GgufFilesAreRead) {
  const auto write_file = [&](const std::string& architecture, const auto& change) {
    test::GgufFile file;
    const auto whole = [&](const char* name, std::uint32_t value) { file.whole(architecture + "." + name, value); };
    file.text("general.architecture", architecture);
    whole("embedding_length", 4096), whole("feed_forward_length", 14336), whole("block_count", 32);
    whole("attention.head_count", 32), whole("attention.head_count_kv", 8), whole("context_length", 8192);
    file.texts("tokenizer.ggml.tokens", std::vector<std::string>(128256, ""));
    change(file, whole);
    return write("model.bin", file.bytes());  // by what it holds, whatever its name
  };
  const auto listed = [&](const std::string& path, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"warm", "--config", path, "--target", "sm_90a", "--list-only"});
    return quern_json(options);
  };
  const auto nothing = [](test::GgufFile&, const auto&) {};
  const Json llama = listed(write_file("llama", nothing)),
             folder = listed(std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json");
  EXPECT_EQ(llama["code"], 0) << llama;
  EXPECT_EQ(llama["model"], folder["model"]);
  const auto keys = [](const Json& all) {
    std::vector<std::string> found;
    for (const Json& kernel : all["kernels"]) found.push_back(kernel["key"]);
    return found;
  };
  EXPECT_EQ(keys(llama), keys(folder));

  EXPECT_EQ(listed(write_file("llama",
                              [](test::GgufFile&, const auto& whole) {
                                whole("expert_count", 8), whole("expert_used_count", 2),
                                    whole("attention.sliding_window", 4096);
                              }))["model"]["experts"],
            8);
  const Json qwen = listed(write_file("qwen2", [](test::GgufFile& file, const auto& whole) {
    whole("attention.key_length", 64);
    file.tensor("blk.0.attn_q.bias", {2}, 0, std::string(8, '\0'));
  }));
  EXPECT_EQ(qwen["model"]["bias"], true);
  EXPECT_EQ(qwen["model"]["head_dim"], 64);
  EXPECT_EQ(listed(write_file("qwen3", nothing))["model"]["qk_norm"], true);
  const Json gemma = listed(write_file("gemma2", [](test::GgufFile& file, const auto& whole) {
    whole("attention.sliding_window", 4096);
    file.number("gemma2.attn_logit_softcapping", 40.0f);
  }));
  EXPECT_EQ(gemma["model"]["logit_cap"], 40.0);
  EXPECT_EQ(gemma["model"]["final_logit_cap"], 30.0);
  EXPECT_EQ(gemma["model"]["sliding_window"], 4096);
  EXPECT_EQ(gemma["model"]["activation"], "gelu_tanh");
  EXPECT_EQ(
      listed(write_file("glm4", [](test::GgufFile&,
                                   const auto& whole) { whole("rope.dimension_count", 38); }))["model"]["rotary_dim"],
      38);
  EXPECT_EQ(listed(write_file("glm4", nothing))["model"]["rotary_dim"], 0);

  const Json other = listed(write_file("mamba", nothing));
  EXPECT_EQ(other["code"], 1);
  for (const char* part : {"model.bin", "general.architecture is mamba", "known: llama, qwen2", "--model-type"})
    EXPECT_TRUE(has(other["error"]["text"].get<std::string>(), part));
  EXPECT_EQ(listed(write_file("mamba", nothing), {"--model-type", "llama"})["model"]["model_type"], "llama");
  const auto refused = [&](const std::string& bytes, const char* what) {
    const Json told = listed(write("model.bin", bytes));
    EXPECT_EQ(told["code"], 1);
    EXPECT_TRUE(has(told["error"]["text"].get<std::string>(), what)) << told;
  };
  refused("GGUF", "the version goes past the end");
  test::GgufFile bare;
  bare.text("general.architecture", "llama");
  refused(bare.bytes(), "there is no llama.embedding_length");
  test::GgufFile numbered;
  numbered.whole("general.architecture", 7);
  refused(numbered.bytes(), "general.architecture is 7, no text");
}

// DeepSeek-V3.2 is V3 with an indexer, whose scores are made for decode and prefill.
TEST_F(WarmModels, DeepseeksIndexerIsServed) {
  Json config = Json::parse(read(std::string(QUERN_CLI_CONFIGS) + "/deepseek-v3.json"));
  config["model_type"] = "deepseek_v32";
  config["index_n_heads"] = 64, config["index_head_dim"] = 128, config["index_topk"] = 2048;
  const Json listed = quern_json({"warm", "--config", write("v32.json", config.dump()), "--target", "sm_90a,sm_80",
                                  "--list-only", "--page-size", "64", "--allow-missing"});
  std::map<std::string, int> found;
  for (const Json& kernel : listed["kernels"]) {
    if (kernel["op"] == "index_scores") ++found[kernel["target"]];
    EXPECT_NE(kernel["op"] == "index_scores" && kernel["outcome"] == "unserved", true) << kernel;
  }
  EXPECT_GE(found["sm_90a"], 2);
  EXPECT_GE(found["sm_80"], 2);
  EXPECT_EQ(listed["model"]["index_heads"], 64);
}

// What it chooses is read by lists, of each kind of cache, and its own keys are stored; of V3, which has none, nothing
// is.
TEST_F(WarmModels, WhatAnIndexerChoosesIsRead) {
  for (const bool indexes : {false, true}) {
    Json config = Json::parse(read(std::string(QUERN_CLI_CONFIGS) + "/deepseek-v3.json"));
    if (indexes) {
      config["model_type"] = "deepseek_v32";
      config["index_n_heads"] = 64, config["index_head_dim"] = 128, config["index_topk"] = 2048;
    }
    const std::string file = write("chosen.json", config.dump());
    for (const char* cache : {"bf16", "e4m3"}) {
      SCOPED_TRACE(std::string(cache) + (indexes ? ", chosen" : ""));
      const Json listed = quern_json({"warm", "--config", file, "--tp", "8", "--kv-dtype", cache, "--target", "sm_90a",
                                      "--list-only", "--page-size", "64", "--allow-missing"});
      std::map<std::string, int> found;
      for (const Json& kernel : listed["kernels"]) {
        const std::string op = kernel["op"], spec = kernel["spec"];
        const auto says = [&](const char* text) { return spec.find(text) != std::string::npos; };
        if (op == "mla_decode" && says("indices=positions")) ++found["by positions"];
        if (op == "mla_decode" && says("indices=slots")) ++found["by slots"];
        if (op == "mla_decode" && says("cache=rows656")) ++found["read of 656"];
        if (op == "mla_append" && says("cache=rows656")) ++found["written of 656"];
        if (op == "mla_append" && says("d_latent=128")) ++found["keys"];
        if (op == "top_k") ++found["top_k"];
      }
      const bool codes = std::string_view(cache) == "e4m3";
      EXPECT_EQ(found["by positions"] > 0, indexes);
      EXPECT_EQ(found["by slots"] > 0, indexes);
      EXPECT_EQ(found["read of 656"] > 0, indexes && codes);
      EXPECT_EQ(found["written of 656"] > 0, indexes && codes);
      EXPECT_EQ(found["keys"], indexes ? 1 : 0);
      EXPECT_EQ(found["top_k"], indexes ? 2 : 1);
    }
  }
}

// What a model needs and no kernel does is told in text and in JSON, and is a failure unless it is allowed.
TEST_F(WarmModels, NeedsThatNoKernelServesAreTold) {
  Json config = Json::parse(read(std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json"));
  config["head_dim"] = 100;
  const std::vector<std::string> arguments = {"warm",     "--config", write("odd.json", config.dump()),
                                              "--target", "sm_90a",   "--list-only"};
  const Json told = quern_json(arguments);
  EXPECT_EQ(told["code"], 1);
  EXPECT_EQ(told["error"]["status"], "QUERN_UNSUPPORTED");
  ASSERT_EQ(told["unserved"].size(), 1U) << told["unserved"];
  EXPECT_EQ(told["unserved"][0]["need"], "attention");
  EXPECT_EQ(told["unserved"][0]["target"], "sm_90a");
  EXPECT_TRUE(has(told["unserved"][0]["text"].get<std::string>(), "100"));
  EXPECT_TRUE(has(told["unserved"][0]["text"].get<std::string>(), "multiples of 8"));
  ASSERT_EQ(told["notes"].size(), 1U);
  EXPECT_TRUE(has(told["notes"][0].get<std::string>(), "not served: attention"));
  EXPECT_GT(told["kernels"].size(), 0U) << "the others are there";
  const Finished people = quern(arguments);
  EXPECT_EQ(people.code, 1);
  EXPECT_TRUE(has(people.err, "quern: not served: attention on sm_90a: "));
  EXPECT_TRUE(has(people.err, "--allow-missing"));
  std::vector<std::string> allowing = arguments;
  allowing.emplace_back("--allow-missing");
  EXPECT_EQ(quern_json(allowing)["code"], 0);
  EXPECT_TRUE(has(quern(allowing).err, "quern: warning: not served: attention"));
  EXPECT_EQ(quern({"warm", host_kernels(1), "--allow-missing"}).code, 2) << "without a model";
}

// Heads of 512 dims have kernels of their own, which take no caches of 8 bits.
TEST_F(WarmModels, WideHeadsAreServed) {
  Json config = Json::parse(read(std::string(QUERN_CLI_CONFIGS) + "/gemma-2-9b.json"));
  config["head_dim"] = 512;
  std::vector<std::string> arguments = {
      "warm", "--config", write("wide.json", config.dump()), "--target", "sm_90a", "--list-only", "--page-size", "16"};
  const Json listed = quern_json(arguments);
  EXPECT_EQ(listed["code"], 0) << listed;
  std::map<std::string, int> found;
  for (const Json& kernel : listed["kernels"]) {
    if (kernel["op"] != "attention") continue;
    const std::string spec = kernel["spec"];
    EXPECT_TRUE(has(spec, "dim_k=512 dim_v=512")) << spec;
    ++found[spec.substr(0, spec.find(' '))];
  }
  EXPECT_EQ(found, (std::map<std::string, int>{{"variant=wide_few", 1}, {"variant=wide_pairs", 1}}));
  arguments.insert(arguments.end(), {"--kv-dtype", "e4m3"});
  const Json told = quern_json(arguments);
  EXPECT_EQ(told["code"], 1);
  ASSERT_EQ(told["unserved"].size(), 1U) << told["unserved"];
  EXPECT_TRUE(
      has(told["unserved"][0]["text"].get<std::string>(), "e4m3; allowed with head dims larger than 256: bf16"));
}

// What a product that cannot be aligned needs is told too.
TEST_F(WarmModels, RowsThatAreNotAlignedAreTold) {
  Json config = Json::parse(read(std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json"));
  config["intermediate_size"] = 14340;
  const Json told =
      quern_json({"warm", "--config", write("odd.json", config.dump()), "--target", "sm_90a", "--list-only"});
  EXPECT_EQ(told["code"], 1);
  ASSERT_EQ(told["unserved"].size(), 1U) << told["unserved"];
  EXPECT_EQ(told["unserved"][0]["need"], "gemm");
  EXPECT_TRUE(has(told["unserved"][0]["text"].get<std::string>(), "K = 14340"));
}

}  // namespace
}  // namespace quern::cli_tests
