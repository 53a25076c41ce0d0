// SPDX-License-Identifier: Apache-2.0
#include "tests/hopper/kernel.h"

#include <map>
#include <mutex>
#include <stdexcept>

#include "sources/common_headers.h"

namespace quern::hopper_tests {
namespace {

jit::File kernel_file(const std::string& name) {
  for (const jit::File& file : embedded()) {
    if (file.name == name) return file;
  }
  throw std::runtime_error("no kernel " + name + " in tests/hopper");
}

}  // namespace

const jit::Compiled& compile(const std::string& target, const std::string& file, const Defines& defines) {
  static std::mutex mutex;
  static std::map<std::string, jit::Compiled> done;
  static jit::Compilers compilers{jit::CompilerOptions{}};
  jit::Unit unit;
  unit.op = "test";
  unit.target = jit::Target::parse(target);
  unit.entry = "k";
  unit.source = kernel_file(file);
  unit.headers = ops::common_headers(unit.target);
  for (const jit::File& each : embedded()) unit.headers.push_back(each);
  std::string key = target + '\n' + file;
  for (const auto& [name, value] : defines) {
    unit.constants.push_back({name, value});
    key += '\n' + name + '=' + value;
  }
  std::lock_guard lock(mutex);
  auto [it, added] = done.try_emplace(key);
  if (added) {
    try {
      it->second = compilers.compile({unit.target, jit::render(unit).text, unit.entry, unit.options});
    } catch (...) {
      done.erase(it);
      throw;
    }
  }
  return it->second;
}

}  // namespace quern::hopper_tests
