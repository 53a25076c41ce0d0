// What libFuzzer calls; QUERN_FUZZ_TARGET names the target. With QUERN_FUZZ_SEEDS the target's good inputs are written
// into that folder, and that is all.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/fuzz.h"

namespace {

const quern::fuzz::Target& chosen() {
  static const quern::fuzz::Target& target = []() -> const quern::fuzz::Target& {
    const char* const name = std::getenv("QUERN_FUZZ_TARGET");
    for (const quern::fuzz::Target* const each : quern::fuzz::targets())
      if (name != nullptr && std::string_view(name) == each->name) return *each;
    std::fputs("QUERN_FUZZ_TARGET is none of:", stderr);
    for (const quern::fuzz::Target* const each : quern::fuzz::targets()) std::fprintf(stderr, " %s", each->name);
    std::exit(2);
  }();
  return target;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const folder = std::getenv("QUERN_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : chosen().seeds())
    std::ofstream(std::string(folder) + "/seed-" + std::to_string(number++), std::ios::binary) << seed;
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
