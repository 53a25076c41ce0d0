// Bundles: layers under the file, export, import.
// SPDX-License-Identifier: Apache-2.0
#include "cache/bundle.h"

#include <algorithm>

#include "cache/checksum.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

class BundleTest : public CacheTest {
 protected:
  std::string bundle(const std::string& name) const { return root_ + "/" + name; }
  // A bundle of the numbers given, made through a folder of its own.
  void make_bundle(const std::string& name, const std::vector<std::uint64_t>& numbers, std::size_t image_size = 5000) {
    StoreOptions in_own_folder = options();
    in_own_folder.folder = root_ + "/folder-of-" + name;
    Store store(in_own_folder);
    for (const std::uint64_t number : numbers) ASSERT_TRUE(put(store, number, image_size));
    std::uint64_t count = 0;
    const AdminError error = store.export_bundle(bundle(name), nullptr, &count);
    ASSERT_EQ(error.what, AdminError::What::none) << error.text;
    ASSERT_EQ(count, numbers.size());
  }
  static Entry without_times(std::uint64_t number, std::size_t image_size = 5000) {
    Entry entry = make_entry(number, image_size);
    entry.created = 0;
    entry.compile_ms = 0;
    entry.log.clear();
    return entry;
  }
  static bool hit_bundle(Store& store, std::uint64_t number, std::size_t image_size = 5000) {
    Entry got;
    const Entry wanted = without_times(number, image_size);
    return store.get(make_key(number), wanted.text, "nvrtc 13.0", &got) && same(got, wanted);
  }
};

TEST_F(BundleTest, TheSameToTheByteWhateverTheOrderAndTheFolder) {
  make_bundle("a", {1, 2, 3, 4, 5});
  make_bundle("b", {4, 1, 5, 3, 2});
  EXPECT_FALSE(read_file(bundle("a")).empty());
  EXPECT_EQ(read_file(bundle("a")), read_file(bundle("b")));
  make_bundle("c", {4, 1, 5, 3});
  EXPECT_NE(read_file(bundle("a")), read_file(bundle("c")));
}

TEST_F(BundleTest, TheTimesAndTheLogOfACompilationDoNotShow) {
  for (const char* name : {"a", "b"}) {
    StoreOptions own = options();
    own.folder = root_ + "/" + name;
    Store store(own);
    Entry entry = make_entry(1);
    if (name[0] == 'b') {
      entry.compile_ms = 99;
      entry.created = 5;
      entry.log = "/tmp/quern-123/kernel.cu: warning";
      ASSERT_TRUE(put(store, 1));
    }
    ASSERT_EQ(store.put(make_key(1), entry), Put::stored);
    ASSERT_EQ(store.export_bundle(bundle(std::string(name) + ".bundle"), nullptr, nullptr).what,
              AdminError::What::none);
  }
  EXPECT_EQ(read_file(bundle("a.bundle")), read_file(bundle("b.bundle")));
}

TEST_F(BundleTest, LiesUnderTheFileInOrder) {
  make_bundle("low", {1, 2}, 100);
  make_bundle("high", {2, 3}, 200);
  StoreOptions layered = options();
  layered.bundles = {bundle("high"), bundle("low")};
  Store store(layered);
  EXPECT_TRUE(hit_bundle(store, 1, 100));
  EXPECT_TRUE(hit_bundle(store, 2, 200));
  EXPECT_TRUE(hit_bundle(store, 3, 200));
  EXPECT_FALSE(std::filesystem::exists(folder_));
  ASSERT_TRUE(put(store, 2, 300));
  EXPECT_TRUE(hit(store, 2, 300)) << "the file comes first";
  const StoreStats stats = store.stats();
  EXPECT_EQ(stats.bundles, 2u);
  EXPECT_EQ(stats.bundle_entries, 4u);
  EXPECT_EQ(stats.entries, 1u);
  const std::vector<Listed> rows = store.list(nullptr);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const Listed& row) { return row.layer == 1; }), 2);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const Listed& row) { return row.layer == 2; }), 2);
  for (const Listed& row : rows) EXPECT_TRUE(row.entry.image.empty());
  Listed listed;
  ASSERT_EQ(store.inspect(make_key(3), &listed).what, AdminError::What::none);
  EXPECT_EQ(listed.layer, 1);
  EXPECT_EQ(listed.entry.image.size(), 200u);
}

