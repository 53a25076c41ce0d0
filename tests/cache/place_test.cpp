// Where the file may lie, and whose it must be.
// SPDX-License-Identifier: Apache-2.0
#include "cache/place.h"

#include <linux/magic.h>
#include <sys/stat.h>

#include "cache/connection.h"
#include "cache/entries.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

class PlaceTest : public CacheTest {
 protected:
  // Sets (or, with null, unsets) a variable for one test.
  class Variable {
   public:
    Variable(const char* name, const char* value) : name_(name) {
      if (const char* old = std::getenv(name)) {
        was_set_ = true;
        old_ = old;
      }
      value != nullptr ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Variable() { was_set_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

   private:
    const char* name_;
    bool was_set_ = false;
    std::string old_;
  };

  void expect_refused(StoreOptions given, const std::string& why) {
    Store store(given);
    EXPECT_TRUE(miss(store, 1));
    EXPECT_FALSE(put(store, 1));
    const StoreStats stats = store.stats();
    EXPECT_EQ(stats.state, State::refused);
    EXPECT_NE(stats.reason.find(why), std::string::npos) << stats.reason;
    EXPECT_TRUE(told(why));
    // A file that is refused leaves its folder good enough to wait for each other in.
    const bool in_folder = why.find("/cache-1.db") == std::string::npos && !std::filesystem::exists(file());
    if (in_folder) {
      EXPECT_EQ(store.flight(make_key(1), std::chrono::milliseconds{0}).state(), Flight::State::alone);
    }
  }
};

FolderFacts sound() {
  FolderFacts facts;
  facts.exists = facts.directory = facts.access = true;
  facts.owner = 1000;
  facts.mode = 0700;
  facts.file_system = EXT4_SUPER_MAGIC;
  return facts;
}

TEST_F(PlaceTest, EveryRuleByItself) {
  const auto judge = [](const FolderFacts& facts, bool shared = false) {
    return judge_folder("/c", facts, 1000, shared).standing;
  };
  EXPECT_EQ(judge(sound()), Standing::writable);
  FolderFacts facts = sound();
  facts.exists = false;
  EXPECT_EQ(judge(facts), Standing::absent);
  facts = sound();
  facts.symbolic_link = true;
  EXPECT_EQ(judge(facts), Standing::refused);
  EXPECT_EQ(judge(facts, true), Standing::writable);
  facts = sound();
  facts.directory = false;
  EXPECT_EQ(judge(facts, true), Standing::refused);
  facts = sound();
  facts.owner = 0;
  EXPECT_EQ(judge(facts), Standing::refused);
  EXPECT_EQ(judge(facts, true), Standing::writable);
  for (const mode_t mode : {0720u, 0702u, 0777u, 01777u}) {
    facts = sound();
    facts.mode = mode;
    EXPECT_EQ(judge(facts), Standing::refused) << mode;
    EXPECT_EQ(judge(facts, true), Standing::writable) << mode;
  }
  facts = sound();
  facts.mode = 0755;
  EXPECT_EQ(judge(facts), Standing::writable) << "reading does no harm";
  facts = sound();
  facts.access = false;
  EXPECT_EQ(judge(facts), Standing::readable);
}

TEST_F(PlaceTest, OnlyLocalFileSystemsAreWritten) {
  for (const std::int64_t local :
       {std::int64_t{EXT4_SUPER_MAGIC}, std::int64_t{XFS_SUPER_MAGIC}, std::int64_t{BTRFS_SUPER_MAGIC},
        std::int64_t{TMPFS_MAGIC}, std::int64_t{OVERLAYFS_SUPER_MAGIC}})
    EXPECT_TRUE(local_file_system(local));
  for (const std::int64_t other :
       {std::int64_t{NFS_SUPER_MAGIC}, std::int64_t{FUSE_SUPER_MAGIC}, std::int64_t{V9FS_MAGIC},
        std::int64_t{SMB2_SUPER_MAGIC}, std::int64_t{CEPH_SUPER_MAGIC}, std::int64_t{0}}) {
    FolderFacts facts = sound();
    facts.file_system = other;
    const Judgement judgement = judge_folder("/c", facts, 1000, false);
    EXPECT_EQ(judgement.standing, Standing::readable);
    EXPECT_NE(judgement.reason.find("read, not written"), std::string::npos);
  }
}

TEST_F(PlaceTest, WhereLocksCannotBeReliedOnNoneIsAskedFor) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  Connection writer(file(), Connection::Mode::write);
  writer.execute(R"(BEGIN EXCLUSIVE)");
  Connection reader(file(), Connection::Mode::read_unlocked);
  Entry got;
  EXPECT_EQ(find_entry(reader, make_key(1), make_entry(1).text, "", &got), Found::yes);
  Connection locking(file(), Connection::Mode::read);
  EXPECT_THROW(count_rows(locking), SqlError);
}

TEST_F(PlaceTest, TheDefaultIsXdgThenHome) {
  StoreOptions defaults;
  {
    const Variable xdg("XDG_CACHE_HOME", (root_ + "/xdg").c_str()), home("HOME", (root_ + "/home").c_str());
    EXPECT_EQ(Store(defaults).stats().path, root_ + "/xdg/quern/cache-1.db");
    Store store(defaults);
    EXPECT_TRUE(put(store, 1));
    EXPECT_TRUE(std::filesystem::exists(root_ + "/xdg/quern/cache-1.db"));
  }
  {
    const Variable xdg("XDG_CACHE_HOME", nullptr), home("HOME", (root_ + "/home").c_str());
    EXPECT_EQ(Store(defaults).stats().path, root_ + "/home/.cache/quern/cache-1.db");
  }
  {
    const Variable xdg("XDG_CACHE_HOME", "relative"), home("HOME", (root_ + "/home").c_str());
    EXPECT_EQ(Store(defaults).stats().path, root_ + "/home/.cache/quern/cache-1.db");
  }
  for (const char* useless : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Variable xdg("XDG_CACHE_HOME", useless), home("HOME", useless);
    Store store(defaults);
    EXPECT_TRUE(miss(store, 1));
    EXPECT_FALSE(put(store, 1));
    EXPECT_EQ(store.stats().state, State::off);
    EXPECT_NE(store.stats().reason.find("HOME"), std::string::npos);
    EXPECT_EQ(store.stats().path, "");
  }
}

TEST_F(PlaceTest, ASymbolicLinkIsRefusedUnlessShared) {
  std::filesystem::create_directory(root_ + "/real");
  std::filesystem::permissions(root_ + "/real", std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink(root_ + "/real", folder_);
  expect_refused(options(), "symbolic link");
  StoreOptions slash = options();
  slash.folder += "//";
  expect_refused(slash, "symbolic link");
  StoreOptions shared = options();
  shared.shared_folder = true;
  Store store(shared);
  EXPECT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(PlaceTest, LinksAboveTheFolderAreTheMachinesBusiness) {
  std::filesystem::create_directory(root_ + "/disk");
  std::filesystem::create_directory_symlink(root_ + "/disk", root_ + "/home");
  StoreOptions below = options();
  below.folder = root_ + "/home/me/cache";
  Store store(below);
  EXPECT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(PlaceTest, AFileThatIsALinkIsRefused) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  std::filesystem::rename(file(), root_ + "/elsewhere");
  std::filesystem::create_symlink(root_ + "/elsewhere", file());
  expect_refused(options(), "not a regular file");
}

TEST_F(PlaceTest, WritableByOthersIsRefusedUnlessShared) {
  std::filesystem::create_directory(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0770), 0);
  expect_refused(options(), "can be written by others");
  StoreOptions shared = options();
  shared.shared_folder = true;
  {
    const mode_t old = umask(0);
    Store store(shared);
    EXPECT_TRUE(put(store, 1));
    EXPECT_TRUE(hit(store, 1));
    umask(old);
    struct stat status;
    ASSERT_EQ(stat(file().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0660u) << "those whom the folder lets write can write the file";
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  expect_refused(options(), "cache-1.db can be written by others");
}

TEST_F(PlaceTest, AForeignOwnerIsRefusedUnlessShared) {
  if (geteuid() != 0) {
    // Who cannot give a folder away tries one that belongs to root.
    StoreOptions foreign = options();
    foreign.folder = "/usr";
    expect_refused(foreign, "belongs to user 0");
    return;
  }
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  ASSERT_EQ(chown(file().c_str(), 65534, 65534), 0);
  expect_refused(options(), "cache-1.db belongs to user 65534");
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  expect_refused(options(), "cache belongs to user 65534");
  StoreOptions shared = options();
  shared.shared_folder = true;
  Store store(shared);
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(PlaceTest, AReadOnlyFolderIsRead) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  // Root may write anywhere, so the work is done as somebody else, for whom all is shared and readable.
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  for (const bool with_lock_file : {true, false}) {
    if (!with_lock_file) std::filesystem::remove(folder_ + "/cache-1.lock");
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      ASSERT_EQ(chmod(entry.path().c_str(), 0444), 0);
    ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
    const std::string before = read_file(file());
    EXPECT_EQ(in_child([&] {
                if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
                  return 1;
                StoreOptions shared;
                shared.folder = folder_;
                shared.shared_folder = true;
                Store store(shared);
                if (!hit(store, 1)) return 2;
                if (put(store, 2)) return 3;
                if (store.stats().state != State::read_only) return 4;
                const Key key = make_key(1);
                store.touch({&key, 1});
                if (store.flight(key, std::chrono::milliseconds{0}).state() != Flight::State::alone) return 5;
                store.reject(key, "test");
                if (!miss(store, 1)) return 6;
                if (store.trim({}, nullptr).what != AdminError::What::refused) return 7;
                return 0;
              }),
              0);
    EXPECT_EQ(read_file(file()), before);
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  }
}

TEST_F(PlaceTest, OpenedToBeReadOnly) {
  StoreOptions reading = options();
  reading.read_only = true;
  Store reader(reading);
  EXPECT_TRUE(miss(reader, 1));
  EXPECT_FALSE(put(reader, 1));
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_EQ(reader.stats().state, State::off);
  Store writer(options());
  ASSERT_TRUE(put(writer, 1));
  EXPECT_TRUE(hit(reader, 1));
  EXPECT_FALSE(put(reader, 2));
  EXPECT_EQ(reader.stats().state, State::read_only);
  EXPECT_EQ(reader.stats().reason, "opened to be read only");
}

TEST_F(PlaceTest, AFolderThatCannotBeMadeIsOff) {
  StoreOptions nowhere = options();
  nowhere.folder = "/proc/quern/cache";
  Store store(nowhere);
  EXPECT_TRUE(miss(store, 1));
  EXPECT_FALSE(put(store, 1));
  EXPECT_EQ(store.stats().state, State::off);
  EXPECT_NE(store.stats().reason.find("/proc/quern/cache"), std::string::npos);
  write_file(root_ + "/a-file", "");
  StoreOptions below_file = options();
  below_file.folder = root_ + "/a-file/cache";
  Store other(below_file);
  EXPECT_FALSE(put(other, 1));
  EXPECT_EQ(other.stats().state, State::off);
}

TEST_F(PlaceTest, ARelativeFolderDoesNotMoveWithTheProcess) {
  EXPECT_EQ(in_child([&] {
              if (chdir(root_.c_str()) != 0) return 1;
              StoreOptions relative;
              relative.folder = "cache";
              Store store(relative);
              if (chdir("/") != 0) return 1;
              return put(store, 1) && hit(store, 1) ? 0 : 2;
            }),
            0);
  EXPECT_TRUE(std::filesystem::exists(file()));
}

TEST_F(PlaceTest, NoFileMeansNoFile) {
  StoreOptions none = options();
  none.no_file = true;
  Store store(none);
  EXPECT_TRUE(miss(store, 1));
  EXPECT_FALSE(put(store, 1));
  EXPECT_EQ(store.stats().state, State::off);
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_TRUE(notices().empty());
}

}  // namespace
}  // namespace quern::cache::testing
