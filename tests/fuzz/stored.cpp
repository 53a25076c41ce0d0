// Bundles and cache files: what reads them finds every entry whole, or says that it is not there. A fuzzer that sees
// what is compared with what makes right checksums soon enough: that nothing else comes out than was put in is held
// with a signature, and with MACs.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cache/bundle.h"
#include "cache/store.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

using namespace cache;  // NOLINT(google-build-using-namespace)

Key key_of(std::uint64_t number) { return {number * 0x9e3779b97f4a7c15ULL, number}; }

Entry entry_of(std::uint64_t number) {
  Entry entry;
  entry.text = "quern 1\nconst N " + std::to_string(number) + "\n";
  entry.op = "op", entry.target = "sm_90a", entry.entry_name = "entry";
  entry.image = std::string(50 + 40 * number, static_cast<char>('a' + number));
  entry.compiler_kind = "nvrtc", entry.compiler_build = "13.0";
  entry.created = 1'700'000'000;
  return entry;
}
constexpr std::uint64_t kEntries = 4;
constexpr SecretKey kSecret{1, 2, 3};

// A folder of this process's own in memory.
const std::string& folder() {
  static const std::string made = [] {
    std::string pattern = access("/dev/shm", W_OK) == 0 ? "/dev/shm/quern-fuzz-XXXXXX" : "/tmp/quern-fuzz-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    return pattern;
  }();
  return made;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  chmod(path.c_str(), 0600);
}

StoreOptions options(const char* name) {
  StoreOptions options;
  options.mac_key = kSecret;
  options.folder = folder() + "/" + name;
  return options;
}

// Only what was put in comes out.
void expect_own(Store& store) {
  for (std::uint64_t number = 1; number <= kEntries; ++number) {
    Entry got;
    if (store.get(key_of(number), entry_of(number).text, "", &got) && got.image != entry_of(number).image) std::abort();
  }
}

void fill(Store& store) {
  for (std::uint64_t number = 1; number <= kEntries; ++number)
    if (store.put(key_of(number), entry_of(number)) != Put::stored) std::abort();
}

// ---- bundles

// Sums of header and index made right again, so that what lies behind them is reached.
void mend(std::string& bytes) {
  using namespace bundle_format;  // NOLINT(google-build-using-namespace)
  if (bytes.size() < kHeaderSize) return;
  const Checksum sum = checksum_bytes(std::string_view(bytes).substr(0, kSummed));
  std::memcpy(bytes.data() + kSummed, sum.data(), std::min(sum.size(), kHeaderSize - kSummed));
}

void read_bundle(const std::string& path, const Bundle::Trust& trust) {
  try {
    const Bundle bundle(path, trust);
    for (const Bundle::Slot& slot : bundle.slots()) {
      try {
        bundle.read_listed(slot);
        bundle.read_verified(slot);
      } catch (const BundleError&) {
      }
    }
    for (std::uint64_t number = 1; number <= kEntries; ++number) {
      Entry got;
      try {
        if (bundle.find(key_of(number), entry_of(number).text, "", &got) == Found::yes && !trust.keys.empty() &&
            got.image != entry_of(number).image)
          std::abort();
      } catch (const BundleError&) {
      }
    }
  } catch (const BundleError&) {
  }
}

void run_bundle(std::string_view input) {
  const std::string path = folder() + "/bundle";
  std::string bytes(input);
  if (!bytes.empty() && (bytes.back() & 1) != 0) mend(bytes);
  write(path, bytes);
  read_bundle(path, {});
  read_bundle(path, {{public_key_of(kSecret)}, true});
}

std::vector<std::string> bundle_seeds() {
  const std::string path = folder() + "/seed";
  Store store(options("seeds"));
  fill(store);
  if (store.export_bundle(path, nullptr, nullptr).what != AdminError::What::none) std::abort();
  std::string good = read(path), odd = good;
  odd += '\1';
  sign_bundle(path, kSecret);
  return {good, odd, read(path), ""};
}

// ---- the cache file

void run_cache_file(std::string_view input) {
  const StoreOptions used = options("cache");
  std::filesystem::remove_all(used.folder);
  std::filesystem::create_directories(used.folder);
  chmod(used.folder.c_str(), 0700);
  write(used.folder + "/cache-1.db", input);
  {
    Store store(used);
    expect_own(store);
    AdminError error;
    store.list(&error);
    store.verify(&error);
    store.put(key_of(9), entry_of(9));
    Entry got;
    if (store.get(key_of(9), entry_of(9).text, "", &got) && got.image != entry_of(9).image) std::abort();
    expect_own(store);
  }
}

std::vector<std::string> cache_file_seeds() {
  const StoreOptions used = options("seeds");
  std::filesystem::remove_all(used.folder);
  {
    Store store(used);
    fill(store);
  }
  return {read(used.folder + "/cache-1.db"), ""};
}

}  // namespace

const Target bundle{"bundle", run_bundle, bundle_seeds};
const Target cache_file{"cache_file", run_cache_file, cache_file_seeds};

}  // namespace quern::fuzz
