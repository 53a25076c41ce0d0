// The string driver and the toy op.
// SPDX-License-Identifier: Apache-2.0
#include "tests/race/fixture.h"

#include <cstdlib>
#include <filesystem>

namespace quern::jit::test {

StringDriver::StringDriver() {
  info_.limits.target = Target::parse("host");
  info_.device_type = kDLCPU;
  info_.name = "strings";
}

Loaded StringDriver::load(std::string_view image, const std::string& entry, std::uint32_t) {
  if (while_loading) while_loading();
  if (poor) throw Error(QUERN_NO_MEMORY, "the device has no memory for " + entry);
  if (image.starts_with("empty")) throw Error(QUERN_NOT_FOUND, "no kernel " + entry + " in the image");
  if (!image.starts_with("good")) throw Error(QUERN_UNSUPPORTED, "the image is for another device");
  Loaded loaded;
  loaded.module = new std::string(image);
  loaded.max_threads = 1024;
  loads++;
  return loaded;
}

void StringDriver::unload(Loaded& loaded) noexcept {
  delete static_cast<std::string*>(loaded.module);
  loaded = Loaded{};
  unloads++;
}

int StringDriver::launch(const Loaded&, const Launch&, void* const*, std::size_t) noexcept {
  launches.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

void StringDriver::fail(int code, const char* what) { throw Error(QUERN_DRIVER, what, code); }

void StringDriver::encode_tensor_map(const TensorMapDesc&, TensorMap&) {
  throw Error(QUERN_UNSUPPORTED, "no tensor maps");
}

Spec toy(std::uint32_t n) {
  Spec spec;
  spec.op = 7;
  spec.target = Target::parse("host").tag();
  spec.words[0] = n;
  return spec;
}

Unit describe_toy(const Spec& spec) {
  Unit unit;
  unit.op = "toy";
  unit.target = Target::from_tag(spec.target);
  unit.entry = "toy_kernel";
  unit.constants = {{"N", std::to_string(spec.words[0])}};
  unit.source = {"toy.cuh", "int toy_kernel = N;\n"};
  return unit;
}

Compiled good_image(const CompileJob& job) {
  Compiled compiled;
  compiled.image = "good " + job.entry;
  compiled.compiler_kind = "string";
  compiled.compiler_build = "1.0";
  compiled.milliseconds = 2;
  compiled.registers = 42;
  return compiled;
}

namespace {
std::string make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "quern-race-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
  return name;
}
}  // namespace

Folder::Folder() : path(make_folder()) {}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

cache::StoreOptions EngineTest::in_folder() const {
  cache::StoreOptions store;
  store.folder = folder.path + "/cache";
  return store;
}

EngineOptions EngineTest::options(Service& service, std::function<Compiled(const CompileJob&)> compile) {
  EngineOptions options;
  options.driver = &driver;
  options.service = &service;
  options.describe = describe_toy;
  options.compile = std::move(compile);
  options.event = [this](const Event& event) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
  };
  return options;
}

std::vector<Event> EngineTest::events() {
  std::lock_guard lock(mutex_);
  return events_;
}

int EngineTest::count_events(int kind) {
  int count = 0;
  for (const Event& event : events()) count += event.kind == kind;
  return count;
}

}  // namespace quern::jit::test