TEST_F(BundleTest, ServesWithoutAnyFile) {
  make_bundle("a", {1});
  StoreOptions only = options();
  only.no_file = true;
  only.bundles = {bundle("a")};
  Store store(only);
  EXPECT_TRUE(hit_bundle(store, 1));
  EXPECT_EQ(store.stats().state, State::off);
  EXPECT_FALSE(put(store, 2));
  AdminError error;
  EXPECT_EQ(store.list(&error).size(), 1u);
  EXPECT_EQ(error.what, AdminError::What::none);
  EXPECT_EQ(store.export_bundle(bundle("again"), nullptr, nullptr).what, AdminError::What::none);
  EXPECT_EQ(read_file(bundle("a")), read_file(bundle("again")));
}

TEST_F(BundleTest, RejectingHidesEveryLayer) {
  make_bundle("a", {1});
  StoreOptions layered = options();
  layered.bundles = {bundle("a")};
  Store store(layered);
  ASSERT_TRUE(put(store, 1));
  store.reject(make_key(1), "wrong arch");
  EXPECT_TRUE(miss(store, 1));
  EXPECT_FALSE(hit_bundle(store, 1));
}

TEST_F(BundleTest, AnotherTextOrPinIsAMiss) {
  make_bundle("a", {1});
  StoreOptions layered = options();
  layered.bundles = {bundle("a")};
  Store store(layered);
  Entry got;
  EXPECT_FALSE(store.get(make_key(1), "something else", "", &got));
  EXPECT_FALSE(store.get(make_key(1), make_entry(1).text, "nvrtc 12.9", &got));
}

TEST_F(BundleTest, ExportsWhatIsSelected) {
  make_bundle("low", {1, 2});
  StoreOptions layered = options();
  layered.bundles = {bundle("low")};
  Store store(layered);
  ASSERT_TRUE(put(store, 2));
  ASSERT_TRUE(put(store, 3));
  std::vector<int> layers;
  std::uint64_t count = 0;
  const AdminError error = store.export_bundle(
      bundle("out"),
      [&](const Listed& row) {
        layers.push_back(row.layer);
        EXPECT_EQ(row.image_size, 5000u);
        return row.key != make_key(3);
      },
      &count);
  ASSERT_EQ(error.what, AdminError::What::none) << error.text;
  EXPECT_EQ(count, 2u);
  std::sort(layers.begin(), layers.end());
  EXPECT_EQ(layers, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(read_file(bundle("out")), read_file(bundle("low")));
}

TEST_F(BundleTest, AnEmptyStoreExportsAnEmptyBundle) {
  make_bundle("empty", {});
  StoreOptions layered = options();
  layered.bundles = {bundle("empty")};
  Store store(layered);
  EXPECT_EQ(store.stats().bundles, 1u);
  EXPECT_TRUE(miss(store, 1));
  std::uint64_t count = 9;
  EXPECT_EQ(store.import_bundle(bundle("empty"), &count).what, AdminError::What::none);
  EXPECT_EQ(count, 0u);
}

TEST_F(BundleTest, ImportsIntoTheFile) {
  make_bundle("a", {1, 2, 3});
  Store store(options());
  ASSERT_TRUE(put(store, 2));
  std::uint64_t count = 0;
  const AdminError error = store.import_bundle(bundle("a"), &count);
  ASSERT_EQ(error.what, AdminError::What::none) << error.text;
  EXPECT_EQ(count, 2u) << "one of the three was there";
  EXPECT_EQ(store.stats().entries, 3u);
  Entry got;
  ASSERT_TRUE(store.get(make_key(1), make_entry(1).text, "nvrtc 13.0", &got));
  EXPECT_EQ(got.image, make_entry(1).image);
  EXPECT_GT(got.created, 1'700'000'000);
  ASSERT_EQ(store.export_bundle(bundle("b"), nullptr, nullptr).what, AdminError::What::none);
  EXPECT_EQ(read_file(bundle("a")), read_file(bundle("b")));
}

TEST_F(BundleTest, ADamagedBundleChangesNothingAnywhere) {
  make_bundle("good", {1, 2, 3}, 600);
  const std::string good = read_file(bundle("good"));
  StoreOptions layered = options();
  layered.bundles = {bundle("bad")};
  {
    Store store(options());
    ASSERT_TRUE(put(store, 9));
  }
  const std::string file_before = read_file(file());
  // Every byte of the header and the index, and a sample of the records.
  for (std::size_t at = 0; at < good.size(); at += at < 64 + 3 * 64 ? 1 : 37) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    write_file(bundle("bad"), bad);
    Store store(layered);
    std::uint64_t count = 77;
    const AdminError error = store.import_bundle(bundle("bad"), &count);
    ASSERT_EQ(error.what, AdminError::What::damaged) << at;
    EXPECT_EQ(count, 77u);
    for (const std::uint64_t number : {1, 2, 3}) {
      Entry got;
      const Entry wanted = without_times(number, 600);
      ASSERT_TRUE(!store.get(make_key(number), wanted.text, "", &got) || same(got, wanted)) << at;
    }
    AdminError verified;
    store.verify(&verified);
    EXPECT_EQ(verified.what, AdminError::What::damaged) << at;
  }
  EXPECT_EQ(read_file(file()), file_before);
}

// A record whose own sum was made to fit, and whose SHA-256 in the index was not.
TEST_F(BundleTest, TheIndexsDigestsAreHeldTo) {
  make_bundle("good", {1, 2});
  std::string bad = read_file(bundle("good"));
  const std::size_t record = Bundle(bundle("good"), {}).slot(make_key(1))->offset;
  Entry entry = without_times(1);
  const std::size_t image = bad.find(entry.image);
  ASSERT_NE(image, std::string::npos);
  entry.image = make_bytes(99, entry.image.size());
  bad.replace(image, entry.image.size(), entry.image);
  bad.replace(record, 16, std::string(view(checksum_entry(make_key(1), entry))));
  write_file(bundle("bad"), bad);
  StoreOptions layered = options();
  layered.bundles = {bundle("bad")};
  Store store(layered);
  EXPECT_EQ(store.import_bundle(bundle("bad"), nullptr).what, AdminError::What::damaged);
  EXPECT_EQ(store.export_bundle(bundle("again"), nullptr, nullptr).what, AdminError::What::damaged);
  AdminError error;
  store.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::damaged);
}

