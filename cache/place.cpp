// The default folder, and the rules about owners, modes, links and file systems.
// SPDX-License-Identifier: Apache-2.0
#include "cache/place.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace quern::cache {
namespace {

std::string error_text(int error) { return std::strerror(error); }

std::string octal(mode_t mode) {
  std::string digits;
  for (int shift = 9; shift >= 0; shift -= 3) digits += static_cast<char>('0' + ((mode >> shift) & 7));
  return digits;
}

std::string hexadecimal(std::int64_t value) {
  std::string digits;
  for (auto rest = static_cast<std::uint64_t>(value) & 0xffffffff; rest != 0 || digits.empty(); rest >>= 4)
    digits.insert(digits.begin(), "0123456789abcdef"[rest & 15]);
  return "0x" + digits;
}

// An absolute path, or empty: the specification of XDG_CACHE_HOME says that a relative one is to be ignored.
std::string absolute_variable(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string wanted_folder(const StoreOptions& options) {
  std::string folder = options.folder;
  if (folder.empty()) {
    if (std::string xdg = absolute_variable("XDG_CACHE_HOME"); !xdg.empty())
      folder = xdg + "/quern";
    else if (std::string home = absolute_variable("HOME"); !home.empty())
      folder = home + "/.cache/quern";
  }
  // A trailing slash would make lstat look behind a symbolic link.
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

FolderFacts look_at(const std::string& folder) {
  FolderFacts facts;
  struct stat status;
  if (lstat(folder.c_str(), &status) != 0) return facts;
  facts.exists = true;
  facts.symbolic_link = S_ISLNK(status.st_mode);
  if (facts.symbolic_link && stat(folder.c_str(), &status) != 0) return facts;
  facts.directory = S_ISDIR(status.st_mode);
  facts.owner = status.st_uid;
  facts.mode = status.st_mode & 07777;
  facts.access = faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  struct statfs system;
  if (statfs(folder.c_str(), &system) == 0) facts.file_system = static_cast<std::int64_t>(system.f_type) & 0xffffffff;
  return facts;
}

// Whether the folder could be made: what is nearest above it is a folder that this process may write.
Judgement judge_absent(const std::string& folder) {
  std::string parent = folder;
  struct stat status;
  do {
    const std::size_t slash = parent.rfind('/');
    parent = slash == std::string::npos ? "." : slash == 0 ? "/" : parent.substr(0, slash);
  } while (stat(parent.c_str(), &status) != 0 && errno == ENOENT && parent != "/" && parent != ".");
  if (faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) == 0 && S_ISDIR(status.st_mode))
    return {Standing::absent, folder + " is not there yet"};
  return {Standing::off,
          folder + " is not there and cannot be made: " + parent + ": " + error_text(errno != 0 ? errno : ENOTDIR)};
}

// mkdir -p, every folder that is missing private to its maker, as the XDG specification wants it.
int make_folders(const std::string& folder) {
  for (std::size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
    const std::string part = folder.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat status;
      const int error = errno;
      if (stat(part.c_str(), &status) != 0) return error;
    }
    if (at == std::string::npos) return 0;
  }
}

}  // namespace

bool local_file_system(std::int64_t type) {
  static constexpr std::int64_t kLocal[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                            OVERLAYFS_SUPER_MAGIC};
  return std::find(std::begin(kLocal), std::end(kLocal), type) != std::end(kLocal);
}

Judgement judge_folder(const std::string& folder, const FolderFacts& facts, uid_t user, bool shared) {
  if (!facts.exists) return {Standing::absent, folder + " is not there yet"};
  if (facts.symbolic_link && !shared)
    return {Standing::refused, folder + " is a symbolic link; name the folder itself"};
  if (!facts.directory) return {Standing::refused, folder + " is not a folder"};
  if (facts.owner != user && !shared)
    return {Standing::refused, folder + " belongs to user " + std::to_string(facts.owner) + ", not to user " +
                                   std::to_string(user) + "; say that it is shared, or use a folder of your own"};
  if ((facts.mode & 022) != 0 && !shared)
    return {Standing::refused, folder + " can be written by others (mode " + octal(facts.mode) +
                                   "); say that it is shared, or chmod it to 0700"};
  if (!local_file_system(facts.file_system))
    return {Standing::readable,
            folder + " is on a file system of type " + hexadecimal(facts.file_system) +
                ", where locks cannot be relied on; it is read, not written (written are: ext4, xfs, "
                "btrfs, tmpfs, overlayfs)"};
  if (!facts.access) return {Standing::readable, folder + " cannot be written by this process"};
  return {Standing::writable, ""};
}

Judgement judge_file(const std::string& path, const struct stat& facts, uid_t user, bool shared) {
  if (!S_ISREG(facts.st_mode)) return {Standing::refused, path + " is not a regular file"};
  if (shared) return {Standing::writable, ""};
  if (facts.st_uid != user)
    return {Standing::refused,
            path + " belongs to user " + std::to_string(facts.st_uid) + ", not to user " + std::to_string(user)};
  if ((facts.st_mode & 022) != 0)
    return {Standing::refused, path + " can be written by others (mode " + octal(facts.st_mode & 07777) + ")"};
  return {Standing::writable, ""};
}

Place find_place(const StoreOptions& options) {
  Place place;
  if (options.no_file) {
    place.judgement = {Standing::off, "no cache file was asked for"};
    return place;
  }
  place.folder = wanted_folder(options);
  if (place.folder.empty()) {
    place.judgement = {Standing::off,
                       "neither XDG_CACHE_HOME nor HOME names an absolute folder, and no cache folder was given"};
    return place;
  }
  const FolderFacts facts = look_at(place.folder);
  place.judgement =
      facts.exists ? judge_folder(place.folder, facts, geteuid(), options.shared_folder) : judge_absent(place.folder);
  if (facts.exists && facts.directory) {
    // Links above the folder are the machine's business (/home often is one); SQLite is given a path without any.
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(place.folder.c_str(), nullptr), &std::free);
    if (real != nullptr) place.folder = real.get();
    place.lockable = local_file_system(facts.file_system);
    // In a shared folder others are to read and write what its own mode lets them.
    if (options.shared_folder) place.file_mode = (facts.mode & 0666) | 0600;
  }
  if (options.read_only && place.judgement.standing == Standing::writable)
    place.judgement = {Standing::readable, "opened to be read only"};
  if (options.read_only && place.judgement.standing == Standing::absent) place.judgement.standing = Standing::off;
  return place;
}

Place make_place(const StoreOptions& options) {
  Place place = find_place(options);
  if (place.judgement.standing != Standing::absent) return place;
  if (const int error = make_folders(place.folder); error != 0) {
    place.judgement = {Standing::off, place.folder + " cannot be made: " + error_text(error)};
    return place;
  }
  return find_place(options);
}

}  // namespace quern::cache
