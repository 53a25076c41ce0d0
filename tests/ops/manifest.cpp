// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/manifest.h"

#include <gtest/gtest.h>

#include <sstream>

namespace quern::test {

std::vector<Warmed> warm(quern_context* context, const std::vector<std::string>& targets, const std::string& manifest,
                         const quern_model* model, std::uint32_t flags) {
  std::vector<const char*> names;
  for (const std::string& target : targets) names.push_back(target.c_str());
  auto options = sized<quern_warm_options>();
  options.flags = flags;
  options.targets = names.data();
  options.target_count = names.size();
  options.manifest = manifest.empty() ? nullptr : manifest.data();
  options.manifest_length = manifest.size();
  options.model = model;
  auto error = sized<quern_error>();
  quern_list* list = nullptr;
  const int status = quern_warm(context, &options, &list, &error);
  EXPECT_TRUE(status == QUERN_OK || status == QUERN_PARTIAL) << error.text;
  const List results(list);
  std::vector<Warmed> warmed;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto r = sized<quern_warm_result>();
    EXPECT_EQ(quern_list_warm_result(list, i, &r), QUERN_OK);
    warmed.push_back({r.outcome, r.op, r.target, r.key, r.spec, r.text, r.milliseconds});
  }
  return warmed;
}

std::set<std::string> listed_by_warm(quern_context* context, const quern_model& model) {
  std::set<std::string> lines;
  for (const Warmed& w : warm(context, {}, "", &model, QUERN_WARM_LIST_ONLY)) {
    if (w.outcome == QUERN_WARM_UNSERVED) continue;  // a need that no op here serves is no kernel
    EXPECT_EQ(w.text, "");
    lines.insert(w.op + " " + w.target + " " + w.spec);
  }
  return lines;
}

std::vector<std::string> manifest_of(const quern_context* context) {
  std::uint64_t length = 0;
  EXPECT_EQ(quern_manifest(context, nullptr, &length, nullptr), QUERN_OK);
  std::string text(length + 1, '?');
  std::uint64_t size = text.size();
  EXPECT_EQ(quern_manifest(context, text.data(), &size, nullptr), QUERN_OK);
  text.resize(length);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace quern::test
