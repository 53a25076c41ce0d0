// The search for shared libraries: its order, what it refuses, and what it says when nothing is found.
// SPDX-License-Identifier: Apache-2.0
#include "jit/library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

class LibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    demand("cxx");
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern-library-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    unsetenv("QUERN_TEST_DIR");
    std::filesystem::remove_all(folder_);
  }

  // A shared library `folder/name` whose function which() returns `number`.
  std::string make(const std::string& folder, const std::string& name, int number) {
    Compilers compilers{CompilerOptions{}};
    const std::string source =
        "extern \"C\" __attribute__((visibility(\"default\"))) int which() { return " + std::to_string(number) + "; }";
    const std::string image = compilers.compile(job_for("host", source.c_str())).image;
    std::filesystem::create_directories(folder_ / folder);
    const std::string path = folder_ / folder / name;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    EXPECT_EQ(std::fwrite(image.data(), 1, image.size(), file), image.size());
    std::fclose(file);
    return path;
  }

  LibrarySearch search_for(const char* soname) {
    LibrarySearch search;
    search.sonames = {soname};
    search.environment_variable = "QUERN_TEST_DIR";
    search.usual_dirs = {folder_ / "usual*/lib"};
    return search;
  }

  static int which(const Library& library) { return reinterpret_cast<int (*)()>(find_function(library, "which"))(); }

  std::filesystem::path folder_;
};

TEST_F(LibraryTest, FoldersThenEnvironmentThenUsualPlaces) {
  make("given", "libquerntest1.so.1", 1);
  make("variable", "libquerntest1.so.1", 2);
  const std::string newest = make("usual-13.0/lib", "libquerntest1.so.1", 3);
  make("usual-9.1/lib", "libquerntest1.so.1", 4);
  LibrarySearch search = search_for("libquerntest1.so.1");
  Library library = open_library(search);
  ASSERT_TRUE(library) << library.tried;
  EXPECT_EQ(library.path, newest);
  EXPECT_EQ(which(library), 3);
  ASSERT_EQ(setenv("QUERN_TEST_DIR", (folder_ / "variable").c_str(), 1), 0);
  EXPECT_EQ(which(open_library(search)), 2);
  search.search_dirs = {folder_ / "given"};
  EXPECT_EQ(which(open_library(search)), 1);
}

TEST_F(LibraryTest, EveryPlaceThatWasTriedIsTold) {
  setenv("QUERN_TEST_DIR", "relative/folder", 1);
  LibrarySearch search = search_for("libquerntest2.so.1");
  search.search_dirs = {"/nowhere"};
  const Library library = open_library(search);
  EXPECT_FALSE(library);
  EXPECT_TRUE(contains(library.tried, "/nowhere")) << library.tried;
  EXPECT_TRUE(contains(library.tried, "relative/folder (QUERN_TEST_DIR): not an absolute path")) << library.tried;
  EXPECT_TRUE(contains(library.tried, "default search path, libquerntest2.so.1")) << library.tried;
  EXPECT_TRUE(contains(library.tried, "usual*/lib")) << library.tried;
}

// A Python environment's wheels come last: an activated one, and those that the library's own file lies in or beside.
TEST_F(LibraryTest, PythonEnvironmentsComeLast) {
  make("venv/lib/python3.11/site-packages/nvidia/cu13/lib", "libquerntest7.so.1", 7);
  LibrarySearch search = search_for("libquerntest7.so.1");
  search.beside = {"lib/python3*/site-packages/nvidia/cu1*/lib"};
  ASSERT_EQ(setenv("VIRTUAL_ENV", "relative", 1), 0);
  const Library missing = open_library(search);
  EXPECT_FALSE(missing);
  EXPECT_TRUE(contains(missing.tried, "VIRTUAL_ENV")) << missing.tried;
  ASSERT_EQ(setenv("VIRTUAL_ENV", (folder_ / "venv").c_str(), 1), 0);
  EXPECT_EQ(which(open_library(search)), 7);
  make("usual-1/lib", "libquerntest7.so.1", 8);
  EXPECT_EQ(which(open_library(search)), 8);
  unsetenv("VIRTUAL_ENV");
  // In the build folder's own neighbourhood, as .venv beside build/ is.
  search.usual_dirs.clear();
  const std::filesystem::path own = own_path();
  search.beside = {std::filesystem::relative(folder_ / "usual-1/lib", own.parent_path()).string()};
  EXPECT_EQ(which(open_library(search)), 8);
}

