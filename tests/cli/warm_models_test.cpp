// `quern warm --config`: what models need, that it is little, and what of it no kernel serves.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class WarmModels : public CommandTest {};

// What each published model needs of each kind of op, and that it is little: with weights as its file says and
// otherwise, whatever the number of ranks.
TEST_F(WarmModels, ModelsNeedFewKernels) {
  struct Model {
    const char* file;
    std::size_t most;
    bool fp8, experts;
  };
  for (const Model& model : {Model{"deepseek-v3", 140, true, true}, Model{"llama-3-8b", 76, false, false},
                             Model{"llama-3.1-70b", 76, false, false}, Model{"qwen3-8b", 76, false, false},
                             Model{"mixtral-8x7b", 118, false, true}}) {
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
    }
    EXPECT_EQ(found["append"], codes ? 3 : 1);
    EXPECT_EQ(found["append and queries"], codes ? 3 : 1);
    EXPECT_GE(found["decode"], codes ? 2 : 1);
    EXPECT_GE(found["combine"], 1);
    EXPECT_GE(found["prefill"], 1);
  }
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
