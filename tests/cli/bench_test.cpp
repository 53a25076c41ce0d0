// `quern bench`, on the host target: every op runs from its recipe, problems are read as they are written, and what is
// wrong is named.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class BenchTest : public CommandTest {
 protected:
  // What would be measured: the first problem.
  Json problem(std::vector<std::string> words) const {
    words.insert(words.begin(), "bench");
    words.emplace_back("--list-only");
    const Json json = quern_json(words);
    EXPECT_EQ(json["code"], 0) << json;
    return json["problems"].empty() ? Json::object() : json["problems"][0];
  }
  Json tensors(std::vector<std::string> words) const { return problem(std::move(words))["tensors"]; }

  void refused(std::vector<std::string> words, const std::vector<std::string>& parts) const {
    words.insert(words.begin(), "bench");
    const Finished finished = quern(words);
    EXPECT_EQ(finished.code, 2) << finished.err;
    for (const std::string& part : parts) EXPECT_TRUE(has(finished.err, part));
  }

  static std::set<std::string> ops() {
    std::set<std::string> names;
    std::ifstream file(QUERN_OPS_DEF);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("QUERN_OP(")) names.insert(line.substr(9, line.find_first_of(",)") - 9));
    }
    return names;
  }
};

// The file that is shipped with the tests has every op: all of them are read; a few are run here. The whole file is run
// by hand and on the GPU machine: it compiles forty kernels.
TEST_F(BenchTest, EveryOpHasARecipe) {
  const Json json = quern_json({"bench", "--problems", QUERN_CLI_PROBLEMS, "--list-only"});
  EXPECT_EQ(json["code"], 0) << json;
  std::set<std::string> named;
  for (const Json& each : json["problems"]) {
    named.insert(each["op"].get<std::string>());
    EXPECT_FALSE(each["tensors"].empty()) << each;
    EXPECT_GT(each["bytes"].get<double>(), 0) << each;
  }
  EXPECT_EQ(named, ops());
  for (const std::string& op : ops()) EXPECT_FALSE(tensors({op}).empty()) << op << " has defaults for everything";
}

TEST_F(BenchTest, Measures) {
  const std::string problems = write("problems",
                                     "# three, one of them in a manifest's form\n"
                                     "rmsnorm host dtype=f16 access=16 rows=4 n=128 residual=1\n"
                                     "\n"
                                     "moe_combine tokens=3 top_k=2 n=64\n"
                                     "pointwise rows=2 n=40 expression=silu(tensor0)%20*%20tensor1\n");
  const Json json = quern_json({"bench", "--problems", problems, "--device", "host", "--milliseconds", "1"});
  ASSERT_EQ(json["code"], 0) << json;
  ASSERT_EQ(json["problems"].size(), 3U);
  EXPECT_EQ(json["device"]["target"], "host");
  EXPECT_FALSE(json.contains("ceilings"));
  for (const Json& each : json["problems"]) {
    EXPECT_GT(each["call_us"].get<double>(), 0);
    EXPECT_EQ(each["graph_us"], 0);
    EXPECT_EQ(each["kernels"].size(), 1U) << each;
    EXPECT_EQ(each["memory_share"], 0);
  }
  EXPECT_TRUE(
      has(json["problems"][0]["kernels"][0].get<std::string>(), "rmsnorm host dtype=f16 weight=f16 residual=1"));
  EXPECT_TRUE(has(json["problems"][2]["kernels"][0].get<std::string>(), "expression=silu(tensor0)*tensor1"));
  // Three rows and two residuals of 4 x 128, and the weight.
  EXPECT_EQ(json["problems"][0]["bytes"], 2 * (3 * 4 * 128 + 128));

  const Finished people = quern({"bench", "--problems", problems, "--device", "host", "--milliseconds", "1"});
  EXPECT_EQ(people.code, 0) << people.err;
  EXPECT_TRUE(has(people.out, "OP           CALL us  GRAPH us"));
  EXPECT_TRUE(has(people.err, "host has no ceiling"));
}

TEST_F(BenchTest, SaysWhichKernelAndWhy) {
  const std::vector<std::string> product = {"bench", "gemm", "variant=swap_ab_16", "m=8",
                                            "n=32",  "k=32", "--device",           "host"};
  const std::string picture = folder() / "bars.svg";
  std::vector<std::string> drawn = product;
  drawn.insert(drawn.end(), {"--svg", picture, "--milliseconds", "1"});
  const Finished finished = quern(drawn);
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "ran: gemm host variant="));
  EXPECT_TRUE(has(finished.out, "chosen by the model of waves and bytes: "));
  EXPECT_TRUE(has(finished.out, "not tuned here (quern tune)"));
  const std::string svg = read(picture);
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(has(svg, ">gemm variant=swap_ab_16 m=8 n=32 k=32</text>"));
}

