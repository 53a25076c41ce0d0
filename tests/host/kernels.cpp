// Compiling and launching small kernels in the tests of the `host` target.
// SPDX-License-Identifier: Apache-2.0
#include "tests/host/kernels.h"

#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "jit/error.h"
#include "sources/common_headers.h"

namespace quern::host_tests {
namespace {

// Views into these are kept by units, so they are never let go.
const std::string& kept_file(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::string> files;
  std::lock_guard lock(mutex);
  auto [it, added] = files.try_emplace(name);
  if (added) it->second = read_file(name);
  return it->second;
}

}  // namespace

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(QUERN_SOURCE_DIR) + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

jit::Unit unit_for(const std::string& target, std::string_view source_name, std::string_view source,
                   const std::string& entry) {
  jit::Unit unit;
  unit.op = "test";
  unit.target = jit::Target::parse(target);
  unit.entry = entry;
  unit.source = {source_name, source};
  unit.headers = ops::common_headers(unit.target);
  unit.headers.push_back({"layer_layout.cuh", kept_file("tests/host/layer_layout.cuh")});
  return unit;
}

const jit::Compiled& compile(const std::string& target, const std::string& source_name, const std::string& source,
                             const std::string& entry) {
  static std::mutex mutex;
  static std::map<std::string, jit::Compiled> done;
  static jit::Compilers compilers{jit::CompilerOptions{}};
  std::lock_guard lock(mutex);
  auto [it, added] = done.try_emplace(target + '\n' + entry + '\n' + source);
  if (added) {
    try {
      const jit::Unit unit = unit_for(target, source_name, source, entry);
      it->second = compilers.compile({unit.target, jit::render(unit).text, entry, unit.options});
    } catch (...) {
      done.erase(it);
      throw;
    }
  }
  return it->second;
}

const jit::Compiled& compile_body(const std::string& body, std::uint32_t warp_size) {
  return compile(warp_size == 64 ? "host64" : "host", "test.cuh",
                 "#include \"common/kernel.cuh\"\nusing namespace q;\n" + body, "k");
}

Kernel::Kernel(const jit::Compiled& compiled, const std::string& entry, std::uint32_t max_shared_bytes,
               const Options& options)
    : driver_(jit::open_host({options.warp_size, options.cpu_threads, options.seeded, options.seed})),
      loaded_(driver_->load(compiled.image, entry, max_shared_bytes)),
      shared_bytes_(max_shared_bytes) {}

Kernel::~Kernel() { driver_->unload(loaded_); }

std::string Kernel::launch(const jit::Launch& launch, std::vector<void*> args) {
  const int code = driver_->launch(loaded_, launch, args.data(), args.size());
  if (code == 0) return {};
  std::string text;
  try {
    driver_->fail(code, "launch");
  } catch (const Error& error) {
    text = error.text();
  }
  return text;
}

std::string Kernel::run(std::uint32_t blocks, std::vector<void*> args) {
  jit::Launch shape;
  shape.grid[0] = blocks;
  shape.block[0] = static_cast<std::uint32_t>(loaded_.max_threads);
  shape.shared_bytes = shared_bytes_;
  return launch(shape, std::move(args));
}

}  // namespace quern::host_tests
