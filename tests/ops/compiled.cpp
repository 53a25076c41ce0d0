// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/compiled.h"

#include <gtest/gtest.h>

#include <set>

namespace quern::test {
namespace {

std::vector<std::string>& for_every_target() {
  static std::vector<std::string> lines;
  return lines;
}

}  // namespace

ForEveryTarget::ForEveryTarget(std::initializer_list<const char*> lines) {
  for (const char* line : lines) for_every_target().emplace_back(line);
}
const std::vector<std::string>& ForEveryTarget::lines() { return for_every_target(); }

Context compiling_context() {
  return make_context([](quern_context_options& o) {
    o.device_type = 0;
    o.target = nullptr;
  });
}

bool has_compiler(quern_context* context, const std::string& target, std::string* why) {
  const std::string what = target.starts_with("gfx") ? "hiprtc" : "nvrtc";
  quern_list* list = nullptr;
  EXPECT_EQ(quern_doctor(context, &list, nullptr), QUERN_OK);
  const List findings(list);
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto finding = sized<quern_finding>();
    EXPECT_EQ(quern_list_finding(list, i, &finding), QUERN_OK);
    if (what == finding.what) {
      *why = finding.text;
      return finding.status == QUERN_OK;
    }
  }
  ADD_FAILURE() << "quern_doctor says nothing of " << what;
  return false;
}

void expect_compiled(const std::vector<Warmed>& warmed) {
  for (const Warmed& w : warmed) {
    EXPECT_TRUE(w.outcome == QUERN_WARM_HIT || w.outcome == QUERN_WARM_COMPILED)
        << w.op << " " << w.target << " " << w.spec << "\n"
        << w.text;
  }
}

void each_entry(quern_context* context, const std::string& target, const std::vector<Warmed>& warmed,
                const std::function<void(const quern_entry&)>& look) {
  std::set<std::string> keys;
  for (const Warmed& w : warmed) keys.insert(w.key);
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cache_list(context, target.c_str(), &list, &error), QUERN_OK) << error.text;
  const List entries(list);
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto entry = sized<quern_entry>();
    ASSERT_EQ(quern_list_entry(list, i, &entry), QUERN_OK);
    if (keys.count(entry.key) == 0) continue;
    ++found;
    look(entry);
  }
  EXPECT_EQ(found, keys.size());
}

std::string image_of(quern_context* context, const quern_entry& entry) {
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_cache_inspect(context, entry.key, &list, &error), QUERN_OK) << error.text;
  const List one(list);
  auto whole = sized<quern_entry>();
  EXPECT_EQ(quern_list_entry(list, 0, &whole), QUERN_OK);
  return {static_cast<const char*>(whole.image), whole.image_size};
}

std::string constants_of(const quern_entry& entry) {
  std::string constants;
  const std::string text = entry.text;
  for (std::size_t at = text.find("const "); at != std::string::npos; at = text.find("\nconst ", at + 1)) {
    const std::size_t begin = text.find("const ", at) + 6;
    std::string one = text.substr(begin, text.find('\n', begin) - begin);
    constants += ' ' + one.replace(one.find(' '), 1, "=");
  }
  return constants;
}

}  // namespace quern::test
