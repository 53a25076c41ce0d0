// A private folder for each test, entries made from numbers, and work done in a child process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cache/store.h"

namespace quern::cache::testing {

inline Key make_key(std::uint64_t number) {
  return {number * 0x9e3779b97f4a7c15ULL, (number + 1) * 0xc2b2ae3d27d4eb4fULL};
}

// Bytes that do not compress into each other, and hold every value including NUL.
inline std::string make_bytes(std::uint64_t seed, std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (char& byte : bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

inline Entry make_entry(std::uint64_t number, std::size_t image_size = 5000) {
  Entry entry;
  entry.text = "quern 1\nop attention\ntarget sm_90a\nconst N " + std::to_string(number) + "\n";
  entry.op = "attention";
  entry.target = "sm_90a";
  entry.entry_name = "quern_attention";
  entry.image = make_bytes(number, image_size);
  entry.compiler_kind = "nvrtc";
  entry.compiler_build = "13.0";
  entry.log = "a warning about " + std::to_string(number);
  entry.compile_ms = 12.5 + static_cast<double>(number);
  entry.registers = 64;
  entry.shared_bytes = 1024;
  entry.local_bytes = 0;
  entry.created = 1'700'000'000;
  return entry;
}

inline bool same(const Entry& a, const Entry& b) {
  return a.kind == b.kind && a.text == b.text && a.op == b.op && a.target == b.target && a.entry_name == b.entry_name &&
         a.image == b.image && a.compiler_kind == b.compiler_kind && a.compiler_build == b.compiler_build &&
         a.log == b.log && a.compile_ms == b.compile_ms && a.registers == b.registers &&
         a.shared_bytes == b.shared_bytes && a.local_bytes == b.local_bytes && a.created == b.created;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Starts `work` in a child; what it returns is the exit status. Nothing of the test runs on in the child.
inline pid_t start_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  int status = 99;
  try {
    status = work();
  } catch (...) {
    status = 98;
  }
  _exit(status);
}
// The exit status, or 1000 + the signal that ended it.
inline int wait_child(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
inline int in_child(const std::function<int()>& work) { return wait_child(start_child(work)); }

class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // In memory where there is such a place: most tests are about what is written, not about how long a disk takes to
    // sync.
    const std::string base =
        on_disk() || access("/dev/shm", W_OK) != 0 ? std::filesystem::temp_directory_path().string() : "/dev/shm";
    std::string pattern = base + "/quern-cache-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ + "/cache";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  virtual bool on_disk() const { return false; }
  StoreOptions options() {
    StoreOptions options;
    options.folder = folder_;
    options.notice = [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      notices_.emplace_back(text);
    };
    return options;
  }
  std::string file() const { return folder_ + "/cache-1.db"; }
  // The folder anew, as a store would have made it, with these files and no other.
  void make_folder(const std::map<std::string, std::string>& files) {
    using std::filesystem::perms;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    std::filesystem::permissions(folder_, perms::owner_all);
    for (const auto& [name, bytes] : files) {
      write_file(folder_ + "/" + name, bytes);
      std::filesystem::permissions(folder_ + "/" + name, perms::owner_read | perms::owner_write);
    }
  }
  std::vector<std::string> notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }
  bool told(const std::string& words) {
    for (const std::string& notice : notices())
      if (notice.find(words) != std::string::npos) return true;
    return false;
  }
  static bool hit(Store& store, std::uint64_t number, std::size_t image_size = 5000) {
    Entry got;
    const Entry wanted = make_entry(number, image_size);
    const bool found = store.get(make_key(number), wanted.text, "", &got);
    store.deliver();
    return found && same(got, wanted);
  }
  // A miss that leaves the entry alone.
  static bool miss(Store& store, std::uint64_t number) {
    Entry got;
    got.image = "untouched";
    const bool found = store.get(make_key(number), make_entry(number).text, "", &got);
    store.deliver();
    return !found && got.image == "untouched" && got.text.empty();
  }
  static bool put(Store& store, std::uint64_t number, std::size_t image_size = 5000) {
    const Put put = store.put(make_key(number), make_entry(number, image_size));
    store.deliver();
    return put == Put::stored;
  }

  // The same for as long as it takes, half a minute at most: on a loaded machine others who have the file may look as
  // if they stood still, and a call is then told to come again.
  static bool hit_at_last(Store& store, std::uint64_t number, std::size_t image_size = 5000) {
    const auto end = std::chrono::steady_clock::now() + kWritingPatience;
    while (!hit(store, number, image_size)) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return true;
  }
  static bool put_at_last(Store& store, std::uint64_t number, std::size_t image_size = 5000) {
    const Put put = store.put_patiently(make_key(number), make_entry(number, image_size));
    store.deliver();
    return put == Put::stored;
  }

  std::string root_, folder_;

 private:
  std::mutex mutex_;
  std::vector<std::string> notices_;
};

}  // namespace quern::cache::testing
