// The search for a shared library.
// SPDX-License-Identifier: Apache-2.0
#include "jit/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>

#include "jit/error.h"

namespace quern::jit {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// Every path that matches, the highest version number first.
std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end(),
            [](const std::string& a, const std::string& b) { return strverscmp(a.c_str(), b.c_str()) > 0; });
  return paths;
}

class Search {
 public:
  explicit Search(const LibrarySearch& search) : search_(search) {}

  Library run() {
    for (const std::string& dir : search_.search_dirs) {
      if (try_folder(dir, "a folder given to the library")) return std::move(library_);
    }
    if (const char* dir = environment_of(search_.environment_variable)) {
      if (try_folder(dir, search_.environment_variable)) return std::move(library_);
    }
    if (try_default()) return std::move(library_);
    if (const char* root = environment_of(search_.toolkit_variable)) {
      for (const std::string& below : search_.toolkit_dirs) {
        if (try_folder(std::string(root) + '/' + below, search_.toolkit_variable)) return std::move(library_);
      }
    }
    for (const std::string& pattern : search_.usual_dirs) {
      const std::vector<std::string> dirs = matches(pattern);
      if (dirs.empty()) note(pattern, "no such folder");
      for (const std::string& dir : dirs) {
        if (try_folder(dir, nullptr)) return std::move(library_);
      }
    }
    try_beside();
    return std::move(library_);
  }

 private:
  void try_beside() {
    constexpr int kLevels = 4;
    if (search_.beside.empty()) return;
    std::vector<std::string> bases;
    std::string base = folder_of(own_path());
    for (int up = 0; up < kLevels && !base.empty(); ++up, base = folder_of(base)) bases.push_back(base);
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
      if (const char* prefix = environment(name); prefix != nullptr && *prefix == '/') bases.emplace_back(prefix);
    }
    bool any = false;
    for (const std::string& folder : bases) {
      for (const std::string& below : search_.beside) {
        for (const std::string& dir : matches(std::string(folder).append(1, '/').append(below))) {
          any = true;
          if (try_folder(dir, "a Python environment beside quern")) return;
        }
      }
    }
    if (!any) note("Python environments beside quern, VIRTUAL_ENV, CONDA_PREFIX", "no folder of NVIDIA's wheels");
  }

  static const char* environment_of(const char* name) { return name == nullptr ? nullptr : environment(name); }

  void note(const std::string& place, const std::string& what) {
    library_.tried += place;
    library_.tried += ": ";
    library_.tried += what;
    library_.tried += '\n';
  }

  bool try_folder(const std::string& dir, const char* origin) {
    std::string named = dir;
    if (origin != nullptr) named.append(" (").append(origin).append(")");
    if (!dir.starts_with('/')) {
      note(named, "not an absolute path");
      return false;
    }
    bool any = false;
    for (const std::string& soname : search_.sonames) {
      const std::string path = std::string(dir).append(1, '/').append(soname);
      struct stat status{};
      if (stat(path.c_str(), &status) != 0) continue;
      any = true;
      open_companions(dir);
      if (try_open(path, path)) return true;
    }
    if (!any) note(named, "holds none of " + names());
    return false;
  }

  bool try_default() {
    const std::vector<std::string> dirs = default_dirs();
    const auto unsafe =
        std::find_if(dirs.begin(), dirs.end(), [](const std::string& d) { return !d.starts_with('/'); });
    if (unsafe == dirs.end()) {
      return std::any_of(search_.sonames.begin(), search_.sonames.end(),
                         [this](const std::string& soname) { return try_by_name(soname); });
    }
    // Opening by name would run what lies in the working directory before its path could be judged.
    note("default search path", "holds the relative entry '" + *unsafe + "' (LD_LIBRARY_PATH), which is not used");
    return std::any_of(dirs.begin(), dirs.end(), [this](const std::string& dir) {
      return dir.starts_with('/') && try_folder(dir, "default search path");
    });
  }

  // The folders of the dynamic linker, as it was given them; not the names that it knows from its cache.
  static std::vector<std::string> default_dirs() {
    std::vector<std::string> dirs;
    void* program = dlopen(nullptr, RTLD_NOW);
    Dl_serinfo size{};
    if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return dirs;
    std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* const info = new (memory.data()) Dl_serinfo(size);
    if (dlinfo(program, RTLD_DI_SERINFO, info) == 0) {
      for (unsigned i = 0; i < info->dls_cnt; ++i) dirs.emplace_back(info->dls_serpath[i].dls_name);
    }
    dlclose(program);
    return dirs;
  }

  bool try_by_name(const std::string& soname) {
    if (!try_open(soname, "default search path, " + soname)) return false;
    // Companions are opened by the library when it is first used, not while it is loaded: there is still time.
    open_companions(folder_of(library_.path));
    return true;
  }

  bool try_open(const std::string& name, const std::string& place) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      note(place, reason == nullptr ? "cannot be opened" : reason);
      return false;
    }
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr)
      library_.path = map->l_name;
    if (!library_.path.starts_with('/')) {
      note(place, "was found at the relative path '" + library_.path + "', which is not used");
      library_.path.clear();
      return false;
    }
    library_.handle = handle;
    return true;
  }

  void open_companions(const std::string& dir) {
    for (const std::string& pattern : search_.companions) {
      for (const std::string& path : matches(std::string(dir).append(1, '/').append(pattern))) {
        if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
          const char* reason = dlerror();
          note(path, reason == nullptr ? "cannot be opened" : reason);
        }
      }
    }
  }

  std::string names() const {
    std::string text;
    for (const std::string& soname : search_.sonames) text.append(text.empty() ? "" : ", ").append(soname);
    return text;
  }

  const LibrarySearch& search_;
  Library library_;
};

// The file whose mapping holds `address`, as the kernel names it.
std::string mapped_file(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string skipped, path;
    fields >> std::hex >> begin >> dash >> end >> skipped >> skipped >> skipped >> skipped;
    if (wanted < begin || wanted >= end) continue;
    std::getline(fields >> std::ws, path);
    return path.starts_with('/') ? path : std::string();
  }
  return {};
}

}  // namespace

Library open_library(const LibrarySearch& search) { return Search(search).run(); }

void* look_for_function(const Library& library, const char* name) noexcept { return dlsym(library.handle, name); }

void* find_function(const Library& library, const char* name) {
  void* function = look_for_function(library, name);
  if (function == nullptr) {
    throw Error(QUERN_NOT_FOUND,
                library.path + ": has no function " + name + "; another version of the library is needed");
  }
  return function;
}

const char* environment(const char* name) {
  if (getauxval(AT_SECURE) != 0) return nullptr;
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string own_path() {
  const void* here = reinterpret_cast<const void*>(&open_library);
  Dl_info info{};
  // A program names itself as it was called, which may be relative, and a library as it was opened.
  if (dladdr(here, &info) != 0 && info.dli_fname != nullptr && info.dli_fname[0] == '/') return info.dli_fname;
  return mapped_file(here);
}

}  // namespace quern::jit