TEST_F(LibraryTest, TheWorkingFolderIsNotSearched) {
  make("here", "libquerntest3.so.1", 1);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "here");
  LibrarySearch search = search_for("libquerntest3.so.1");
  search.search_dirs = {".", "", "../here"};
  EXPECT_FALSE(open_library(search));
  std::filesystem::current_path(before);
}

// The dynamic linker takes an empty or relative entry of LD_LIBRARY_PATH for a place to load and run from: nothing may
// run from there, not even before its path is judged.
TEST_F(LibraryTest, NothingRunsFromARelativeEntryOfTheSearchPath) {
  Compilers compilers{CompilerOptions{}};
  const std::string image =
      compilers
          .compile(job_for("host",
                           "extern \"C\" long write(int, const void*, unsigned long);\n"
                           "__attribute__((constructor)) static void k() { write(1, \"CONSTRUCTED\", 11); }\n"))
          .image;
  std::ofstream(folder_ / "libnvrtc.so.13", std::ios::binary) << image;
  for (const char* path : {".", "", "/usr/lib:", ":/usr/lib", "/usr/lib::/lib", "sub/.."}) {
    std::filesystem::create_directories(folder_ / "sub");
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command = "cd '" + folder_.string() + "' && LD_LIBRARY_PATH='" + path + "' '" + self +
                                "' --gtest_also_run_disabled_tests --gtest_filter=Library.DISABLED_Search 2>&1";
    std::FILE* const output = popen(command.c_str(), "r");
    ASSERT_NE(output, nullptr);
    std::string text;
    for (int c; (c = std::fgetc(output)) != EOF;) text += static_cast<char>(c);
    pclose(output);
    EXPECT_TRUE(contains(text, "SEARCHED")) << path << ": " << text;
    EXPECT_FALSE(contains(text, "CONSTRUCTED")) << path << ": " << text;
  }
}

// Run by the test above, in a process of its own.
TEST(Library, DISABLED_Search) {
  LibrarySearch search;
  search.sonames = {"libnvrtc.so.13"};
  const Library library = open_library(search);
  std::printf("SEARCHED %s\n%s\n", library.path.c_str(), library.tried.c_str());
}

TEST_F(LibraryTest, ABrokenFileIsPassedBy) {
  const std::string broken = make("a", "libquerntest4.so.1", 1);
  std::filesystem::resize_file(broken, 100);
  make("b", "libquerntest4.so.1", 2);
  LibrarySearch search = search_for("libquerntest4.so.1");
  search.search_dirs = {folder_ / "a", folder_ / "b"};
  const Library library = open_library(search);
  ASSERT_TRUE(library);
  EXPECT_EQ(which(library), 2);
  EXPECT_TRUE(contains(library.tried, broken)) << library.tried;
}

TEST_F(LibraryTest, AMissingFunctionIsNamed) {
  make("a", "libquerntest5.so.1", 1);
  LibrarySearch search = search_for("libquerntest5.so.1");
  search.search_dirs = {folder_ / "a"};
  const Error error = error_of([&] { find_function(open_library(search), "other"); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(error.text(), "other")) << error.text();
}

TEST(Library, OwnPathIsAbsolute) {
  EXPECT_EQ(own_path().front(), '/');
  EXPECT_TRUE(contains(own_path(), "quern_unit_tests")) << own_path();
}

TEST(Library, NotFoundIsLookedForAgain) {
  CompilerOptions options;
  options.helper_path = "/nowhere/helper";
  Compilers compilers(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { compilers.compile(job_for("host", kHostKernel)); }).status(), QUERN_NOT_FOUND);
  }
}

}  // namespace
}  // namespace quern::jit
