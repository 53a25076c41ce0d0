// Cache administration through the C ABI.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <vector>

#include "cache/store.h"
#include "tests/abi/support.h"

namespace quern::test {
namespace {

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    const std::string manifest = scale_line("host", "1.0f") + "\n" + scale_line("host64", "1.0f") + "\n";
    auto options = sized<quern_warm_options>();
    options.manifest = manifest.data();
    options.manifest_length = manifest.size();
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_warm(context.get(), &options, nullptr, &error), QUERN_OK) << error.text;
  }

  // What quern_cache_list gives; the strings live as long as the fixture.
  std::vector<quern_entry> entries(quern_context* of, const char* prefix) {
    quern_list* list = nullptr;
    auto error = sized<quern_error>();
    EXPECT_EQ(quern_cache_list(of, prefix, &list, &error), QUERN_OK) << error.text;
    lists.emplace_back(list);
    std::vector<quern_entry> rows;
    for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
      rows.push_back(sized<quern_entry>());
      EXPECT_EQ(quern_list_entry(list, i, &rows.back()), QUERN_OK);
    }
    return rows;
  }

  const Folder folder;
  const Context context = make_context(folder, 0);
  std::vector<List> lists;
};

// Bytes that this process has read, whatever from.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  io >> name >> value;  // "rchar: N" is the first line
  return value;
}

// How the file is is known where a context has it open: nobody counts its rows for that.
TEST(KnownCache, ANewContextReadsNoRows) {
  const Folder folder;
  constexpr int kRows = 150;
  {
    cache::StoreOptions options;
    options.folder = folder.path("cache");
    cache::Store store(options);
    cache::Entry entry;
    entry.op = "kernel", entry.target = "host", entry.image = "image", entry.text.assign(3000, 'x');
    for (std::uint64_t i = 0; i < kRows; ++i) ASSERT_EQ(store.put({i, i}, entry), cache::Put::stored);
  }
  const Context first = make_context(folder, 0);
  const std::uint64_t before = bytes_read();
  const Context second = make_context(folder, 0);
  const std::uint64_t read = bytes_read() - before;
  auto stats = sized<quern_cache_stats>();
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cache_get_stats(second.get(), &stats, &error), QUERN_OK) << error.text;
  EXPECT_EQ(stats.entries, static_cast<std::uint64_t>(kRows));
  const std::uint64_t counted = bytes_read() - before - read;
  EXPECT_LT(read, 8'000U) << "while counting the rows reads " << counted;
  EXPECT_GT(counted, 50'000U) << "or counting was not seen either";
}

TEST_F(Cache, ListsByTargetOpAndKey) {
  const std::vector<quern_entry> all = entries(context.get(), nullptr);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_STREQ(all[0].target, "host") << "sorted by op, target, text";
  EXPECT_STREQ(all[1].target, "host64");
  EXPECT_STREQ(all[0].op, "kernel");
  EXPECT_STREQ(all[0].entry_name, "scale");
  EXPECT_EQ(all[0].layer, 0);
  EXPECT_EQ(all[0].kind, 1);
  EXPECT_EQ(all[0].image, nullptr) << "a list has no images";
  EXPECT_GT(all[0].image_size, 0U);
  EXPECT_GT(all[0].created, 0);
  EXPECT_NE(std::string_view(all[0].text).find("const FACTOR 1.0f"), std::string_view::npos) << all[0].text;
  EXPECT_EQ(std::string_view(all[0].compiler).substr(0, 4), "cxx ");

  EXPECT_EQ(entries(context.get(), "").size(), 2U);
  EXPECT_EQ(entries(context.get(), "kernel").size(), 2U);
  EXPECT_EQ(entries(context.get(), "host").size(), 1U) << "a target is matched whole";
  EXPECT_EQ(entries(context.get(), "attention").size(), 0U);
  const std::vector<quern_entry> one = entries(context.get(), std::string(all[1].key, 8).c_str());
  ASSERT_EQ(one.size(), 1U);
  EXPECT_STREQ(one[0].key, all[1].key);
}

TEST_F(Cache, InspectsByTheBeginningOfAKey) {
  const std::vector<quern_entry> all = entries(context.get(), nullptr);
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cache_inspect(context.get(), std::string(all[0].key, 6).c_str(), &list, &error), QUERN_OK)
      << error.text;
  lists.emplace_back(list);
  ASSERT_EQ(quern_list_count(list), 1U);
  auto entry = sized<quern_entry>();
  ASSERT_EQ(quern_list_entry(list, 0, &entry), QUERN_OK);
  EXPECT_STREQ(entry.key, all[0].key);
  ASSERT_NE(entry.image, nullptr);
  EXPECT_EQ(entry.image_size, all[0].image_size);
  EXPECT_EQ(std::string_view(static_cast<const char*>(entry.image), 4),
            "\x7f"
            "ELF");

  quern_list* none = nullptr;
  const auto inspect = [&](const char* key) {
    return [this, key, &none](quern_error* failure) { return quern_cache_inspect(context.get(), key, &none, failure); };
  };
  expect_refused(QUERN_INVALID, {"key is NULL"}, inspect(nullptr));
  expect_refused(QUERN_INVALID, {"\"abc\"", "4 to 32"}, inspect("abc"));
  expect_refused(QUERN_INVALID, {"wxyz", "hexadecimal"}, inspect("wxyz"));
  std::string absent(all[0].key);
  absent[31] = absent[31] == '0' ? '1' : '0';
  expect_refused(QUERN_NOT_FOUND, {absent}, inspect(absent.c_str()));
  EXPECT_EQ(none, nullptr);
}

