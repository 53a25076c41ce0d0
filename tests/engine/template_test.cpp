// Chat templates against what Jinja makes of them, and those that come from nobody to be trusted.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "bindings/json/json.h"

namespace quern::test {
namespace {

using engine::Template;

std::string refusal(const std::string& text, const Json& variables = Json::object()) {
  try {
    return "it gave " + Template(text).render(variables).substr(0, 100);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(Template, SaysWhatJinjaSays) {
  std::ifstream file(QUERN_TEST_DATA "/../engine/templates.json");
  const Json cases = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_EQ(cases.items().size(), 8u);
  for (const Json& each : cases.items()) {
    const std::string& text = each.at("template").string();
    EXPECT_EQ(Template(text).render(each.at("variables")), each.at("text").string()) << text;
  }
}

TEST(Template, RefusesByLineWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("a\n{% macro x() %}"), "chat template, line 2: 'macro' is not known here");
  EXPECT_EQ(refusal("{{ x | rot13 }}", Json{{"x", 1}}), "chat template, line 1: there is no filter rot13");
  EXPECT_EQ(refusal("\n\n{{ x is odd }}"), "chat template, line 3: there is no test odd");
  EXPECT_EQ(refusal("{% if x %}"), "chat template, line 1: there is no endif");
  EXPECT_EQ(refusal("{{ 'x"), "chat template, line 1: a tag has no end");
  EXPECT_EQ(refusal("{{ x.y.z }}"), "chat template, line 1: something undefined has no members");
  EXPECT_EQ(refusal("{{ raise_exception('no ' + x) }}", Json{{"x", "tools"}}),
            "chat template, line 1: it says: no tools");
  EXPECT_EQ(refusal("{{ 1 / 0 }}"), "chat template, line 1: something is divided by 0");
  EXPECT_NE(refusal("{{ [1] }}").find("join and tojson"), std::string::npos);
  EXPECT_NE(refusal("{{ 'a' + 1 }}").find("are added"), std::string::npos);
}

TEST(Template, EndsWhatWouldNotEnd) {
  const auto times = [](const std::string& inner) {
    return "{% set ns = namespace(x='xxxxxxxxxxxxxxxx', y=[]) %}{% for i in range(9999) %}" + inner + "{% endfor %}";
  };
  EXPECT_NE(refusal(times("{% set ns.x = ns.x + ns.x %}")).find("64 MiB"), std::string::npos);
  EXPECT_NE(refusal(times("{% set ns.y = ns.y + ns.y + [1] %}")).find("64 MiB"), std::string::npos);
  EXPECT_NE(refusal(times("{% set ns.y = [ns.y] %}")).find("16 deep"), std::string::npos);
  EXPECT_NE(refusal(times("{% for j in range(9999) %}{% endfor %}{% set a = i %}")).find("steps"), std::string::npos);
  EXPECT_NE(refusal(times(std::string(10000, 'x'))).find("16 MiB"), std::string::npos);
  EXPECT_NE(refusal("{{ range(100000) }}").find("10000"), std::string::npos);
  EXPECT_NE(refusal("{{ " + std::string(100000, '(') + " }}").find("64 deep"), std::string::npos);
  std::string sum = "{{ 1", blocks;
  for (int i = 0; i < 100000; ++i) sum += "+1", blocks += "{% if 1 %}";
  EXPECT_NE(refusal(sum + " }}").find("2000 operations"), std::string::npos);
  EXPECT_NE(refusal(blocks).find("64 deep"), std::string::npos);
}

// Any beginning of a template, and any with a byte changed, says something or is refused.
TEST(Template, TakesAnyText) {
  std::ifstream file(QUERN_TEST_DATA "/../engine/templates.json");
  const Json cases = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  const Json& last = cases.items().back();
  const std::string& text = last.at("template").string();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = "{}%-'x.\n"[i % 8];
    EXPECT_FALSE(refusal(changed, last.at("variables")).empty());
    EXPECT_FALSE(refusal(text.substr(0, i), last.at("variables")).empty());
  }
}

}  // namespace
}  // namespace quern::test
