// What counts as a directive and what only looks like one.
// SPDX-License-Identifier: Apache-2.0
#include "jit/directives.h"

#include <gtest/gtest.h>

namespace quern::jit {
namespace {

std::vector<std::string> includes(std::string_view text) {
  std::vector<std::string> names;
  for (const Directive& directive : find_directives(text).list) {
    if (directive.kind == Directive::Kind::include)
      names.push_back(directive.name + ':' + std::to_string(directive.line));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Directives, IncludesInEverySpelling) {
  EXPECT_EQ(includes("#include \"a.h\"\n"), Names{"a.h:1"});
  EXPECT_EQ(includes("\n  #  include\t\"a b.h\"  // why\n"), Names{"a b.h:2"});
  EXPECT_EQ(includes("/* x */ #include /* y */ \"a.h\""), Names{"a.h:1"});
  EXPECT_EQ(includes("#include \\\n  \"a.h\"\nint x;\n#include \"b.h\"\n"), (Names{"a.h:1", "b.h:4"}));
  EXPECT_EQ(includes("#include \"a.h\"\r\n#include \"b.h\"\r\n"), (Names{"a.h:1", "b.h:2"}));
}

TEST(Directives, LookAlikesAreNone) {
  EXPECT_EQ(includes("// #include \"a.h\"\n"), Names{});
  EXPECT_EQ(includes("// comment \\\n#include \"a.h\"\n"), Names{});
  EXPECT_EQ(includes("/*\n#include \"a.h\"\n*/\n#include \"b.h\"\n"), Names{"b.h:4"});
  EXPECT_EQ(includes("const char* s = R\"(\n#include \"a.h\"\n)\";\n#include \"b.h\"\n"), Names{"b.h:4"});
  EXPECT_EQ(includes("auto s = u8R\"x(\n)\"\n#include \"a.h\"\n)x\";\n"), Names{});
  EXPECT_EQ(includes("const char* s = \"/*\";\n#include \"b.h\"\n"), Names{"b.h:2"});
  EXPECT_EQ(includes("int n = 1'000'000;\n#include \"b.h\"\n"), Names{"b.h:2"});
  EXPECT_EQ(includes("char c = '\"';\n#include \"b.h\"\n"), Names{"b.h:2"});
  EXPECT_EQ(includes("#if 0\ndon't\n#endif\n#include \"b.h\"\n"), Names{"b.h:4"});
  EXPECT_EQ(includes("#include <a.h>\n#include NAME\n#includes \"a.h\"\n#include \"open\n"), Names{});
  EXPECT_EQ(includes("int x; #include \"a.h\"\n"), Names{});
}

TEST(Directives, BranchesAndOnce) {
  const Directives found =
      find_directives("#pragma once\n#pragma unroll\n#ifdef A\n#elif B\n#else\n#endif\n#define X\n");
  std::vector<Directive::Kind> kinds;
  for (const Directive& directive : found.list) kinds.push_back(directive.kind);
  using Kind = Directive::Kind;
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::once, Kind::open, Kind::other_branch, Kind::other_branch, Kind::close}));
  EXPECT_TRUE(found.once);
  EXPECT_FALSE(find_directives("// #pragma once\n").once);
}

}  // namespace
}  // namespace quern::jit
