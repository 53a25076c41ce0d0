// The system's C++ compiler for the `host` target, in the helper.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "jit/sanitizer.h"
#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

class HostCompilerTest : public testing::Test {
 protected:
  void SetUp() override { demand("cxx"); }
  Compilers compilers{CompilerOptions{}};
};

// Calls k(21) of an image, as the host driver would load it.
int call(const std::string& image) {
  const int file = memfd_create("image", MFD_CLOEXEC);
  EXPECT_EQ(write(file, image.data(), image.size()), static_cast<ssize_t>(image.size()));
  void* handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  EXPECT_NE(handle, nullptr) << dlerror();
  if (handle == nullptr) return -1;
  const auto function = reinterpret_cast<int (*)(int)>(dlsym(handle, "k"));
  const int result = function == nullptr ? -1 : function(21);
  dlclose(handle);
  return result;
}

TEST_F(HostCompilerTest, CompilesASharedObjectThatRuns) {
  for (const char* target : {"host", "host64"}) {
    const Compiled compiled = compilers.compile(job_for(target, kHostKernel));
    EXPECT_EQ(compiled.compiler_kind, "cxx");
    EXPECT_TRUE(compiled.compiler_build.starts_with("g++ ") || compiled.compiler_build.starts_with("clang++ "))
        << compiled.compiler_build;
    EXPECT_EQ(compiled.log, "");
    EXPECT_EQ(call(compiled.image), 42);
    std::printf("%s: %zu bytes, %.1f ms\n", compiled.compiler_build.c_str(), compiled.image.size(),
                compiled.milliseconds);
  }
}

TEST_F(HostCompilerTest, TheSameSourceGivesTheSameBytes) {
  EXPECT_EQ(compilers.compile(job_for("host", kHostKernel)).image,
            compilers.compile(job_for("host", kHostKernel)).image);
}

TEST_F(HostCompilerTest, ASanitizedLibraryCompilesSanitizedKernels) {
  const Compiled compiled = compilers.compile(
      job_for("host", "extern \"C\" __attribute__((visibility(\"default\"))) int k(int* x) { return *x; }\n"));
  const bool sanitized = contains(compiled.image, "__asan_") || contains(compiled.image, "__tsan_");
  EXPECT_EQ(sanitized, !kSanitizerOption.empty());
}

TEST_F(HostCompilerTest, MathsFunctionsAndWarnings) {
  const Compiled compiled =
      compilers.compile(job_for("host",
                                "extern \"C\" __attribute__((visibility(\"default\"))) int k(int x) {\n"
                                "  return (int)__builtin_lroundf(__builtin_expf((float)x * 0.0f)) + 41;\n}\n"
                                "#warning look here\n"));
  EXPECT_EQ(call(compiled.image), 42);
  EXPECT_TRUE(contains(compiled.log, "look here")) << compiled.log;
}

TEST_F(HostCompilerTest, AnErrorNamesTheFileAndLine) {
  const Error error =
      error_of([&] { compilers.compile(job_for("host", "#line 7 \"op/k.cuh\"\nint k() { return missing; }\n")); });
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "op/k.cuh:7:")) << error.text();
  EXPECT_TRUE(contains(error.text(), "refused 'k' for host")) << error.text();
}

TEST_F(HostCompilerTest, TheSystemsHeadersAreOutOfReach) {
  const Error error =
      error_of([&] { compilers.compile(job_for("host", "#include <stdio.h>\nint k() { return 0; }\n")); });
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "stdio.h")) << error.text();
}

TEST_F(HostCompilerTest, NothingStaysBehindInTheTemporaryFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("quern-host-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  ASSERT_EQ(setenv("TMPDIR", folder.c_str(), 1), 0);
  compilers.compile(job_for("host", kHostKernel));
  error_of([&] { compilers.compile(job_for("host", "wrong")); });
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  unsetenv("TMPDIR");
  std::filesystem::remove_all(folder);
}

TEST(HostCompiler, BadPathsAreNamed) {
  CompilerOptions options;
  options.host_compiler = "g++";
  const Error relative = error_of([&] { Compilers(options).compile(job_for("host", kHostKernel)); });
  EXPECT_EQ(relative.status(), QUERN_INVALID);
  EXPECT_TRUE(contains(relative.text(), "'g++'")) << relative.text();
  options.host_compiler = "/nowhere/g++";
  const Error missing = error_of([&] { Compilers(options).compile(job_for("host", kHostKernel)); });
  EXPECT_EQ(missing.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(missing.text(), "/nowhere/g++")) << missing.text();
}

}  // namespace
}  // namespace quern::jit
