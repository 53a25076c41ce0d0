// `quern tune`, on the host target: what it measures it keeps, shows and does not measure twice.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class TuneTest : public CommandTest {};

constexpr const char* kProducts =
    "# two products\n"
    "gemm * dtype=bf16 n=40 k=32\n"
    "\n"
    "gemm host dtype=bf16 n=24 k=32\n";

TEST_F(TuneTest, MeasuresOnce) {
  const std::string manifest = write("products", kProducts);
  const Json absent = quern_json({"tune", manifest, "--device", "host", "--rows", "8", "--list-only"});
  EXPECT_EQ(absent["code"], 0) << absent;
  EXPECT_EQ(absent["counts"]["absent"], 2);
  const Json first = quern_json({"tune", manifest, "--device", "host", "--rows", "8", "--milliseconds", "1"});
  EXPECT_EQ(first["code"], 0) << first;
  EXPECT_EQ(first["counts"]["measured"], 2);
  EXPECT_EQ(first["device"]["target"], "host");
  ASSERT_EQ(first["products"].size(), 2U);
  const Json& product = first["products"][0];
  EXPECT_EQ(product["op"], "gemm");
  EXPECT_EQ(product["line"], 2);
  EXPECT_EQ(product["rows"], 8);
  EXPECT_TRUE(product["product"].get<std::string>().starts_with("n=40 k=32 dtype=bf16"));
  EXPECT_FALSE(product["choice"].get<std::string>().empty());
  EXPECT_GT(product["microseconds"].get<double>(), 0);
  EXPECT_GE(product["model_microseconds"].get<double>(), product["microseconds"].get<double>());
  EXPECT_GE(product["candidates"].get<int>(), 2);
  const Json again = quern_json({"tune", manifest, "--device", "host", "--rows", "8,16"});
  EXPECT_EQ(again["counts"]["known"], 4) << "sixteen rows are done as eight are";
  EXPECT_EQ(again["products"][0]["choice"], product["choice"]);

  const Finished people = quern({"tune", manifest, "--device", "host", "--rows", "8"});
  EXPECT_EQ(people.code, 0) << people.err;
  EXPECT_TRUE(has(people.out, "known  gemm     8  "));
  EXPECT_TRUE(has(people.err, "2 products, 2 known, in "));

  const Json listed = quern_json({"list", "gemm"});
  EXPECT_TRUE(has(listed.dump(), "\"tuning\""));
}

TEST_F(TuneTest, BadLinesAreNamed) {
  const std::string manifest =
      write("products", "gemm * dtype=bf16 n=40\nattention *\nfp8_gemm * scales=vectors n=8 k=32\n");
  const Finished bad = quern({"tune", manifest, "--device", "host", "--rows", "8", "--list-only"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(has(bad.err, "line 1: gemm: constant k is missing"));
  EXPECT_TRUE(has(bad.err, "line 2: op \"attention\" has nothing to tune"));
  EXPECT_TRUE(has(bad.err, "2 of 3 products failed"));
  EXPECT_TRUE(has(bad.out, "absent  fp8_gemm"));
}

TEST_F(TuneTest, AModelsProducts) {
  const std::string config = write("config.json", R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 200,
    "max_position_embeddings": 512, "hidden_act": "silu"})");
  const Json listed =
      quern_json({"tune", "--config", config, "--tp", "2", "--device", "host", "--rows", "16", "--list-only"});
  EXPECT_EQ(listed["code"], 0) << listed;
  EXPECT_EQ(listed["counts"]["absent"], 5);
  EXPECT_EQ(listed["model"]["tensor_parallel"], 2);
  const Json eight =
      quern_json({"tune", "--config", config, "--weights", "fp8", "--device", "host", "--rows", "16", "--list-only"});
  EXPECT_TRUE(has(eight.dump(), "\"fp8_gemm\""));
}

TEST_F(TuneTest, UsageIsRefusedByName) {
  EXPECT_TRUE(has(quern({"tune"}).err, "MANIFEST: none given"));
  EXPECT_EQ(quern({"tune"}).code, 2);
  const std::string manifest = write("products", kProducts);
  for (const char* device : {"tpu", "cuda:", "cuda:x", "host:1"}) {
    const Finished refused = quern({"tune", manifest, "--device", device});
    EXPECT_EQ(refused.code, 2) << device;
    EXPECT_TRUE(has(refused.err, "--device: '" + std::string(device) + "' given; allowed: cuda, hip, host"))
        << refused.err;
  }
  EXPECT_EQ(quern({"tune", manifest, "--rows", "0"}).code, 2);
  EXPECT_TRUE(has(quern({"tune", manifest, "--tp", "2", "--device", "host"}).err, "--tp: given without --config"));
}

}  // namespace
}  // namespace quern::cli_tests
