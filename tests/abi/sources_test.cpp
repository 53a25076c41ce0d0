// The device sources inside the library, and manifest lines taken apart and put together.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "jit/directives.h"
#include "jit/error.h"
#include "jit/key.h"
#include "sources/common_headers.h"
#include "sources/embedded.h"
#include "sources/kernel/kernel.h"
#include "sources/manifest.h"
#include "sources/op.h"
#include "sources/workspace.h"

namespace quern::ops {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Embedded, HoldsEveryDeviceSourceToTheByte) {
  const std::filesystem::path folder = QUERN_TEST_SOURCES;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cuh") continue;
    ++files;
    const std::string name = entry.path().lexically_relative(folder).generic_string();
    EXPECT_TRUE(embedded(name).text == contents(entry.path())) << name;
  }
  EXPECT_GT(files, 0U);
  EXPECT_EQ(embedded().size(), files);
  const auto by_name = [](const jit::File& a, const jit::File& b) { return a.name < b.name; };
  EXPECT_TRUE(std::is_sorted(embedded().begin(), embedded().end(), by_name));
  EXPECT_THROW(embedded("common/absent.cuh"), Error);
}

jit::File bare(const jit::File& file) { return {file.name, file.text}; }

TEST(Embedded, KnowsTheDigestAndTheIncludesOfEveryFile) {
  jit::Unit unit;
  unit.op = "none";
  unit.target = jit::Target::parse("sm_90a");
  for (const jit::File& file : embedded()) {
    EXPECT_EQ(jit::canonical_text(unit, {file}), jit::canonical_text(unit, {bare(file)})) << file.name;
    std::vector<std::string_view> names;
    const jit::Directives directives = jit::find_directives(file.text);
    for (const jit::Directive& directive : directives.list) {
      if (directive.kind == jit::Directive::Kind::include) names.push_back(directive.name);
    }
    EXPECT_TRUE(std::equal(names.begin(), names.end(), file.includes.begin(), file.includes.end())) << file.name;
  }
}

// What is known of the files beforehand spares reading them, and changes no key.
TEST(Embedded, KeysAreTheSameFromTheTextsThemselves) {
  quern_model model{};
  model.size = sizeof model;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  for (const char* name : {"sm_90a", "gfx90a", "host", "host64"}) {
    const jit::TargetInfo target = jit::limits_of(jit::Target::parse(name));
    std::vector<jit::Spec> specs;
    for (const Op& op : all()) op.list(model, target, &specs);
    ASSERT_FALSE(specs.empty());
    for (const jit::Spec& spec : specs) {
      const jit::Unit unit = describe(spec);
      jit::Unit texts = unit;
      texts.source = bare(unit.source);
      for (jit::File& header : texts.headers) header = bare(header);
      EXPECT_EQ(jit::canonical_text(unit, jit::used_files(unit)), jit::canonical_text(texts, jit::render(texts).used));
    }
  }
}

TEST(CommonHeaders, HaveOneBackendUnderItsCommonName) {
  for (const auto& [target, backend] :
       {std::pair{"sm_90a", "common/portable/cuda.cuh"}, {"host", "common/portable/host.cuh"}}) {
    const std::vector<jit::File> headers = common_headers(jit::Target::parse(target));
    std::size_t backends = 0;
    for (const jit::File& header : headers) {
      EXPECT_TRUE(header.name.starts_with("common/")) << header.name;
      EXPECT_NE(header.name, "common/portable/cuda.cuh");
      EXPECT_NE(header.name, "common/portable/hip.cuh");
      EXPECT_NE(header.name, "common/portable/host.cuh");
      if (header.name != "common/backend.cuh") continue;
      ++backends;
      EXPECT_EQ(header.text, embedded(backend).text);
    }
    EXPECT_EQ(backends, 1U);
    EXPECT_TRUE(
        std::any_of(headers.begin(), headers.end(), [](const jit::File& f) { return f.name == "common/kernel.cuh"; }));
  }
  EXPECT_THROW(common_headers(jit::Target()), Error);

  for (const auto& [target, layer, backend] : {std::tuple{"sm_90a", "sm90/warpgroup", "sm90/warpgroup_cuda"},
                                               {"host", "sm90/warpgroup", "sm90/warpgroup_host"},
                                               {"sm_120a", "sm90/tma", "sm90/tma_cuda"},
                                               {"host", "sm90/tma", "sm90/tma_host"}}) {
    const std::string place = "common/" + std::string(layer) + "_backend.cuh";
    std::size_t backends = 0;
    for (const jit::File& header : common_headers(jit::Target::parse(target))) {
      if (header.name != place) continue;
      ++backends;
      EXPECT_EQ(header.text, embedded("common/" + std::string(backend) + ".cuh").text);
    }
    EXPECT_EQ(backends, 1U) << target << ' ' << layer;
  }

  std::string wide;
  for (const jit::File& header : common_headers(jit::Target::parse("host64"))) {
    if (header.name == "common/backend.cuh") wide = header.text;
  }
  EXPECT_NE(wide.find("QUERN_HOST_WARP 64"), std::string::npos) << wide;
  EXPECT_NE(wide.find("common/portable/host.cuh"), std::string::npos) << wide;
}

TEST(Manifest, PercentEncodingTakesEveryByteThereAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = percent_encode(all);
  EXPECT_EQ(encoded.find_first_of(" =\n\t\r"), std::string::npos);
  EXPECT_EQ(percent_decode(encoded), all);
  EXPECT_EQ(percent_decode("%41%62"), "Ab");
  EXPECT_EQ(percent_decode("x%20"), "x ");
  for (const char* bad : {"%", "%4", "%4g", "a%%20"}) EXPECT_THROW(percent_decode(bad), Error) << bad;
}

