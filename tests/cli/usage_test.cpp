// Arguments: help, version, what is refused and how.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

constexpr const char* kCommands[] = {"warm", "tune",   "bench",  "manifest", "list",  "inspect", "verify",
                                     "trim", "export", "import", "keys",     "stats", "doctor"};

class Usage : public CommandTest {
 protected:
  // Refused as wrong usage, with a message that holds every part; the same as JSON.
  void refused(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) const {
    const Finished finished = quern(arguments);
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_EQ(finished.out, "");
    for (const std::string& part : parts) EXPECT_TRUE(has(finished.err, part));
    const Json json = quern_json(arguments);
    EXPECT_EQ(json["code"], 2);
    EXPECT_EQ(json["error"]["status"], "QUERN_INVALID");
    for (const std::string& part : parts) EXPECT_TRUE(has(json["error"]["text"].get<std::string>(), part));
  }
};

TEST_F(Usage, HelpNamesEveryCommand) {
  const Finished finished = quern({"--help"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  for (const char* command : kCommands) EXPECT_TRUE(has(finished.out, std::string("\n  ") + command + ' '));
  EXPECT_TRUE(has(finished.out, "Examples:\n  quern "));
}

TEST_F(Usage, EveryCommandHasHelpWithExamples) {
  for (const char* command : kCommands) {
    const Finished finished = quern({command, "--help"});
    EXPECT_EQ(finished.code, 0) << command;
    EXPECT_EQ(finished.err, "");
    EXPECT_TRUE(has(finished.out, std::string("Usage: quern ") + command));
    EXPECT_TRUE(has(finished.out, std::string("Examples:\n  quern ") + command));
    for (const char* option : {"--cache", "--bundle", "--search-dir", "--json", "--quiet", "--verbose", "--no-color"}) {
      EXPECT_TRUE(has(finished.out, option));
    }
  }
}

TEST_F(Usage, HelpFitsIntoEightyColumns) {
  std::vector<std::vector<std::string>> helps = {{"--help"}};
  for (const char* command : kCommands) helps.push_back({command, "--help"});
  for (const auto& arguments : helps) {
    std::string text = quern(arguments).out;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      EXPECT_LE(text.find('\n', at) - at, 80U) << text.substr(at, text.find('\n', at) - at);
    }
  }
}

TEST_F(Usage, Version) {
  const Finished finished = quern({"--version"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_TRUE(has(finished.out, "quern "));
  const Json json = quern_json({"--version"});
  EXPECT_EQ(json["command"], "version");
  EXPECT_EQ(json["abi"], 1);
  EXPECT_EQ("quern " + json["version"].get<std::string>() + " (ABI 1)\n", finished.out);
}

TEST_F(Usage, NoCommand) { refused({}, {"COMMAND", "warm, tune, bench, manifest, list, inspect"}); }
TEST_F(Usage, UnknownCommand) { refused({"grind"}, {"COMMAND", "'grind' given", "allowed: warm, tune, bench"}); }
TEST_F(Usage, UnknownOption) { refused({"list", "--frob"}, {"'--frob' given", "quern list"}); }
TEST_F(Usage, UnknownGlobalOption) { refused({"--frob"}, {"'--frob' given", "quern"}); }
TEST_F(Usage, TooManyArguments) { refused({"stats", "this"}, {"'this' given", "quern stats"}); }
TEST_F(Usage, MissingValue) { refused({"list", "--bundle"}, {"--bundle", "FILE"}); }
TEST_F(Usage, EmptyValue) { refused({"--cache", "", "list"}, {"--cache", "''", "not empty"}); }
TEST_F(Usage, MissingKey) { refused({"inspect"}, {"KEY"}); }
TEST_F(Usage, MissingFile) { refused({"export"}, {"FILE"}); }
TEST_F(Usage, TensorParallel) {
  for (const char* given : {"0", "-1", "2.5", "many", "1025", "99999999999999999999"}) {
    refused({"warm", "--config", "c.json", std::string("--tp=") + given}, {"--tp", given, "from 1 to 1024"});
  }
}
TEST_F(Usage, Dtype) {
  refused({"warm", "--config", "c.json", "--dtype", "f32"}, {"--dtype", "'f32' given", "bf16, f16"});
}
TEST_F(Usage, KvDtype) {
  refused({"warm", "--config", "c.json", "--kv-dtype", "fp4"},
          {"--kv-dtype", "'fp4' given", "bf16, f16, e4m3, e5m2, int8"});
  refused({"warm", "--config", "c.json", "--kv-dtype", "int8", "--kv-scales", "row"},
          {"--kv-scales", "'row' given", "tensor, token"});
  refused({"warm", "--config", "c.json", "--kv-dtype", "f16", "--kv-scales", "token"},
          {"--kv-scales", "KV cache of f16", "e4m3, e5m2 or int8"});
  refused({"warm", "--config", "c.json", "--kv-scales", "token"}, {"--kv-scales", "e4m3, e5m2 or int8"});
  refused({"warm", "--config", "c.json", "--weights", "int4"}, {"--weights", "'int4' given", "bf16, fp8, fp8-block"});
  refused({"warm", "--config", "c.json", "--q-dtype", "int8"}, {"--q-dtype", "'int8' given", "bf16, e4m3"});
  refused({"warm", "--config", "c.json", "--logits", "f32"}, {"--logits", "'f32' given", "bf16, fp8"});
}
TEST_F(Usage, PageSize) {
  refused({"warm", "--config", "c.json", "--page-size", "0"}, {"--page-size", "'0' given", "from 1"});
}
TEST_F(Usage, Jobs) { refused({"warm", "m", "--jobs", "0"}, {"--jobs", "'0' given", "from 1 to 256"}); }
TEST_F(Usage, Limit) {
  for (const char* given : {"0", "12Q", "-5", "M", "1e400"}) {
    refused({"trim", std::string("--limit=") + given}, {"--limit", given, "512M"});
  }
}
TEST_F(Usage, LimitOfNothing) { refused({"trim", "--all", "--limit", "1M"}, {"--limit", "--all"}); }
TEST_F(Usage, WarmNeedsSomething) { refused({"warm", "--target", "host"}, {"MANIFEST", "--config FILE"}); }
TEST_F(Usage, ModelOptionsNeedAConfig) {
  refused({"warm", "m", "--tp", "2"}, {"--tp", "--config"});
  refused({"warm", "m", "--dtype", "f16"}, {"--dtype", "--config"});
  refused({"warm", "m", "--kv-dtype", "f16"}, {"--kv-dtype", "--config"});
  refused({"warm", "m", "--kv-scales", "token"}, {"--kv-scales", "--config"});
  refused({"warm", "m", "--q-dtype", "e4m3"}, {"--q-dtype", "--config"});
  refused({"warm", "m", "--weights", "fp8"}, {"--weights", "--config"});
  refused({"warm", "m", "--logits", "fp8"}, {"--logits", "--config"});
  refused({"warm", "m", "--page-size", "16"}, {"--page-size", "--config"});
}

TEST_F(Usage, GlobalOptionsStandAnywhere) {
  const std::string here = folder() / "elsewhere";
  for (const auto& arguments :
       {std::vector<std::string>{"--cache", here, "stats", "--json"}, {"stats", "--json", "--cache", here}}) {
    const Finished finished = quern(arguments);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(Json::parse(finished.out)["command"], "stats");
  }
}

TEST_F(Usage, AFullDiskIsAFailure) {
  Invocation full = invocation({});
  full.arguments = {"/bin/sh", "-c", std::string(QUERN_CLI_BINARY) + " --help > /dev/full"};
  EXPECT_EQ(run(full).code, 1);
  full.arguments.back() = std::string(QUERN_CLI_BINARY) + " stats --json > /dev/full";
  const Finished finished = run(full);
  EXPECT_EQ(finished.code, 1);
  EXPECT_TRUE(has(finished.err, "standard output"));
}

}  // namespace
}  // namespace quern::cli_tests
