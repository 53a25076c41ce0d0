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
  EXPECT_EQ(includes("#include NAME\n#includes \"a.h\"\n#include \"open\n"), Names{});
  EXPECT_EQ(includes("int x; #include \"a.h\"\n"), Names{});
}

TEST(Directives, WhatOneSpellingIsIsAllOfThem) {
  EXPECT_EQ(includes("#include <a.h>\n%:include <b.h>\n#inc\\\nlude <c.h>\n"), (Names{"a.h:1", "b.h:2", "c.h:3"}));
  EXPECT_EQ(includes("/* *\\\n/ #include \"a.h\"\n"), Names{"a.h:1"});
  EXPECT_EQ(includes("\xef\xbb\xbf#include \"a.h\"\n"), Names{"a.h:1"});
  EXPECT_EQ(includes("int n = 1.5e+3'0.R\"(\";\n#include \"a.h\"\nx(\")\");\n"), Names{"a.h:2"});
}

std::string objection(std::string_view text) {
  const Objection objection = find_directives(text).objection;
  return objection.text.empty() ? "" : std::to_string(objection.line) + ": " + objection.text;
}

TEST(Directives, WhatCompilersReadDifferentlyIsObjectedTo) {
  for (const char* text : {"\n?\?=define A\n", "\n// x ?\?/\n", "\n#define A \\ \n", "\nint a;\rint b;\n", "\n/* open",
                           "\nauto s = R\"(open", "\nauto s = R\"a b(x)a b\";\n", "\nauto s = R\"(a\\\nb)\";\n",
                           "\ndon't /* x\n*/", "\nauto s = $R\"(\";", "\nauto t = __DATE__;\n"})
    EXPECT_TRUE(objection(text).starts_with("2: ")) << text << objection(text);
  EXPECT_NE(objection("int a;\n#define A \\\n"), "");
  for (const char* text : {"#define A \\\n  1\n", "a;\r\nb;\r\n", "// don't\n", "auto s = R\"x(\n# define\n)x\";\n",
                           "asm(\"a;\\n\" /* b */ \"c;\\n\");\n"})
    EXPECT_EQ(objection(text), "") << text;
}

TEST(Directives, LinesThatNoCompilerMaySee) {
  for (const char* text : {"#include NAME\n", "#include_next <a>\n", "#embed <a>\n", "#import <a>\n", "#unknown\n",
                           "#pragma GCC pch_preprocess \"a\"\n", "\xc2\xa0#define A\n"}) {
    const Directives found = find_directives(text);
    ASSERT_EQ(found.list.size(), 1u) << text;
    EXPECT_EQ(found.list[0].kind, Directive::Kind::refused) << text;
  }
  for (const char* text : {"#define A __VA_ARGS__\n", "#undef A\n", "#line 3 \"x\"\n", "#error x\n", "#\n",
                           "# 3 \"x\"\n", "#pragma unroll\n", "#pragma GCC diagnostic push\n", "#warning don't\n"})
    EXPECT_TRUE(find_directives(text).list.empty()) << text;
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
