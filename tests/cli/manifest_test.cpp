// `quern manifest`: what it writes `quern warm` reads; what a manifest lacks is named.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class ManifestTest : public CommandTest {
 protected:
  std::string small_model() const {
    return write("config.json", R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
      "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 256,
      "max_position_embeddings": 512, "hidden_act": "silu"})");
  }
};

TEST_F(ManifestTest, WritesWhatAModelNeeds) {
  const std::string config = small_model();
  const Finished written = quern({"manifest", "--config", config, "--target", "sm_90a"});
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_TRUE(has(written.out, "\nattention sm_90a "));
  EXPECT_EQ(occurrences(written.out, "\n"), occurrences(written.out, " sm_90a ")) << "a kernel a line";
  const Json warm = quern_json({"warm", "--config", config, "--target", "sm_90a", "--list-only"});
  const std::string file = write("llama.manifest", written.out);
  const Json again = quern_json({"manifest", file});
  EXPECT_EQ(again["kernels"].size(), warm["kernels"].size());
  EXPECT_EQ(again["cached"], 0);
  EXPECT_EQ(quern({"manifest", file}).out, written.out) << "in the order in which it stands";
  EXPECT_EQ(quern({"manifest", file, "--check", "--config", config, "--target", "sm_90a"}).out, "");
  EXPECT_EQ(quern({"manifest", file, "--check", "--config", config, "--target", "sm_90a"}).code, 0);
}

TEST_F(ManifestTest, NamesWhatIsLacking) {
  const std::string config = small_model();
  const std::string all = quern({"manifest", "--config", config, "--target", "sm_90a"}).out;
  const std::string first = all.substr(0, all.find('\n'));
  const std::string file = write("short.manifest", all.substr(first.size() + 1));
  const Finished checked = quern({"manifest", file, "--check", "--config", config, "--target", "sm_90a"});
  EXPECT_EQ(checked.code, 1);
  EXPECT_TRUE(has(checked.err, "not in the manifest: " + first));
  EXPECT_TRUE(has(checked.err, "1 kernel that the model needs missing"));
}

TEST_F(ManifestTest, ChecksLines) {
  const std::string file = write("bad.manifest", "merge_state host dtype=bf16\nmerge_state host dtype=f64\nvax host\n");
  const Finished checked = quern({"manifest", file, "--check"});
  EXPECT_EQ(checked.code, 1);
  EXPECT_TRUE(has(checked.err, "line 2: "));
  EXPECT_TRUE(has(checked.err, "line 3: "));
  EXPECT_TRUE(has(checked.err, "2 lines cannot be read"));
  const std::string star = write("star.manifest", "merge_state * dtype=bf16\n");
  EXPECT_TRUE(has(quern({"manifest", star}).err, "--target: none given"));
  EXPECT_EQ(quern({"manifest", star, "--target", "host,sm_80"}).out,
            "merge_state host dtype=bf16\nmerge_state sm_80 dtype=bf16\n");
  EXPECT_TRUE(has(quern({"manifest"}).err, "MANIFEST: none given"));
}

TEST_F(ManifestTest, Summary) {
  const std::string file = write("two.manifest", "merge_state host dtype=bf16\nmerge_state host dtype=f16\n");
  ASSERT_EQ(quern({"warm", "-"}, "merge_state host dtype=bf16\n").code, 0);
  const Finished summary = quern({"manifest", file, "--summary"});
  EXPECT_TRUE(has(summary.out, "host    merge_state        2       1")) << summary.out;
  EXPECT_TRUE(has(summary.err, "2 kernels, 1 in the cache"));
}

// A shared cache: each entry carries a code under a key, which stands in a file.
TEST_F(ManifestTest, CacheKey) {
  const std::string key = write("shared.key", std::string(64, 'a') + '\n');
  const std::string line = "merge_state host dtype=bf16\n";
  EXPECT_EQ(quern_json({"warm", "-", "--cache-key", key}, line)["counts"]["compiled"], 1);
  EXPECT_EQ(quern_json({"warm", "-", "--cache-key", key}, line)["counts"]["cached"], 1);
  const std::string other = write("other.key", std::string(64, 'b') + '\n');
  EXPECT_EQ(quern_json({"warm", "-", "--cache-key", other}, line)["counts"]["compiled"], 1)
      << "never loaded, made again";
  const Finished bad = quern({"stats", "--cache-key", write("bad.key", "short\n")});
  EXPECT_NE(bad.code, 0);
  EXPECT_TRUE(has(bad.err, "cache_key"));
  EXPECT_TRUE(has(quern({"stats", "--cache-key", folder() / "none"}).err, "none"));
}

}  // namespace
}  // namespace quern::cli_tests
