// `quern verify --run` on the host target: right kernels agree, one that is not what its source says is told.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "capi/quern.h"
#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

constexpr const char* kKernels = "merge_state host dtype=bf16\nargmax host dtype=f32\n";

class VerifyRunTest : public CommandTest {
 protected:
  // The same kernels by a compiler that changes a text of what it is given on the way: the cache takes its word.
  void warm_with(const std::string& from, const std::string& to) const {
    const std::string compiler = folder() / "compiler";
    write("compiler", "#!/bin/sh\nif [ \"$1\" = --version ]; then exec /usr/bin/c++ \"$@\"; fi\nsed 's/" + from + '/' +
                          to + "/' | /usr/bin/c++ \"$@\"\n");
    ASSERT_EQ(chmod(compiler.c_str(), 0755), 0);
    const std::string cache = folder() / "quern";
    quern_context_options options{};
    options.size = sizeof(options);
    options.cache_path = cache.c_str();
    options.host_compiler = compiler.c_str();
    quern_error error{};
    error.size = sizeof(error);
    quern_context* context = nullptr;
    ASSERT_EQ(quern_context_create(&options, &context, &error), QUERN_OK) << error.text;
    quern_warm_options what{};
    what.size = sizeof(what);
    what.manifest = kKernels, what.manifest_length = std::string_view(kKernels).size();
    EXPECT_EQ(quern_warm(context, &what, nullptr, &error), QUERN_OK) << error.text;
    quern_context_destroy(context);
  }
};

TEST_F(VerifyRunTest, RightKernelsAgree) {
  EXPECT_EQ(quern_json({"warm", write("kernels", kKernels)})["code"], 0);
  const Json json = quern_json({"verify", "--run", "--device", "host", "--seed", "7"});
  EXPECT_EQ(json["code"], 0) << json;
  EXPECT_EQ(json["device"]["target"], "host");
  EXPECT_EQ(json["counts"], Json({{"agrees", 2}, {"differs", 0}, {"failed", 0}, {"not_run", 0}}));
  ASSERT_EQ(json["kernels"].size(), 2U);
  EXPECT_EQ(json["kernels"][0]["op"], "argmax");
  EXPECT_EQ(json["kernels"][1]["op"], "merge_state");
  for (const Json& kernel : json["kernels"]) {
    EXPECT_EQ(kernel["outcome"], "agrees") << kernel;
    EXPECT_EQ(kernel["status"], "QUERN_OK");
    EXPECT_EQ(kernel["target"], "host");
    EXPECT_EQ(kernel["key"].get<std::string>().size(), 32U);
    EXPECT_GT(kernel["trials"], 0);
    EXPECT_LE(kernel["error"], 1);
    EXPECT_LE(kernel["truth_error"], 1);
    EXPECT_TRUE(has(kernel["text"].get<std::string>(), "7")) << "the seed";
  }
  const Finished people = quern({"verify", "--run", "argmax", "--device", "host"});
  EXPECT_EQ(people.code, 0) << people.err;
  EXPECT_TRUE(has(people.out, "agrees"));
  EXPECT_FALSE(has(people.out, "merge_state"));
  EXPECT_TRUE(has(people.err, "1 kernel, 1 agrees, in "));
  const std::string key = json["kernels"][1]["key"];
  EXPECT_EQ(quern_json({"verify", "--run", key.substr(0, 12), "--device", "host"})["kernels"][0]["op"], "merge_state");
}

TEST_F(VerifyRunTest, AKernelThatIsNotWhatItsSourceSaysIsTold) {
  warm_with("weight_b \\* inverse", "weight_b * inverse * 1.05f");
  EXPECT_EQ(quern({"verify"}).code, 0) << "its bytes are as they were stored";
  const Json json = quern_json({"verify", "--run", "--device", "host"});
  EXPECT_EQ(json["code"], 3) << json;
  EXPECT_EQ(json["error"]["status"], "QUERN_DAMAGED");
  EXPECT_EQ(json["counts"]["differs"], 1);
  EXPECT_EQ(json["counts"]["agrees"], 1);
  ASSERT_EQ(json["kernels"].size(), 2U) << json;
  EXPECT_EQ(json["kernels"][1]["op"], "merge_state");
  EXPECT_EQ(json["kernels"][1]["outcome"], "differs");
  EXPECT_GT(json["kernels"][1]["error"], 1);
  EXPECT_GT(json["kernels"][1]["truth_error"], 1);
  EXPECT_EQ(json["kernels"][0]["outcome"], "agrees");
  const Finished people = quern({"verify", "--run", "--device", "host"});
  EXPECT_EQ(people.code, 3);
  EXPECT_TRUE(has(people.out, "differs"));
  EXPECT_TRUE(has(people.err, "merge_state host dtype=bf16: "));
  EXPECT_TRUE(has(people.err, "2 kernels, 1 agrees, 1 differs, in "));
  EXPECT_EQ(quern({"verify", "--run", "argmax", "--device", "host"}).code, 0);
}

TEST_F(VerifyRunTest, WhatOtherTargetsHaveIsNotRun) {
  EXPECT_EQ(quern_json({"warm", "--target", "host64", write("kernels", "argmax * dtype=f32\n")})["code"], 0);
  const Json json = quern_json({"verify", "--run", "--device", "host"});
  EXPECT_EQ(json["code"], 0) << json;
  EXPECT_EQ(json["counts"]["not_run"], 1);
  EXPECT_TRUE(json["kernels"][0]["error"].is_null());
  EXPECT_TRUE(json["kernels"][0]["truth_error"].is_null());
}

TEST_F(VerifyRunTest, ItsOptionsAreForItAlone) {
  for (const auto& [given, named] : {std::pair<std::vector<std::string>, const char*>{{"argmax"}, "SELECT"},
                                     {{"--device", "host"}, "--device"},
                                     {{"--seed", "7"}, "--seed"}}) {
    std::vector<std::string> arguments = {"verify"};
    arguments.insert(arguments.end(), given.begin(), given.end());
    const Finished refused = quern(arguments);
    EXPECT_EQ(refused.code, 2) << named;
    EXPECT_TRUE(has(refused.err, std::string(named) + ": given without --run"));
  }
}

}  // namespace
}  // namespace quern::cli_tests
