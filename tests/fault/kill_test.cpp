// kill -9 at every change that a process makes to a file: before it, in the midst of it, after it. What was done before
// is there, of what was under way all or what its transactions had reached, and the next process goes on.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>

#include "tests/cache/fault_vfs.h"
#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"
#include "tests/fault/launch/launcher.h"

namespace quern::cache::testing {
namespace {

// What the child has done, for its parent to read after its end.
class Progress {
 public:
  Progress()
      : done_(static_cast<std::atomic<int>*>(
            mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Progress() { munmap(done_, sizeof(std::atomic<int>)); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  std::atomic<int>& done() { return *done_; }

 private:
  std::atomic<int>* done_;
};

struct Case {
  const char* name;
  FaultKind kind;
};

class KillTest : public CacheTest, public ::testing::WithParamInterface<Case> {
 protected:
  using Numbers = std::set<std::uint64_t>;
  using Step = std::function<bool(Store&)>;

  static constexpr std::uint64_t kMost = 20;
  static std::size_t size_of(std::uint64_t number) { return number == 12 ? 150'000 : 20'000 + 4'000 * (number % 4); }
  static Step putting(std::uint64_t number) {
    return [number](Store& store) { return put(store, number, size_of(number)); };
  }

  StoreOptions small() {
    StoreOptions options = this->options();
    options.limit_bytes = 896 << 10;
    options.notice = nullptr;
    return options;
  }
  // A file without room to spare, whose entries were used on another day.
  std::string full_file() {
    {
      Store store(small());
      for (std::uint64_t number = 1; number <= 8; ++number) EXPECT_TRUE(put(store, number, size_of(number)));
    }
    sql(file(), R"(UPDATE uses SET day = 0)");
    return read_file(file());
  }
  // Which entries there are, each of them right.
  void read_all(Store& store, Numbers* found) {
    for (std::uint64_t number = 1; number <= kMost; ++number) {
      Entry got;
      if (!store.get(make_key(number), make_entry(number).text, "", &got)) continue;
      ASSERT_TRUE(same(got, make_entry(number, size_of(number)))) << number;
      found->insert(number);
    }
  }

  // Has a child make the steps, each time in the place that `restore` makes, and die at its k-th change, for every k
  // until it comes to its end. `keeps`: no file is set aside as damaged.
  void run(const std::function<void()>& restore, const std::vector<Step>& steps, bool keeps) {
    fail_call(FaultKind::read, 0, false);
    restore();
    std::vector<Numbers> after(1);
    {
      Store store(small());
      read_all(store, &after[0]);
      ASSERT_EQ(after[0].empty(), !std::filesystem::exists(file()));
    }
    restore();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      Store store(small());
      ASSERT_TRUE(steps[i](store)) << i << ": " << store.stats().reason;
      read_all(store, &after.emplace_back());
    }
    Progress progress;
    int kills = 0;
    for (;; ++kills) {
      restore();
      progress.done() = 0;
      const int status = in_child([&] {
        fail_call(GetParam().kind, kills + 1, false);
        Store store(small());
        for (const Step& step : steps) {
          if (!step(store)) return 1;
          ++progress.done();
        }
        return 0;
      });
      if (status == 0) break;
      const auto done = static_cast<std::size_t>(progress.done());
      const std::string where = "change " + std::to_string(kills + 1) + ", step " + std::to_string(done);
      ASSERT_EQ(status, 1000 + SIGKILL) << where;
      Store store(small());
      Numbers found;
      read_all(store, &found);
      if (HasFatalFailure()) FAIL() << where;
      for (std::uint64_t number = 1; number <= kMost; ++number) {
        // What the step under way brings or takes may be there or not; all else is as it was.
        const bool before = after[done].contains(number);
        if (before != after[std::min(done + 1, steps.size())].contains(number)) continue;
        ASSERT_EQ(found.contains(number), before) << where << ": entry " << number;
      }
      ASSERT_FALSE(keeps && std::filesystem::exists(folder_ + "/cache-1.damaged.db")) << where;
      ASSERT_TRUE(put(store, 99)) << where << ": " << store.stats().reason;
      ASSERT_TRUE(hit(store, 99)) << where;
      AdminError error;
      store.verify(&error);
      ASSERT_EQ(error.what, AdminError::What::none) << where << ": " << error.text;
    }
    std::printf("%d kills\n", kills);
    EXPECT_GT(kills, 20);
  }
};

TEST_P(KillTest, WhileTheFileIsMade) {
  run([&] { std::filesystem::remove_all(folder_); }, {putting(1), putting(2)}, true);
}

TEST_P(KillTest, WhilePuttingAndEvicting) {
  const std::string full = full_file();
  const auto touch = [](Store& store) {
    const Key key = make_key(4);
    store.touch({&key, 1});
    return true;
  };
  const auto reject = [](Store& store) {
    store.reject(make_key(5), "test");
    return true;
  };
  run([&] { make_folder({{"cache-1.db", full}}); }, {putting(11), touch, putting(12), reject, putting(13)}, true);
}

TEST_P(KillTest, WhileTrimmingAndRebuilding) {
  const std::string full = full_file();
  const auto trim = [](Store& store) {
    TrimOptions smaller;
    smaller.limit_bytes = 400 << 10;
    return store.trim(smaller, nullptr).what == AdminError::What::none;
  };
  const auto rebuild = [](Store& store) {
    TrimOptions options;
    options.rebuild = true;
    return store.trim(options, nullptr).what == AdminError::What::none;
  };
  run([&] { make_folder({{"cache-1.db", full}}); }, {trim, rebuild, putting(11)}, true);
}

// What a process that died has left is played back by the next, which dies of it, too.
TEST_P(KillTest, WhileRollingBack) {
  full_file();
  leave_hot_journal(file());
  const std::string half = read_file(file()), journal = read_file(file() + "-journal");
  ASSERT_GT(journal.size(), 50'000u);
  const auto restore = [&] { make_folder({{"cache-1.db", half}, {"cache-1.db-journal", journal}}); };
  run(restore, {[](Store& store) { return hit(store, 8, size_of(8)); }, putting(11)}, true);
}

// A file with a damaged header is replaced by the first who comes.
TEST_P(KillTest, WhileMending) {
  std::string damaged = full_file();
  damaged[3] ^= 1;
  run([&] { make_folder({{"cache-1.db", damaged}}); },
      {[](Store& store) { return hit(store, 8, size_of(8)); }, putting(11)}, false);
}

// Who launches a kernel is killed at every tenth change: who comes next launches it, too, and compiles it only where
// the first had not come to the end.
TEST_P(KillTest, WhileAKernelIsLaunched) {
  const std::string full = full_file();
  Launcher launcher;
  Progress progress;
  int kills = 0, compiled = 0, status = -1;
  for (int k = 1; status != 0; k += 10) {
    make_folder({{"cache-1.db", full}});
    progress.done() = 0;
    status = in_child([&] {
      fail_call(GetParam().kind, k, false);
      for (const std::uint64_t number : {11, 12, 13}) {
        Store store(small());
        if (!put(store, number, size_of(number))) return 1;
        if (number == 12) {
          launcher.launch(small());
          ++progress.done();
        }
      }
      return HasFailure() ? 1 : 0;
    });
    ASSERT_TRUE(status == 0 || status == 1000 + SIGKILL) << "change " << k << ": " << status;
    const int cost = launcher.launch(small());
    ASSERT_LE(cost, progress.done() != 0 ? 0 : 1) << "change " << k;
    ASSERT_EQ(launcher.launch(small()), 0) << "change " << k;
    ASSERT_FALSE(HasFailure()) << "change " << k;
    kills += status != 0, compiled += cost;
  }
  std::printf("%d kills, two launches after each, %d compilations\n", kills, compiled);
  EXPECT_GT(compiled, 0);
  EXPECT_GT(kills, compiled);
}

INSTANTIATE_TEST_SUITE_P(Kills, KillTest,
                         ::testing::Values(Case{"Before", FaultKind::kill_before}, Case{"Amid", FaultKind::kill_amid},
                                           Case{"After", FaultKind::kill_after}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace quern::cache::testing