TEST(Manifest, ALineAndItsSpecAreEachOthersInverse) {
  kernel::Text text;
  text.entry = "entry_point";
  text.source = {"a b.cuh", "line one\n\t100 % == é\n"};
  text.headers = {{"z.cuh", ""}, {"a.cuh", "x"}};
  text.defines = {{"SECOND", "1 + 1"}, {"FIRST", ""}};
  text.options = {"-use_fast_math", "-DA=1"};
  text.max_shared_bytes = 4096;
  const jit::Spec spec = kernel::intern(text, jit::Target::parse("sm_90a"));
  const std::string line = to_line(spec);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto parsed = parse_line(line);
  ASSERT_TRUE(parsed && parsed->target);
  EXPECT_TRUE(to_spec(*parsed, *parsed->target) == spec) << line;
  EXPECT_EQ(kernel::interned(spec), text);

  text.defines = {{"FIRST", ""}, {"SECOND", "1 + 1"}};
  EXPECT_FALSE(kernel::intern(text, jit::Target::parse("sm_90a")) == spec) << "the order of constants means something";
  EXPECT_FALSE(to_spec(*parsed, jit::Target::parse("sm_80")) == spec);
}

kernel::Text numbered(int number) {
  kernel::Text text;
  text.entry = "k";
  text.source = {"k.cu", "int x = " + std::to_string(number) + ";"};
  return text;
}

TEST(KernelTexts, AreKnownAsLongAsSomebodyKeepsThem) {
  const jit::Target target = jit::Target::parse("host");
  {
    const kernel::Interning ended;
  }  // what other tests have left is forgotten
  const std::size_t before = kernel::known_texts();
  jit::Spec first, second;
  {
    auto one = std::make_unique<kernel::Kept>(), other = std::make_unique<kernel::Kept>();
    {
      const kernel::Interning interning;
      first = kernel::intern(numbered(1), target);
      one->keep(first), one->keep(first), other->keep(first);
      second = kernel::intern(numbered(2), target);
      one->keep(second);
      kernel::intern(numbered(3), target);
      EXPECT_EQ(kernel::known_texts(), before + 3);
    }
    EXPECT_EQ(kernel::known_texts(), before + 2) << "nobody keeps the third";
    EXPECT_EQ(kernel::interned(first), numbered(1));
    one.reset();
    EXPECT_EQ(kernel::known_texts(), before + 1);
    EXPECT_EQ(kernel::interned(first), numbered(1)) << "the other one keeps it";
    EXPECT_THROW(kernel::interned(second), Error);
    // Whoever is interning finds what is about to be forgotten.
    const kernel::Interning interning;
    other.reset();
    EXPECT_TRUE(kernel::intern(numbered(1), target) == first);
  }
  EXPECT_EQ(kernel::known_texts(), before);
  const kernel::Interning interning;
  EXPECT_FALSE(kernel::intern(numbered(1), target) == first) << "a number is never used again";
}

TEST(Manifest, ConstantsThatAnOpDoesNotHaveAreNamed) {
  const auto refused = [](const char* line, const char* words) {
    try {
      const auto parsed = parse_line(line);
      to_spec(*parsed, *parsed->target);
    } catch (const Error& error) {
      return error.text().find(words) != std::string::npos;
    }
    return false;
  };
  EXPECT_NO_THROW(to_spec(*parse_line("merge_state host dtype=f16"), jit::Target::parse("host")));
  EXPECT_TRUE(refused("merge_state host dtype=f16 colour=red", "colour"));
  EXPECT_TRUE(refused("merge_state host dtype=f16 dtype=f16", "\"dtype\" is given twice"));
  EXPECT_TRUE(refused("merge_state host dtype=f8", "f8"));
}

TEST(Workspace, IsLargeEnoughAndAligned) {
  alignas(256) static char memory[512];
  EXPECT_NO_THROW(read_workspace(memory, 512, 512));
  EXPECT_THROW(read_workspace(memory, 511, 512), Error);
  EXPECT_THROW(read_workspace(memory + 128, 384, 300), Error);
  EXPECT_THROW(read_workspace(nullptr, 512, 1), Error);
}

TEST(Manifest, EmptyLinesAndCommentsSayNothing) {
  for (const char* line : {"", "   ", "\t\r", "# kernel host", "  #"})
    EXPECT_FALSE(parse_line(line).has_value()) << line;
  const auto star = parse_line("kernel\t*  entry=x\r");
  ASSERT_TRUE(star.has_value());
  EXPECT_FALSE(star->target.has_value());
  ASSERT_EQ(star->constants.size(), 1U);
  EXPECT_EQ(star->constants[0].value, "x");
}

TEST(Ops, TagsAreTheirPlaces) {
  EXPECT_EQ(all().size(), tag_index_check + std::size_t{1});
  for (const Op& op : all()) EXPECT_EQ(find(op.name), &op);
  EXPECT_STREQ(all()[tag_kernel].name, "kernel");
  EXPECT_STREQ(all()[tag_attention].name, "attention");
  EXPECT_EQ(find("none"), nullptr);
  jit::Spec spec;
  spec.op = 1000;
  EXPECT_THROW(describe(spec), Error);
}

}  // namespace
}  // namespace quern::ops
