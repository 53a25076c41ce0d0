// Chat templates against what Jinja makes of them, and those that come from nobody to be trusted.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

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
  ASSERT_EQ(cases.items().size(), 23u);
  for (const Json& each : cases.items()) {
    const std::string& text = each.at("template").string();
    EXPECT_EQ(Template(text).render(each.at("variables")), each.at("text").string()) << text;
  }
}

TEST(Template, RefusesByLineWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("a\n{% call x() %}"), "chat template, line 2: 'call' is not known here");
  EXPECT_EQ(refusal("{{ x | rot13 }}", Json{{"x", 1}}), "chat template, line 1: there is no filter rot13");
  EXPECT_EQ(refusal("\n\n{{ x is perfect }}"), "chat template, line 3: there is no test perfect");
  EXPECT_EQ(refusal("{% if x %}"), "chat template, line 1: there is no endif");
  EXPECT_EQ(refusal("{{ 'x"), "chat template, line 1: a tag has no end");
  EXPECT_EQ(refusal("{{ x.y.z }}"), "chat template, line 1: something undefined has no members");
  EXPECT_EQ(refusal("{{ raise_exception('no ' + x) }}", Json{{"x", "tools"}}),
            "chat template, line 1: it says: no tools");
  EXPECT_EQ(refusal("{{ 1 / 0 }}"), "chat template, line 1: something is divided by 0");
  EXPECT_NE(refusal("{{ [1] }}").find("join and tojson"), std::string::npos);
  EXPECT_NE(refusal("{{ 'a' + 1 }}").find("are added"), std::string::npos);
  EXPECT_EQ(refusal("{% macro f(a) %}{% endmacro %}\n{{ f(1, 2) }}"),
            "chat template, line 2: the macro f takes 1 arguments");
  EXPECT_EQ(refusal("{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}"),
            "chat template, line 1: the macro f has no parameter a left");
  EXPECT_EQ(refusal("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}"),
            "chat template, line 1: the macro f has no parameter b left");
  EXPECT_EQ(refusal("{% macro f() %}{{ x.y }}{% endmacro %}{% for x in [{'y': 1}] %}{{ f() }}{% endfor %}"),
            "chat template, line 1: something undefined has no members");
  EXPECT_EQ(refusal("{% macro f(a) %}"), "chat template, line 1: there is no endmacro");
  EXPECT_EQ(refusal("{% set a %}x"), "chat template, line 1: there is no endset");
  EXPECT_EQ(refusal("{% if true %}{% break %}{% endif %}"), "chat template, line 1: break is in no for");
  EXPECT_EQ(refusal("{% for a in [1] %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}"),
            "chat template, line 1: continue is in no for");
  EXPECT_EQ(refusal("{{ [1] | select('near') | list }}"), "chat template, line 1: there is no test near");
  EXPECT_EQ(refusal("{{ [1] | select('eq') | list }}"), "chat template, line 1: the test eq takes 1 arguments");
  EXPECT_EQ(refusal("{{ 1 is divisibleby() }}"), "chat template, line 1: the test divisibleby takes 1 arguments");
  EXPECT_EQ(refusal("{{ [1] | map('rot13') | list }}"), "chat template, line 1: there is no filter rot13");
  EXPECT_EQ(refusal("{{ 1 | tojson(sort_keys=true) }}"),
            "chat template, line 1: tojson is given sort_keys; allowed: indent, and ensure_ascii as false");
  EXPECT_EQ(refusal("{{ 1 | round(99) }}"), "chat template, line 1: round's precision is 99; allowed: 0 to 15");
  EXPECT_EQ(refusal("{{ '\\u12' }}"), "chat template, line 1: a character's number in a text has not 4 digits");
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
  // A macro that calls itself, plainly and within as much as an expression may have.
  const auto macro = [](const std::string& before, const std::string& behind) {
    return "{% macro f() %}{{ " + before + "f()" + behind + " }}{% endmacro %}{{ f() }}";
  };
  std::string joins;
  for (int i = 0; i < 300; ++i) joins += "~1";
  EXPECT_NE(refusal(macro("", "")).find("macros call each other"), std::string::npos);
  EXPECT_NE(refusal(macro("", joins)).find("macros call each other"), std::string::npos);
  EXPECT_NE(refusal(macro(std::string(60, '('), joins + std::string(60, ')'))).find("macros call each other"),
            std::string::npos);
  EXPECT_NE(refusal("{% macro f(n) %}{{ f(n) ~ f(n) if n > 0 }}{% endmacro %}{{ f(1) }}").find("macros call"),
            std::string::npos);
  EXPECT_NE(refusal(times("{% set a = 'x' * 100000000 %}")).find("64 MiB"), std::string::npos);
  EXPECT_NE(refusal(times("{% set ns.y = (ns.y + ns.y + [1]) | map('string') | list %}")).find("64 MiB"),
            std::string::npos);
  EXPECT_NE(refusal("{% set ns = namespace(y=range(9999)) %}{{ ns.y | unique | length }}").find("4096"),
            std::string::npos);
  EXPECT_NE(refusal(times("{% set a = range(9999) | select | list %}")).find("64 MiB"), std::string::npos);
}

// Any beginning of a template, and any with a byte changed, says something or is refused.
TEST(Template, TakesAnyText) {
  std::ifstream file(QUERN_TEST_DATA "/../engine/templates.json");
  const Json cases = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  std::string before;
  for (const Json& each : cases.items()) {
    const std::string& text = each.at("template").string();
    if (std::exchange(before, text) == text) continue;
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string changed = text;
      changed[i] = "{}%-'x.\n"[i % 8];
      EXPECT_FALSE(refusal(changed, each.at("variables")).empty());
      EXPECT_FALSE(refusal(text.substr(0, i), each.at("variables")).empty());
    }
  }
}

}  // namespace
}  // namespace quern::test
