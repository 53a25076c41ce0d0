// Finding and opening a shared library the same way for compilers and drivers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quern::jit {

// Absolute paths only, never the working directory; the environment is not read in a privileged process (AT_SECURE).
// Order: `search_dirs`, the folder named by `environment_variable`, the default search path of dlopen, CUDA_PATH /
// ROCM_PATH, the toolkits' usual folders, and Python environments beside this library.
struct LibrarySearch {
  std::vector<std::string> sonames;  // best first: "libnvrtc.so.13", ...
  std::vector<std::string> search_dirs;
  const char* environment_variable = nullptr;  // "QUERN_NVRTC_DIR"
  const char* toolkit_variable = nullptr;      // "CUDA_PATH"
  std::vector<std::string> toolkit_dirs;       // below that: "lib64", "targets/x86_64-linux/lib"
  std::vector<std::string> usual_dirs;         // may hold '*': "/usr/local/cuda*/lib64", newest first
  // Folders of Python environments that this library lies in or beside, looked into last: below each of the four
  // folders that its own file lies in. May hold '*'.
  std::vector<std::string> beside;
  // Opened by absolute path from the folder in which a candidate stands, before anything of the candidate is called: a
  // library that opens these itself, by name, then gets its own. May hold '*': "libnvrtc-builtins.so.*".
  std::vector<std::string> companions;
};

struct Library {
  void* handle = nullptr;  // of dlopen; never closed: GPU libraries do not survive it
  std::string path;        // where it was found
  std::string tried;       // one line a place
  explicit operator bool() const { return handle != nullptr; }
};

Library open_library(const LibrarySearch& search);

// Throws Error(QUERN_NOT_FOUND) naming the library and the function it lacks.
void* find_function(const Library& library, const char* name);
// Null where it lacks it.
void* look_for_function(const Library& library, const char* name) noexcept;

// getenv, but null in a privileged process and for an empty value.
const char* environment(const char* name);

// The absolute path of the file that this code was loaded from: libquern.so, or a program that has it inside. "" if
// unknown.
std::string own_path();

}  // namespace quern::jit
