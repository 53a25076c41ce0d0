// Weights of 4 and 8 bits with scales in a config.json: which kernels of quantized_gemm `quern warm` names for them,
// and what of such models is told as unserved.
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

Json int4_group(bool symmetric) {
  return {{"weights",
           {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 64}, {"symmetric", symmetric}}},
          {"input_activations", nullptr}};
}
Json int8_group(bool symmetric) {
  return {{"weights", {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}, {"symmetric", symmetric}}},
          {"input_activations", {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"dynamic", true}}}};
}
Json packed(const Json& groups) {
  return {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}, {"config_groups", groups}};
}
const Json kAwq = {
    {"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}, {"version", "gemm"}};
const Json kNvfp4 = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};

class QuantisedWeights : public CommandTest {
 protected:
  static Json config(const std::string& name, const Json& quantisation) {
    Json json = Json::parse(read(std::filesystem::path(QUERN_CLI_CONFIGS) / (name + ".json")));
    json["quantization_config"] = quantisation;
    return json;
  }
  Json warm(const Json& json, std::vector<std::string> arguments = {}, const std::string& target = "sm_90a") const {
    arguments.insert(arguments.begin(),
                     {"warm", "--config", write("config.json", json.dump()), "--target", target, "--list-only"});
    return quern_json(std::move(arguments));
  }
  static std::multiset<std::string> products(const Json& result) {
    std::multiset<std::string> specs;
    for (const Json& kernel : result["kernels"]) {
      if (kernel["op"] == "quantized_gemm") specs.insert(kernel["spec"]);
    }
    return specs;
  }
  // One for each number of rows that has a kernel of its own, and of few rows for each width of tiles; with a gate they
  // are no narrower than 64. Targets without asynchronous copies have those that sums in one order have.
  static void add(std::multiset<std::string>& specs, const std::string& stored, const std::string& result,
                  const std::string& epilogue, bool copies = true, bool integers = false) {
    const bool gate = epilogue.find("gate") != std::string::npos;
    std::vector<std::string> names = {"rows64"};
    if (copies) {
      names.emplace_back("rows128");
      for (const char* few : {"few8", "few16", "few32"}) {
        for (const char* columns : {"32", "64", "128", "256"}) {
          if (!gate || std::string(columns) != "32") names.push_back(std::string(few) + " columns=" + columns);
        }
      }
      // Of int8 by int8 many rows have a kernel for each width of tiles, of which a gate halves two.
      if (!integers) names.emplace_back("warpgroups");
      for (const char* columns : {"64", "128", "176", "192", "256"}) {
        const bool halves = std::string(columns) == "128" || std::string(columns) == "256";
        if (integers && (halves || !gate)) names.push_back(std::string("integers columns=") + columns);
      }
    } else {
      names.insert(names.end(), {"rows16", "rows32"});
    }
    for (const std::string& name : names) {
      specs.insert("variant=" + name + ' ' + stored + " out=" + result + " gate=" + (gate ? "1" : "0") +
                   " out_scale=0 alignment=16 epilogue=" + epilogue);
    }
  }
  // The texts of what is not served.
  static std::string unserved(const Json& result) {
    std::string texts;
    for (const Json& each : result["unserved"]) texts += each["text"].get<std::string>() + '\n';
    return texts;
  }
};

TEST_F(QuantisedWeights, EachFormatHasItsKernels) {
  const std::string uint4 = "a=bf16 b=uint4 scale_b=bf16 group=";
  const struct {
    Json quantisation;
    std::string stored;
  } formats[] = {
      {kAwq, uint4 + "128 groups_a=0 groups_b=1 zeros=1"},
      {{{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}, {"zero_point", false}},
       uint4 + "64 groups_a=0 groups_b=1 zeros=0"},
      {{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"sym", true}, {"desc_act", true}},
       uint4 + "32 groups_a=0 groups_b=1 zeros=0"},
      {{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", -1}, {"sym", false}, {"checkpoint_format", "gptq_v2"}},
       uint4 + "0 zeros=1"},
      {packed({{"group_0", int4_group(true)}}), uint4 + "64 groups_a=0 groups_b=1 zeros=0"},
      {packed({{"a", int4_group(false)}, {"b", int4_group(false)}}), uint4 + "64 groups_a=0 groups_b=1 zeros=1"},
      {kNvfp4, "a=bf16 b=e2m1 scale_b=e4m3 group=16 groups_a=0 groups_b=1"},
      {packed({{"group_0", {{"weights", {{"num_bits", 4}, {"type", "float"}, {"group_size", 16}}}}}}),
       "a=bf16 b=e2m1 scale_b=e4m3 group=16 groups_a=0 groups_b=1"},
  };
  for (const auto& format : formats) {
    SCOPED_TRACE(format.quantisation.dump());
    const Json result = warm(config("llama-3-8b", format.quantisation));
    std::multiset<std::string> expected;
    add(expected, format.stored, "bf16", "acc");
    add(expected, format.stored, "bf16", "silu(gate)*up");
    EXPECT_EQ(products(result), expected);
    EXPECT_EQ(result["code"], 0) << result;
    ASSERT_EQ(result["notes"].size(), 1U);
    EXPECT_TRUE(has(result["notes"][0].get<std::string>(), "layers' weights are "));
    for (const Json& kernel : result["kernels"]) EXPECT_EQ(kernel.value("line", 0), 0);
    EXPECT_TRUE(products(warm(config("llama-3-8b", format.quantisation), {"--weights", "bf16"})).empty());
  }
}

// Its activations are int8, too.
TEST_F(QuantisedWeights, EightBitsByEightBits) {
  Json json = config("llama-3-8b", packed({{"group_0", int8_group(true)}}));
  const Json result = warm(json);
  const std::string stored = "a=int8 b=int8 scale_a=f32 scale_b=f32 group=0";
  std::multiset<std::string> expected;
  add(expected, stored, "bf16", "acc", true, true);
  add(expected, stored, "bf16", "silu(gate)*up", true, true);
  EXPECT_EQ(products(result), expected);
  EXPECT_EQ(result["code"], 1);
  EXPECT_EQ(unserved(result),
            "activations of int8: quantize makes them, by kernels that a model's list does not name; allowed: lines of "
            "a manifest, out=int8 scale=token\n");
  // Zero points of signed numbers no kernel takes, and not two forms in one file.
  for (const Json& groups :
       {Json{{"group_0", int8_group(false)}}, Json{{"a", int8_group(true)}, {"b", int4_group(true)}}}) {
    json["quantization_config"] = packed(groups);
    const Json other = warm(json);
    EXPECT_TRUE(products(other).empty());
    EXPECT_TRUE(has(unserved(other), "no kernels are made for these weights"));
  }
}

TEST_F(QuantisedWeights, BiasesAndTypesAreTheModels) {
  Json json = config("llama-3-8b", kAwq);
  json["torch_dtype"] = "float16", json["attention_bias"] = true, json["hidden_act"] = "gelu";
  const std::string stored = "a=f16 b=uint4 scale_b=f16 group=128 groups_a=0 groups_b=1 zeros=1";
  std::multiset<std::string> expected;
  add(expected, stored, "f16", "acc");
  add(expected, stored, "f16", "gelu(gate)*up");
  std::multiset<std::string> biased;
  add(biased, stored, "f16", "acc+col2");
  for (const std::string& line : biased) expected.insert(line + " operand2=f16");
  EXPECT_EQ(products(warm(json)), expected);
}

// A target without room for a tile has the next lower one, as calls there take it, and each kernel once.
TEST_F(QuantisedWeights, OneLineIsForEveryTarget) {
  std::multiset<std::string> expected;
  const std::string stored = "a=bf16 b=uint4 scale_b=bf16 group=128 groups_a=0 groups_b=1 zeros=1";
  add(expected, stored, "bf16", "acc", false);
  add(expected, stored, "bf16", "silu(gate)*up", false);
  EXPECT_EQ(products(warm(config("llama-3-8b", kAwq), {}, "gfx90a")), expected);
}

TEST_F(QuantisedWeights, ExpertsAreTold) {
  const Json mixtral = warm(config("mixtral-8x7b", kAwq));
  EXPECT_EQ(products(mixtral).size(), 27U) << "of attention";
  EXPECT_EQ(mixtral["code"], 1);
  EXPECT_TRUE(
      has(unserved(mixtral),
          "products of 8 experts with weights of uint4 with scales of bf16 in groups of 128 and zero points: no "
          "op here does it yet\n"));
  const Json oss = warm(config("gpt-oss-20b", {{"quant_method", "mxfp4"}}));
  EXPECT_TRUE(products(oss).empty());
  EXPECT_TRUE(
      has(unserved(oss),
          "products of 32 experts with weights of e2m1 with scales of ue8m0 in groups of 32: no op here does it "
          "yet\n"));
}

// Of 32 ranks each has a head of 128, which is one group, and three and a half groups of the MLP.
TEST_F(QuantisedWeights, RowsThatNoKernelTakesAreTold) {
  const std::string rest =
      ": kernels are listed for rows of two and more whole groups that are aligned to 16 bytes; allowed: multiples of "
      "128\n";
  EXPECT_EQ(unserved(warm(config("llama-3-8b", kAwq), {"--tp", "32"})),
            "a product with K = 128" + rest + "a product with K = 448" + rest);
}

// Beside a manifest, whose lines keep their numbers; and as a manifest.
TEST_F(QuantisedWeights, BesideAManifest) {
  const Json json = config("llama-3-8b", kNvfp4);
  const std::string manifest = write("own.manifest", "\nquantize * x=bf16 out=e4m3 scale=block");
  const Json result = warm(json, {manifest});
  EXPECT_EQ(products(result).size(), 27U);
  int numbered = 0;
  for (const Json& kernel : result["kernels"]) {
    if (kernel.value("line", 0) == 0) continue;
    ++numbered;
    EXPECT_EQ(kernel["op"], "quantize");
    EXPECT_EQ(kernel["line"], 2);
  }
  EXPECT_EQ(numbered, 1);
  const Finished ran = quern({"manifest", "--config", write("config.json", json.dump()), "--target", "sm_90a"});
  EXPECT_TRUE(has(ran.out, "quantized_gemm sm_90a variant=rows128 a=bf16 b=e2m1 scale_b=e4m3 group=16"));
  EXPECT_TRUE(has(ran.out, "quantized_gemm sm_90a variant=warpgroups a=bf16 b=e2m1 scale_b=e4m3 group=16"));
}

}  // namespace
}  // namespace quern::cli_tests