TEST_F(BenchTest, ProblemsAreReadAsTheyAreWritten) {
  EXPECT_EQ(tensors({"gemm", "m=3", "n=8", "k=16"}),
            (Json{{"a", "bf16[3,16]"}, {"b", "bf16[8,16]"}, {"out", "bf16[3,8]"}}));
  EXPECT_EQ(tensors({"gemm", "m=3", "n=8", "k=16", "dtype=f16", "out=f32", "gate=1", "b=f16[n,k]:transposed"}),
            (Json{{"a", "f16[3,16]"}, {"b", "f16[8,16]:transposed"}, {"out", "f32[3,4]"}}));
  EXPECT_EQ(problem({"gemm", "m=3", "n=8", "k=16"})["flops"], 2 * 3 * 8 * 16);
  const Json decode = tensors({"attention", "batch=2", "kv=33", "heads=8", "group=4", "dim_k=64", "page_size=16"});
  EXPECT_EQ(decode["k"], "bf16[6,16,2,64]");
  EXPECT_EQ(decode["page_table"], "int32[2,3]");
  EXPECT_FALSE(decode.contains("cu_q"));
  const Json prefill = problem({"attention", "batch=1", "queries=4", "kv=4", "heads=1", "group=1", "dim_k=64"});
  EXPECT_EQ(prefill["tensors"]["cu_q"], "int32[2]");
  EXPECT_EQ(prefill["flops"], 2 * (64 + 64) * (1 + 2 + 3 + 4)) << "causal: query i sees i + 1 keys";
  EXPECT_EQ(tensors({"rmsnorm", "rows=2", "n=8", "weight=none", "residual=f32", "dtype=f32"}),
            (Json{{"x", "f32[2,8]"}, {"residual", "f32[2,8]"}, {"out", "f32[2,8]"}}));
  EXPECT_EQ(tensors({"copy", "inputs=bf16[2,2];bf16[3]", "outputs=bf16[2,2];bf16[3]"})["inputs"], "bf16[2,2];bf16[3]");
  EXPECT_EQ(problem({"copy", "rows=2", "n=4", "bytes=rows*n"})["bytes"], 8);
}

TEST_F(BenchTest, WhatIsWrongIsNamed) {
  refused({}, {"PROBLEM: none given"});
  refused({"gem"}, {"OP: 'gem' given; allowed: attention, merge_state"});
  refused({"gemm", "host", "m"}, {"'m' given; allowed: NAME=VALUE"});
  refused({"gemm", "m=many", "--list-only"}, {"m: 'many' names 'many'", "no constant of quern.h"});
  refused({"gemm", "m=2*(3", "--list-only"}, {"lacks ')'"});
  refused({"gemm", "m=4/0", "--list-only"}, {"divides by zero"});
  refused({"gemm", "m=k", "k=m", "--list-only"}, {"stands for itself"});
  refused({"gemm", "m=2.5", "--list-only"}, {"a: extent m is 2.5; allowed: whole numbers"});
  refused({"gemm", "a=q4[2,2]", "--list-only"}, {"a: type 'q4' given; allowed: bf16, f16"});
  refused({"gemm", "a=bf16[2,2]:sideways", "--list-only"}, {"a: ':sideways' given; allowed: :transposed"});
  refused({"gemm", "bias=perhaps", "--list-only"}, {"bias: 'perhaps' given; allowed: none, 1, a type"});
  refused({"gemm", "sm_90a", "--device", "host"}, {"TARGET: 'sm_90a' given; allowed: * or the device's, host"});
  refused({"rmsnorm", "row=3", "rows=2", "n=64", "--device", "host"}, {"row: given, and neither an argument"});
  refused({"gemm", "--device", "tpu"}, {"--device: 'tpu' given"});
  const Finished line =
      quern({"bench", "--problems", write("problems", "gemm m=1\nrmsnorm host rows\n"), "--list-only"});
  EXPECT_EQ(line.code, 1);
  EXPECT_TRUE(has(line.err, "problems, line 2: PROBLEM: 'rows' given"));
  // What the library refuses is shown as it says it; one bad problem does not stop the others.
  const std::string problems = write("problems", "softmax rows=2 vocab=64\nsoftmax rows=2 vocab=64 out=int32\n");
  const Json mixed = quern_json({"bench", "--problems", problems, "--device", "host", "--milliseconds", "1"});
  EXPECT_EQ(mixed["code"], 1);
  EXPECT_EQ(mixed["error"]["text"], "1 of 2 problems failed");
  EXPECT_TRUE(has(mixed["problems"][1]["error"].get<std::string>(), "out"));
}

TEST_F(BenchTest, AModelsStep) {
  const auto steps = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"bench", "--config", std::string(QUERN_CLI_CONFIGS) + '/' + name + ".json", "--list-only"});
    const Json json = quern_json(more);
    EXPECT_EQ(json["code"], 0) << json;
    return json;
  };
  const Json llama = steps("llama-3-8b", {"--batch", "64", "--context", "8192", "--tp", "8"});
  EXPECT_EQ(llama["step"], (Json{{"batch", 64}, {"context", 8192}, {"queries", 1}}));
  EXPECT_EQ(llama["left_out"], Json({"what the ranks send each other"}));
  const std::string text = llama.dump();
  EXPECT_TRUE(has(text, "gemm dtype=bf16 m=64 n=768 k=4096 gate=0 bias=none")) << "4 + 2 x 1 heads of 128";
  EXPECT_TRUE(has(text, "attention dtype=bf16 kv_dtype=bf16 batch=64 queries=1 kv=8192 heads=4 group=4"));
  EXPECT_TRUE(has(steps("deepseek-v3", {"--tp", "8"}).dump(), "mla_decode dtype=bf16"));
  EXPECT_TRUE(has(steps("deepseek-v3", {}).dump(), "grouped_fp8_gemm scales=blocks experts=256"));
  EXPECT_TRUE(has(steps("mixtral-8x7b", {})["left_out"].dump(), "the experts' products"));
  EXPECT_TRUE(has(steps("gpt2", {}).dump(), "norm dtype=bf16"));
  EXPECT_TRUE(has(steps("gpt-oss-20b", {}).dump(), "sinks=1"));
}

}  // namespace
}  // namespace quern::cli_tests