TEST_F(BundleTest, CutShortIsDamaged) {
  make_bundle("good", {1, 2, 3}, 600);
  const std::string good = read_file(bundle("good"));
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{200}, good.size() - 1}) {
    write_file(bundle("bad"), good.substr(0, size));
    Store store(options());
    EXPECT_EQ(store.import_bundle(bundle("bad"), nullptr).what, AdminError::What::damaged) << size;
  }
  write_file(bundle("bad"), good + "x");
  Store store(options());
  EXPECT_EQ(store.import_bundle(bundle("bad"), nullptr).what, AdminError::What::damaged);
}

TEST_F(BundleTest, CutShortWhileOpenIsAMiss) {
  make_bundle("a", {1, 2});
  StoreOptions layered = options();
  layered.bundles = {bundle("a")};
  Store store(layered);
  ASSERT_TRUE(hit_bundle(store, 1));
  std::filesystem::resize_file(bundle("a"), 300);
  EXPECT_FALSE(hit_bundle(store, 1));
  store.deliver();
  EXPECT_TRUE(told("cut short"));
}

TEST_F(BundleTest, AMissingBundleIsLeftOutAndTold) {
  StoreOptions layered = options();
  layered.bundles = {bundle("nowhere")};
  Store store(layered);
  ASSERT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
  EXPECT_TRUE(miss(store, 2));
  EXPECT_TRUE(told(bundle("nowhere")));
  EXPECT_EQ(store.stats().bundles, 0u);
  EXPECT_EQ(store.import_bundle(bundle("nowhere"), nullptr).what, AdminError::What::not_found);
  EXPECT_EQ(store.import_bundle(root_, nullptr).what, AdminError::What::io);
  EXPECT_EQ(store.export_bundle(bundle("no/such/folder"), nullptr, nullptr).what, AdminError::What::damaged)
      << "an export that would leave a layer out is refused";
}

TEST_F(BundleTest, ABundleThatCannotBeWrittenLeavesNothing) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  EXPECT_EQ(store.export_bundle(bundle("no/such/folder"), nullptr, nullptr).what, AdminError::What::io);
  std::filesystem::create_directory(bundle("folder"));
  EXPECT_EQ(store.export_bundle(bundle("folder"), nullptr, nullptr).what, AdminError::What::io);
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root_))
    left += entry.path().string().find(".part-") != std::string::npos;
  EXPECT_EQ(left, 0u);
}

TEST_F(BundleTest, MoreThanTheLimitIsRefused) {
  make_bundle("a", {1, 2, 3}, 1 << 20);
  StoreOptions small = options();
  small.limit_bytes = 2 << 20;
  Store store(small);
  const AdminError error = store.import_bundle(bundle("a"), nullptr);
  EXPECT_EQ(error.what, AdminError::What::io);
  EXPECT_NE(error.text.find("limit"), std::string::npos);
  EXPECT_EQ(store.stats().entries, 0u);
}

}  // namespace
}  // namespace quern::cache::testing
