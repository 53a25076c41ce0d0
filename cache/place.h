// Where the cache lives, and whether that place may be read and written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "cache/store.h"

namespace quern::cache {

enum class Standing : std::uint8_t {
  writable,
  readable,  // to be read, never written
  absent,    // not there yet
  off,       // there is no place at all
  refused    // not ours alone, or not a folder
};

// What is known of a folder. Apart from the judging, so that every rule can be held by a test without such a folder at
// hand.
struct FolderFacts {
  bool exists = false;
  bool symbolic_link = false;
  bool directory = false;
  uid_t owner = 0;
  mode_t mode = 0;
  bool access = false;           // this process may make files in it
  std::int64_t file_system = 0;  // statfs(2) f_type
};
struct Judgement {
  Standing standing = Standing::off;
  std::string reason;  // empty for `writable`
};
Judgement judge_folder(const std::string& folder, const FolderFacts& facts, uid_t user, bool shared);

// SQLite's own locks, and ours, mean what they say on these: ext4, xfs, btrfs, tmpfs, overlayfs.
bool local_file_system(std::int64_t type);

struct Place {
  Judgement judgement;
  std::string folder;       // absolute and free of symbolic links, where it exists
  mode_t file_mode = 0600;  // for new files
  bool lockable = false;    // on a local file system
  std::string file(const char* name) const { return folder + "/" + name; }
};

// Makes nothing. `folder` as StoreOptions says; the environment is not read in a privileged process.
Place find_place(const StoreOptions& options);

// As find_place, but makes the folder (and those above it), 0700, where it is absent.
Place make_place(const StoreOptions& options);

// Whether a file of the cache may be used: regular, ours, not writable by others unless the folder is shared.
Judgement judge_file(const std::string& path, const struct stat& facts, uid_t user, bool shared);

}  // namespace quern::cache