TEST_F(Cache, AnAmbiguousKeyIsRefusedNamingTheOthers) {
  // Written by a second copy of the store, as another library in the process might hold one.
  cache::StoreOptions options;
  options.folder = folder.path("cache");
  cache::Store store(options);
  cache::Entry entry;
  entry.op = "kernel";
  entry.target = "host";
  entry.entry_name = "e";
  entry.image = "image";
  entry.compiler_kind = "cxx";
  for (const std::uint64_t low : {1U, 2U}) {
    entry.text = "text " + std::to_string(low);
    ASSERT_EQ(store.put({0xabcd'ef00'0000'0000, low}, entry), cache::Put::stored);
  }
  quern_list* list = nullptr;
  const auto inspect = [&](const char* key) {
    return [this, key, &list](quern_error* failure) { return quern_cache_inspect(context.get(), key, &list, failure); };
  };
  expect_refused(QUERN_INVALID, {"\"abcdef\" is ambiguous", "2 entries", "abcdef00000000000000000000000001"},
                 inspect("abcdef"));
  EXPECT_EQ(list, nullptr);
  EXPECT_EQ(inspect("abcdef00000000000000000000000002")(nullptr), QUERN_OK);
  lists.emplace_back(list);
}

TEST_F(Cache, TheSameKeyInTwoLayersIsOneEntryToInspect) {
  const std::string bundle = folder.path("all.qb");
  std::uint64_t count = 0;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cache_export(context.get(), bundle.c_str(), nullptr, &count, &error), QUERN_OK) << error.text;
  EXPECT_EQ(count, 2U);
  const char* const bundles[] = {bundle.c_str()};
  const Context both = make_context(folder, 0, [&](quern_context_options& options) {
    options.bundles = bundles;
    options.bundle_count = 1;
  });
  const std::vector<quern_entry> all = entries(both.get(), nullptr);
  EXPECT_EQ(all.size(), 4U);
  quern_list* list = nullptr;
  EXPECT_EQ(quern_cache_inspect(both.get(), all[0].key, &list, &error), QUERN_OK) << error.text;
  lists.emplace_back(list);
  auto stats = sized<quern_cache_stats>();
  ASSERT_EQ(quern_cache_get_stats(both.get(), &stats, nullptr), QUERN_OK);
  EXPECT_EQ(stats.entries, 2U);
  EXPECT_EQ(stats.bundles, 1U);
  EXPECT_EQ(stats.bundle_entries, 2U);
}

TEST_F(Cache, ABundleCarriesItElsewhere) {
  const std::string bundle = folder.path("host.qb");
  std::uint64_t count = 0;
  ASSERT_EQ(quern_cache_export(context.get(), bundle.c_str(), "host", &count, nullptr), QUERN_OK);
  EXPECT_EQ(count, 1U);
  const Folder elsewhere;
  const Context other = make_context(elsewhere, 0);
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cache_import(other.get(), bundle.c_str(), &count, &error), QUERN_OK) << error.text;
  EXPECT_EQ(count, 1U);
  ASSERT_EQ(entries(other.get(), nullptr).size(), 1U);

  count = 77;
  expect_refused(QUERN_NOT_FOUND, {"/nowhere.qb"}, [&](quern_error* failure) {
    return quern_cache_import(other.get(), elsewhere.path("nowhere.qb").c_str(), &count, failure);
  });
  std::ofstream(elsewhere.path("bad.qb")) << "this is no bundle";
  expect_refused(QUERN_DAMAGED, {"bad.qb"}, [&](quern_error* failure) {
    return quern_cache_import(other.get(), elsewhere.path("bad.qb").c_str(), &count, failure);
  });
  expect_refused(QUERN_IO, {"/no/such/folder/x.qb"}, [&](quern_error* failure) {
    return quern_cache_export(context.get(), "/no/such/folder/x.qb", nullptr, &count, failure);
  });
  expect_refused(QUERN_INVALID, {"path is NULL"}, [&](quern_error* failure) {
    return quern_cache_export(context.get(), nullptr, nullptr, &count, failure);
  });
  for (const char* path : {"", "bundle.qb", "./bundle.qb"}) {
    expect_refused(QUERN_INVALID, {"path is \"", path, "absolute"},
                   [&](quern_error* failure) { return quern_cache_import(other.get(), path, &count, failure); });
    expect_refused(QUERN_INVALID, {"path is \"", path, "absolute"}, [&](quern_error* failure) {
      return quern_cache_export(other.get(), path, nullptr, &count, failure);
    });
    expect_refused(QUERN_INVALID, {"path is \"", path, "absolute"}, [&](quern_error* failure) {
      return quern_bundle_sign(path, std::string(64, 'a').c_str(), failure);
    });
  }
  EXPECT_EQ(count, 77U) << "an output was touched on an error";
}

TEST_F(Cache, TrimsAndVerifies) {
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cache_verify(context.get(), &list, &error), QUERN_OK) << error.text;
  lists.emplace_back(list);
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto finding = sized<quern_finding>();
    ASSERT_EQ(quern_list_finding(list, i, &finding), QUERN_OK);
    EXPECT_EQ(finding.status, QUERN_OK) << finding.what << ": " << finding.text;
  }

  auto options = sized<quern_trim_options>();
  auto result = sized<quern_trim_result>();
  options.flags = QUERN_TRIM_ALL;
  ASSERT_EQ(quern_cache_trim(context.get(), &options, &result, &error), QUERN_OK) << error.text;
  EXPECT_EQ(result.size, sizeof(result));
  EXPECT_EQ(result.removed, 2U);
  EXPECT_EQ(result.kept, 0U);
  EXPECT_GT(result.bytes_before, 0U);
  EXPECT_EQ(entries(context.get(), nullptr).size(), 0U);
  EXPECT_EQ(quern_cache_trim(context.get(), nullptr, nullptr, nullptr), QUERN_OK) << "both are optional";

  options.flags = 1U << 9;
  expect_refused(QUERN_INVALID, {"quern_trim_options.flags", "0x200"},
                 [&](quern_error* failure) { return quern_cache_trim(context.get(), &options, &result, failure); });
}

