// The call, the truth, and the two scripts that stand for the helper and the compiler.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/launch/launcher.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "jit/compiler.h"
#include "jit/driver.h"
#include "jit/engine.h"
#include "jit/error.h"
#include "jit/service.h"
#include "sources/manifest.h"
#include "sources/ops.h"

namespace quern::cache::testing {
namespace {

constexpr std::int64_t kRows = 5, kHeads = 2, kDim = 16;

// A call of merge_state, with what must come of it.
class Call {
 public:
  Call() {
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = std::sin(0.1f * static_cast<float>(i)), b_[i] = 1 - a_[i];
    for (std::size_t i = 0; i < lse_a_.size(); ++i) lse_a_[i] = 0.3f * static_cast<float>(i), lse_b_[i] = 2 - lse_a_[i];
    args_.size = sizeof(args_);
    args_.out_a = tensor(a_.data(), 3), args_.out_b = tensor(b_.data(), 3), args_.out = tensor(out_.data(), 3);
    args_.lse_a = tensor(lse_a_.data(), 2), args_.lse_b = tensor(lse_b_.data(), 2);
  }
  void poison() { out_.fill(-7); }
  void run(const ops::Runtime& runtime) {
    poison();
    ops::merge_state::run(runtime, args_);
  }
  bool is_right() const {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const double wa = std::exp(double{lse_a_[i / kDim]}), wb = std::exp(double{lse_b_[i / kDim]});
      if (!(std::abs(out_[i] - (wa * a_[i] + wb * b_[i]) / (wa + wb)) < 1e-5)) return false;
    }
    return true;
  }
  bool is_untouched() const {
    for (const float v : out_)
      if (v != -7) return false;
    return true;
  }

 private:
  const DLTensor* tensor(float* data, int rank) {
    DLTensor& t = tensors_[count_++];
    t.data = data, t.device = {kDLCPU, 0}, t.ndim = rank, t.dtype = {kDLFloat, 32, 1}, t.shape = shape_;
    return &t;
  }

  alignas(64) std::array<float, kRows * kHeads * kDim> a_{}, b_{}, out_{};
  alignas(64) std::array<float, kRows * kHeads> lse_a_{}, lse_b_{};
  std::int64_t shape_[3] = {kRows, kHeads, kDim};
  DLTensor tensors_[5] = {};
  std::size_t count_ = 0;
  quern_merge_state_args args_{};
};

jit::Spec spec() { return ops::to_spec(*ops::parse_line("merge_state host dtype=f32"), jit::Target::parse("host")); }
// One a process: a forked child has none of the threads of its parent's.
jit::Driver& driver() {
  static std::unique_ptr<jit::Driver> made;
  static pid_t owner = 0;
  if (owner != getpid()) {
    static_cast<void>(made.release());
    made = jit::open_host({});
    owner = getpid();
  }
  return *made;
}

std::string make_tools() {
  // Not where the caches of tests lie: nothing may be run from /dev/shm in some containers.
  std::string pattern = std::filesystem::temp_directory_path().string() + "/quern-launcher-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error(pattern);
  return pattern;
}
void make_script(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body;
  if (chmod(path.c_str(), 0755) != 0) throw std::runtime_error(path);
}

}  // namespace

struct Launcher::Impl {
  // One line a compilation, by whoever asked for it. The helper counts, since the compiler's sandbox lets it write
  // nowhere else. From the second time on the compiler hands out what c++ has made the first time, from the one folder
  // beside its own that it may read.
  Impl()
      : tools(make_tools()), helper(tools + "/helper"), compiler(tools + "/bin/c++"), image(tools + "/lib/kernel.so") {
    std::filesystem::create_directory(tools + "/bin");
    std::filesystem::create_directory(tools + "/lib");
    make_script(helper, "echo . >> '" + tools + "/asked-by-'$PPID\nexec '" + QUERN_TEST_HELPER "'\n");
    make_script(compiler, R"(
if [ "$1" = --version ]; then echo 'g++ (handing out) 1.2.3'; echo 'Free Software Foundation'; exit 0; fi
[ -e ')" + image + R"(' ] || exec c++ "$@"
while [ $# -gt 0 ]; do
  case "$1" in
    -o) cp ')" + image + R"(' "$2" ;;
    -MF) : > "$2" ;;
    -Wa,--MD,*) : > "${1#-Wa,--MD,}" ;;
  esac
  shift
done
)");
    const jit::Unit unit = ops::describe(spec());
    const jit::Compiled made =
        jit::Compilers(compilers())
            .compile({unit.target, jit::render(unit).text, unit.entry, unit.options, unit.keep_operands, nullptr});
    std::ofstream(image, std::ios::binary) << made.image;
  }
  ~Impl() {
    if (getpid() != owner) return;
    std::error_code ignored;
    std::filesystem::remove_all(tools, ignored);
  }
  jit::CompilerOptions compilers() const {
    jit::CompilerOptions options;
    options.helper_path = helper;
    options.host_compiler = compiler;
    return options;
  }
  // By this process so far. Allocates nothing: memory may have run out.
  std::int64_t asked() const {
    char path[PATH_MAX];
    std::snprintf(path, sizeof path, "%s/asked-by-%d", tools.c_str(), static_cast<int>(getpid()));
    struct stat status{};
    return stat(path, &status) == 0 ? status.st_size / 2 : 0;
  }

  const pid_t owner = getpid();
  const std::string tools, helper, compiler, image;
  Call call;
};

Launcher::Launcher() : impl_(std::make_unique<Impl>()) {}
Launcher::~Launcher() = default;

int Launcher::launch(const StoreOptions& options, bool may_fail) {
  Call& call = impl_->call;
  const std::int64_t before = impl_->asked();
  call.poison();
  try {
    jit::Service::Options given;
    given.store = options;
    given.compilers = impl_->compilers();
    jit::Service service(given);
    jit::EngineOptions engine_options;
    engine_options.driver = &driver();
    engine_options.service = &service;
    engine_options.describe = ops::describe;
    jit::Engine engine(std::move(engine_options));
    const ops::Runtime runtime{&engine, &driver(), jit::Miss::compile, nullptr, nullptr};
    call.run(runtime);
    EXPECT_TRUE(call.is_right());
    call.run(runtime);
    EXPECT_TRUE(call.is_right());
  } catch (const quern::Error& error) {
    EXPECT_TRUE(may_fail) << error.text();
    EXPECT_TRUE(call.is_untouched()) << error.text();
  } catch (const std::bad_alloc&) {
    EXPECT_TRUE(may_fail);
    EXPECT_TRUE(call.is_untouched());
  }
  const auto asked = static_cast<int>(impl_->asked() - before);
  EXPECT_LE(asked, 1);
  return asked;
}

}  // namespace quern::cache::testing
