// One bit of the file changed, anywhere: never a wrong entry, and the next process has a cache that works.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"
#include "tests/fault/launch/launcher.h"
#include "tests/fault/torture.h"

namespace quern::cache::testing {
namespace {

class FlipTest : public CacheTest {
 protected:
  static constexpr std::uint64_t kEntries = 3;
  std::string make() {
    {
      Store store(options());
      for (std::uint64_t number = 1; number <= kEntries; ++number) EXPECT_TRUE(put(store, number, 600));
    }
    return read_file(file());
  }
  std::uint64_t hits = 0, twice = 0;

  void check(const std::string& good, std::size_t bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write_file(file(), bad);
    std::filesystem::remove(file() + "-journal");
    StoreOptions quiet = options();
    quiet.notice = nullptr;
    Store store(quiet);
    for (std::uint64_t number = 1; number <= kEntries; ++number) {
      Entry got;
      if (!store.get(make_key(number), make_entry(number).text, "", &got)) continue;
      ASSERT_TRUE(same(got, make_entry(number, 600))) << "bit " << bit;
      ++hits;
    }
    put_for_good(store, 9, 5000, bit);
  }
  // What is written into a page whose header is wrong is damaged in turn: that costs a second compilation, and no more.
  void put_for_good(Store& store, std::uint64_t number, std::size_t size, std::size_t bit) {
    ASSERT_TRUE(put(store, number, size)) << "bit " << bit << ": " << store.stats().reason;
    if (hit(store, number, size)) return;
    ++twice;
    ASSERT_TRUE(put(store, number, size)) << "bit " << bit << ": " << store.stats().reason;
    ASSERT_TRUE(hit(store, number, size)) << "bit " << bit;
  }
};

// One bit in some hundreds; all of them with QUERN_TORTURE=700, best by several processes (QUERN_SLICE=1/8 to 8/8), as
// `./dev torture --every-bit` does.
TEST_F(FlipTest, AnyBitOfASmallFile) {
  const std::string good = make();
  ASSERT_LT(good.size(), 200'000u);
  const std::uint64_t wanted = times(1'500), bits = 8 * good.size();
  Random random{seed(3)};
  std::uint64_t done = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    if (wanted < bits && random.below(bits) >= wanted) continue;
    if (!is_ours(bit)) continue;
    check(good, bit);
    ++done;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(hits, 2 * done) << "most bits matter to one entry at most";
  EXPECT_LE(twice, 1 + done / 1000);
  std::printf("%llu of %llu bits, %llu hits, %llu stored twice\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(bits), static_cast<unsigned long long>(hits),
              static_cast<unsigned long long>(twice));
}

// Of a hot journal every bit of its header and of its records' page numbers, and some of the rest: what it can no
// longer bring back may be lost, what is found is right, and the next one has a cache that works.
TEST_F(FlipTest, AnyBitOfAHotJournal) {
  make();
  leave_hot_journal(file());
  const std::string half = read_file(file()), journal = read_file(file() + "-journal");
  ASSERT_GT(journal.size(), 20'000u);
  StoreOptions quiet = options();
  quiet.notice = nullptr;
  constexpr std::size_t kHeader = 28, kFirstRecord = 512, kPageNumber = 4, kRecord = kPageNumber + 16384 + 4;
  const std::uint64_t wanted = times(300), bits = 8 * journal.size();
  Random random{seed(5)};
  std::uint64_t done = 0, rebuilt = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const std::size_t byte = bit / 8;
    const bool always = byte < kHeader || (byte >= kFirstRecord && (byte - kFirstRecord) % kRecord < kPageNumber);
    if (!always && wanted < bits && random.below(bits) >= wanted) continue;
    if (!is_ours(bit)) continue;
    ++done;
    std::string bad = journal;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    make_folder({{"cache-1.db", half}, {"cache-1.db-journal", bad}});
    Store store(quiet);
    for (std::uint64_t number = 1; number <= kEntries; ++number) {
      Entry got;
      if (store.get(make_key(number), make_entry(number).text, "", &got)) {
        ASSERT_TRUE(same(got, make_entry(number, 600))) << "bit " << bit;
        ++hits;
      } else {
        ASSERT_NO_FATAL_FAILURE(put_for_good(store, number, 600, bit));
      }
    }
    ASSERT_NO_FATAL_FAILURE(put_for_good(store, 9, 5000, bit));
    // What the journal no longer brings back may leave trees that nothing read so far goes through: verify tells, and a
    // rebuilt file is sound.
    AdminError error;
    store.verify(&error);
    if (error.what == AdminError::What::none) continue;
    ASSERT_EQ(error.what, AdminError::What::damaged) << "bit " << bit << ": " << error.text;
    ++rebuilt;
    TrimOptions rebuild;
    rebuild.rebuild = true;
    ASSERT_EQ(store.trim(rebuild, nullptr).what, AdminError::What::none) << "bit " << bit;
    store.verify(&error);
    ASSERT_EQ(error.what, AdminError::What::none) << "bit " << bit << ": " << error.text;
    if (hit(store, 9)) continue;
    // It was in a tree that was not whole.
    ++twice;
    ASSERT_NO_FATAL_FAILURE(put_for_good(store, 9, 5000, bit));
  }
  EXPECT_GT(hits, 0u);
  EXPECT_LT(rebuilt, done / 2);
  EXPECT_LE(twice, 1 + done / 1000);
  std::printf("%llu of %llu bits of a journal, %llu hits, rebuilt %llu times\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(bits), static_cast<unsigned long long>(hits),
              static_cast<unsigned long long>(rebuilt));
}

// Every thousandth bit from a random one on, every fiftieth with QUERN_TORTURE=20: whoever wants a kernel has it.
TEST_F(FlipTest, AKernelIsLaunchedBehindAnyBit) {
  StoreOptions quiet = options();
  quiet.notice = nullptr;
  Launcher launcher;
  make();
  ASSERT_EQ(launcher.launch(quiet), 1);
  const std::string good = read_file(file());
  const std::uint64_t stride = 1'000 / std::min<std::uint64_t>(times(1), 1'000);
  Random random{seed(4)};
  std::uint64_t done = 0, compiled = 0;
  for (std::size_t bit = random.below(stride); bit < 8 * good.size(); bit += stride) {
    if (!is_ours(bit / stride)) continue;
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write_file(file(), bad);
    const int cost = launcher.launch(quiet), again = launcher.launch(quiet);
    // As in check(): what was written into a damaged page may be lost with it.
    ASSERT_TRUE(again == 0 || launcher.launch(quiet) == 0) << "bit " << bit;
    ASSERT_FALSE(HasFailure()) << "bit " << bit;
    ++done, compiled += static_cast<std::uint64_t>(cost), twice += static_cast<std::uint64_t>(again);
  }
  EXPECT_GT(compiled, 0u) << "some bits are the kernel's";
  EXPECT_LT(compiled, done / 2) << "and many are not";
  EXPECT_LE(twice, 1 + done / 1000);
  std::printf("%llu of %llu bits with launches behind them, %llu compilations\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(8 * good.size()), static_cast<unsigned long long>(compiled));
}

// Of a bundle every bit, always.
TEST_F(FlipTest, AnyBitOfABundle) {
  const std::string path = root_ + "/flipped.bundle";
  {
    Store store(options());
    for (std::uint64_t number = 1; number <= 2; ++number) ASSERT_TRUE(put(store, number, 100));
    ASSERT_EQ(store.export_bundle(path, nullptr, nullptr).what, AdminError::What::none);
  }
  const std::string good = read_file(path);
  StoreOptions layered = options();
  layered.no_file = true;
  layered.notice = nullptr;
  layered.bundles = {path};
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write_file(path, bad);
    Store store(layered);
    for (std::uint64_t number = 1; number <= 2; ++number) {
      Entry wanted = make_entry(number, 100), got;
      wanted.created = 0, wanted.compile_ms = 0, wanted.log.clear();
      if (store.get(make_key(number), wanted.text, "", &got)) {
        ASSERT_TRUE(same(got, wanted)) << "bit " << bit;
        ++hits;
      }
    }
  }
  EXPECT_GT(hits, good.size()) << "a record is no matter to the other";
  std::printf("%llu bits, %llu hits\n", static_cast<unsigned long long>(8 * good.size()),
              static_cast<unsigned long long>(hits));
}

}  // namespace
}  // namespace quern::cache::testing