TEST_F(Cache, DamageIsFoundAndNamed) {
  const std::vector<quern_entry> all = entries(context.get(), nullptr);
  const std::string bundle = folder.path("all.qb");
  ASSERT_EQ(quern_cache_export(context.get(), bundle.c_str(), nullptr, nullptr, nullptr), QUERN_OK);
  std::fstream file(bundle, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-16, std::ios::end);  // within the last image
  file << "0123456789abcdef";
  file.close();
  const char* const bundles[] = {bundle.c_str()};
  const Context damaged = make_context(folder, 0, [&](quern_context_options& options) {
    options.bundles = bundles;
    options.bundle_count = 1;
  });
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_cache_verify(damaged.get(), &list, &error), QUERN_DAMAGED);
  lists.emplace_back(list);
  EXPECT_NE(std::string_view(error.text).find("does not verify"), std::string_view::npos) << error.text;
  std::size_t bad = 0;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto finding = sized<quern_finding>();
    ASSERT_EQ(quern_list_finding(list, i, &finding), QUERN_OK);
    if (finding.status != QUERN_OK) ++bad;
  }
  EXPECT_GE(bad, 1U);
}

TEST_F(Cache, TheDoctorSeesWhatIsHere) {
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_doctor(context.get(), &list, &error), QUERN_OK) << error.text;
  lists.emplace_back(list);
  std::string seen;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto finding = sized<quern_finding>();
    ASSERT_EQ(quern_list_finding(list, i, &finding), QUERN_OK);
    seen += std::string(finding.what) + ";";
    EXPECT_NE(finding.text[0], '\0') << finding.what;
    if (finding.status != QUERN_OK) {
      EXPECT_NE(finding.hint[0], '\0') << finding.what << " is wrong and nothing says what to do";
    }
    if (std::string_view(finding.what) == "cache") {
      EXPECT_EQ(finding.status, QUERN_OK) << finding.text;
      EXPECT_NE(std::string_view(finding.text).find(folder.path("cache")), std::string_view::npos) << finding.text;
    }
  }
  for (const char* what : {"cuda driver;", "hip driver;", "nvrtc;", "hiprtc;", "cxx;", "cache;"}) {
    EXPECT_NE(seen.find(what), std::string::npos) << what << " is not among " << seen;
  }
}

TEST_F(Cache, AListOfOneKindIsNotReadAsAnother) {
  quern_list* list = nullptr;
  ASSERT_EQ(quern_cache_list(context.get(), nullptr, &list, nullptr), QUERN_OK);
  lists.emplace_back(list);
  auto finding = sized<quern_finding>();
  finding.what = "before";
  EXPECT_EQ(quern_list_finding(list, 0, &finding), QUERN_INVALID);
  EXPECT_STREQ(finding.what, "before");
  auto result = sized<quern_warm_result>();
  EXPECT_EQ(quern_list_warm_result(list, 0, &result), QUERN_INVALID);
  auto entry = sized<quern_entry>();
  EXPECT_EQ(quern_list_entry(list, 2, &entry), QUERN_INVALID) << "past the end";
  EXPECT_EQ(quern_list_entry(nullptr, 0, &entry), QUERN_INVALID);
  EXPECT_EQ(quern_list_entry(list, 0, nullptr), QUERN_INVALID);
  entry.size = 2;
  EXPECT_EQ(quern_list_entry(list, 0, &entry), QUERN_INVALID);
  EXPECT_EQ(quern_list_count(nullptr), 0U);
  quern_list_free(nullptr);
}

}  // namespace
}  // namespace quern::test
