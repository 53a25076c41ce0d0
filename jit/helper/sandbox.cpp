// Landlock, by its three system calls (docs.kernel.org/userspace-api/landlock.html): no library is needed, and headers
// of the building machine may be older than the kernel of the running one.
// SPDX-License-Identifier: Apache-2.0
#include "jit/helper/sandbox.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "jit/helper/spawn.h"
#include "jit/library.h"

namespace quern::jit::helper {
namespace {

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // of every architecture
constexpr unsigned kAskVersion = 1;
constexpr int kPathBeneath = 1;

constexpr std::uint64_t kExecute = 1, kWriteFile = 2, kReadFile = 4, kReadDir = 8;
constexpr std::uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | 1 << 14;  // the last: truncating
constexpr std::uint64_t kRead = kExecute | kReadFile | kReadDir;

struct RulesetAttributes {
  std::uint64_t files, network, scoped;
};
struct __attribute__((packed)) PathRule {
  std::uint64_t allowed;
  std::int32_t parent;
};

// What each version can restrict; later ones add to the end.
RulesetAttributes everything(int version) {
  const int bits = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
  return {(std::uint64_t{1} << bits) - 1, version >= 4 ? 3u : 0u, version >= 6 ? 3u : 0u};
}

std::size_t size_of_attributes(int version) { return version >= 6 ? 24 : version >= 4 ? 16 : 8; }

class Rules {
 public:
  Rules(int ruleset, std::uint64_t handled) : ruleset_(ruleset), handled_(handled) {}

  // What is not there needs no rule.
  bool allow(const std::string& path, std::uint64_t rights) const {
    const Descriptor place(open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!place) return true;
    struct stat status{};
    if (fstat(place.get(), &status) != 0) return false;
    PathRule rule{rights & handled_, place.get()};
    if (!S_ISDIR(status.st_mode)) rule.allowed &= kOfFiles;
    return syscall(kAddRule, ruleset_, kPathBeneath, &rule, 0) == 0;
  }

 private:
  int ruleset_;
  std::uint64_t handled_;
};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? std::string() : path.substr(0, slash);
}

// The folders that compilers lie in and load from. Headers are in none of them but GCC's own.
constexpr const char* kSystem[] = {"/usr/bin",
                                   "/bin",
                                   "/usr/lib",
                                   "/lib",
                                   "/usr/lib64",
                                   "/lib64",
                                   "/usr/lib32",
                                   "/lib32",
                                   "/usr/libexec",
                                   "/usr/local/bin",
                                   "/usr/local/lib",
                                   "/usr/local/libexec",
                                   "/nix/store",
                                   "/gnu/store",
                                   "/etc/ld.so.cache",
                                   "/etc/ld.so.preload",
                                   "/proc/cpuinfo",
                                   "/proc/meminfo",
                                   "/sys/devices/system",
                                   "/dev/urandom",
                                   "/dev/zero"};

bool allow_all(const Rules& rules, const Sandbox& sandbox, std::uint64_t handled) {
  bool good = rules.allow(sandbox.folder, handled) && rules.allow("/dev/null", kReadFile | kWriteFile);
  for (const char* path : kSystem) good = good && rules.allow(path, kRead);
  // What the helper was started with, among them the libraries that the compiler itself is linked to.
  if (const char* list = environment("LD_LIBRARY_PATH")) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::string_view entry = rest.substr(0, rest.find(':'));
      if (entry.starts_with('/')) good = good && rules.allow(std::string(entry), kRead);
      rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    }
  }
  for (const std::string& compiler : sandbox.compilers) {
    std::vector<std::string> paths = {compiler};
    if (char* real = realpath(compiler.c_str(), nullptr)) {
      paths.emplace_back(real);
      std::free(real);
    }
    for (const std::string& path : paths) {
      good = good && rules.allow(path, kRead);
      const std::string prefix = folder_of(folder_of(path));
      if (prefix.empty()) continue;
      for (const char* below : {"/lib", "/lib64", "/libexec", "/amdgcn", "/llvm/lib"})
        good = good && rules.allow(prefix + below, kRead);
    }
  }
  return good;
}

}  // namespace

int landlock_version() noexcept {
  const long version = syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  return version > 0 ? static_cast<int>(version) : 0;
}

bool enter(const Sandbox& sandbox) noexcept {
  try {
    const int version = landlock_version();
    if (version == 0) return false;
    const RulesetAttributes attributes = everything(version);
    const Descriptor ruleset(static_cast<int>(syscall(kCreateRuleset, &attributes, size_of_attributes(version), 0)));
    if (!ruleset) return false;
    if (!allow_all(Rules(ruleset.get(), attributes.files), sandbox, attributes.files)) return false;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    return syscall(kRestrictSelf, ruleset.get(), 0) == 0;
  } catch (...) {
    return false;  // no memory: the compiler is about to say the same
  }
}

}  // namespace quern::jit::helper
