// quern.h for C++: a context and lists that free themselves, and failures as exceptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/console.h"
#include "quern.h"

namespace quern::cli {

// A struct of quern.h with its size set and all else zero.
template <class Struct>
Struct sized() {
  Struct value{};
  value.size = static_cast<std::uint32_t>(sizeof(Struct));
  return value;
}

// Throws Failure unless the status is QUERN_OK.
void check(std::int32_t status, const quern_error& error);

struct ContextOptions {
  std::string cache;  // folder; "": the usual place
  std::vector<std::string> bundles;
  std::vector<std::string> search_dirs;
  std::vector<std::string> trusted_keys;  // where there are any, bundles need a signature of one of them
  bool shared_cache = false;
  std::uint32_t flags = 0;       // more of enum quern_context_flags
  std::int32_t device_type = 0;  // 0: no device
  std::int32_t device_id = 0;
  std::int32_t compile_threads = 0;
  std::string target;     // of the device's kernels; "": its own
  std::string cache_key;  // 64 hexadecimal digits; "": none
  bool silent = false;    // what the library logs is not shown
};

class Context {
 public:
  // What the library logs goes to the console, which must outlive the context. Throws Failure, for a bundle that cannot
  // be read too: who names one wants it.
  Context(const ContextOptions& options, Console& console);
  quern_context* get() const { return context_.get(); }

 private:
  struct Destroy {
    void operator()(quern_context* context) const { quern_context_destroy(context); }
  };
  std::unique_ptr<quern_context, Destroy> context_;
};

class List {
 public:
  // For the library to fill in.
  quern_list** out() { return &list_; }
  List() = default;
  ~List() { quern_list_free(list_); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  // Every item, read with quern_list_entry, quern_list_finding or quern_list_warm_result. Their strings live as long as
  // the list.
  template <class Item>
  std::vector<Item> items(std::int32_t (*read)(const quern_list*, std::uint64_t, Item*)) const {
    std::vector<Item> all;
    const std::uint64_t count = list_ == nullptr ? 0 : quern_list_count(list_);
    for (std::uint64_t i = 0; i < count; ++i) {
      Item item = sized<Item>();
      check(read(list_, i, &item), sized<quern_error>());
      all.push_back(item);
    }
    return all;
  }

 private:
  quern_list* list_ = nullptr;
};

}  // namespace quern::cli
