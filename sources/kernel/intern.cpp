// The process-wide table of interned kernel texts, and what may be interned.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>

#include "jit/backend.h"
#include "jit/error.h"
#include "jit/lazy.h"
#include "jit/process_mutex.h"
#include "sources/kernel/kernel.h"

namespace quern::ops::kernel {
namespace {

struct Table {
  struct Known {
    const Text* text;  // in `numbers`, whose nodes do not move
    std::uint32_t keepers = 0;
  };
  std::map<Text, std::uint32_t> numbers;
  std::unordered_map<std::uint32_t, Known> known;
  std::set<std::uint32_t> unkept;  // forgotten once nobody is interning
  std::uint32_t next = 0;
  std::uint32_t interning = 0;

  // Under the mutex, as all below.
  void forget_unkept() noexcept {
    if (interning != 0) return;
    for (const std::uint32_t number : unkept) {
      const auto found = known.find(number);
      numbers.erase(numbers.find(*found->second.text));
      known.erase(found);
    }
    unkept.clear();
  }
};
jit::ProcessMutex mutex;
jit::Lazy<Table> table;

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

[[noreturn]] void refuse(std::string text) { throw Error(QUERN_INVALID, std::move(text)); }

void check_file(std::string_view what, const std::pair<std::string, std::string>& file) {
  const std::string& name = file.first;
  if (name.empty()) refuse("the name of a " + std::string(what) + " is empty");
  if (!is_plain(name) || name.find_first_of("\"\\<>") != std::string::npos) {
    refuse(std::string(what) + " name \"" + name + "\" holds a quote, bracket, backslash or control character");
  }
  if (name.starts_with("common/") || name.starts_with("quern/")) {
    refuse(std::string(what) + " name \"" + name + "\": names below common/ and quern/ are quern's own");
  }
  const std::size_t nul = file.second.find('\0');
  if (nul != std::string::npos)
    refuse(std::string(what) + " \"" + name + "\" has a NUL at byte " + std::to_string(nul));
}

void check_option(const std::string& option) {
  if (option.empty() || !is_plain(option)) refuse("option \"" + option + "\" is empty or holds a control character");
}

}  // namespace

void check(const Text& text) {
  if (!jit::is_identifier(text.entry)) refuse("entry \"" + text.entry + "\" is not a C identifier");
  check_file("source", text.source);
  if (text.source.second.empty()) refuse("source \"" + text.source.first + "\" is empty");
  for (auto header = text.headers.begin(); header != text.headers.end(); ++header) {
    check_file("header", *header);
    const bool twice =
        header->first == text.source.first ||
        std::any_of(text.headers.begin(), header, [&](const auto& other) { return other.first == header->first; });
    if (twice) refuse("header \"" + header->first + "\" is given twice");
  }
  for (auto define = text.defines.begin(); define != text.defines.end(); ++define) {
    if (!jit::is_identifier(define->first)) refuse("constant \"" + define->first + "\" is not a C identifier");
    if (!is_plain(define->second)) refuse("the value of constant \"" + define->first + "\" holds a control character");
    const bool twice =
        std::any_of(text.defines.begin(), define, [&](const auto& other) { return other.first == define->first; });
    if (twice) refuse("constant \"" + define->first + "\" is given twice");
  }
  for (const std::string& option : text.options) check_option(option);
  jit::check_options(text.options);
}

jit::Spec intern(Text text, jit::Target target) {
  check(text);
  Table& known = *table;
  const std::lock_guard lock(mutex);
  const auto [place, added] = known.numbers.try_emplace(std::move(text), known.next);
  if (added) {
    // All or nothing, should memory run out in between.
    try {
      known.unkept.insert(known.next);
      known.known.emplace(known.next, Table::Known{&place->first, 0});
    } catch (...) {
      known.unkept.erase(known.next);
      known.numbers.erase(place);
      throw;
    }
    if (++known.next == 0) std::abort();  // 2^32 different kernels: not in a process's life
  }
  jit::Spec spec;
  spec.op = tag_kernel;
  spec.target = target.tag();
  spec.words[0] = place->second;
  return spec;
}

const Text& interned(const jit::Spec& spec) {
  Table& known = *table;
  const std::lock_guard lock(mutex);
  const auto found = spec.op == tag_kernel ? known.known.find(spec.words[0]) : known.known.end();
  if (found == known.known.end())
    throw Error(QUERN_INTERNAL, "a Spec stands for a kernel that was never interned, or was not kept");
  return *found->second.text;
}

Interning::Interning() {
  const std::lock_guard lock(mutex);
  ++table->interning;
}

Interning::~Interning() {
  const std::lock_guard lock(mutex);
  --table->interning;
  table->forget_unkept();
}

void Kept::keep(const jit::Spec& spec) {
  if (spec.op != tag_kernel) return;
  {
    const std::lock_guard lock(mutex_);
    if (!numbers_.insert(spec.words[0]).second) return;
  }
  const std::lock_guard lock(mutex);
  const auto found = table->known.find(spec.words[0]);
  if (found == table->known.end()) return;
  ++found->second.keepers;
  table->unkept.erase(spec.words[0]);
}

Kept::~Kept() {
  const std::lock_guard lock(mutex);
  for (const std::uint32_t number : numbers_) {
    const auto found = table->known.find(number);
    if (found == table->known.end() || --found->second.keepers != 0) continue;
    try {
      table->unkept.insert(number);
    } catch (...) {
      // No memory to remember that it may go: it stays.
    }
  }
  table->forget_unkept();
}

std::size_t known_texts() {
  const std::lock_guard lock(mutex);
  return table->known.size();
}

}  // namespace quern::ops::kernel
