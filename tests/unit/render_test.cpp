// Putting a source and its headers together.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/error.h"
#include "jit/unit.h"

namespace quern::jit {
namespace {

Unit unit_of(std::string_view source, std::vector<File> headers = {}) {
  Unit unit;
  unit.op = "test";
  unit.target = Target::parse("sm_80");
  unit.entry = "k";
  unit.source = {"dir/k.cuh", source};
  unit.headers = std::move(headers);
  return unit;
}

std::string used_names(const Rendered& rendered) {
  std::string names;
  for (const File& file : rendered.used) names += (names.empty() ? "" : " ") + std::string(file.name);
  return names;
}

std::string error_of(const Unit& unit) {
  try {
    render(unit);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), QUERN_INVALID);
    return error.text();
  }
  ADD_FAILURE() << "rendered without an error";
  return {};
}

TEST(Render, ConstantsThenSource) {
  Unit unit = unit_of("int x;");
  unit.constants = {{"HEAD_DIM", "128"}, {"TWO_LINES", "a +\nb"}};
  const Rendered rendered = render(unit);
  EXPECT_EQ(rendered.text,
            "#line 1 \"constants\"\n#define HEAD_DIM 128\n#define TWO_LINES a +\\\nb\n#line 1 \"dir/k.cuh\"\nint x;\n");
  EXPECT_EQ(used_names(rendered), "dir/k.cuh");
}

TEST(Render, IncludesAreReplacedAndLinesKept) {
  const Rendered rendered =
      render(unit_of("// first\n#include \"a.cuh\"\nint x;\n", {{"unused.cuh", "int u;"}, {"a.cuh", "int a;\n"}}));
  EXPECT_EQ(rendered.text,
            "#line 1 \"dir/k.cuh\"\n// first\n#line 1 \"a.cuh\"\nint a;\n#line 3 \"dir/k.cuh\"\nint x;\n");
  EXPECT_EQ(used_names(rendered), "dir/k.cuh a.cuh");
}

TEST(Render, PragmaOnceAndNesting) {
  const std::vector<File> headers = {{"types.cuh", "#pragma once\nint t;\n"},
                                     {"a.cuh", "#pragma once\n#include \"types.cuh\"\nint a;\n"},
                                     {"b.cuh", "#pragma once\n#include \"a.cuh\"\n#include \"types.cuh\"\nint b;\n"}};
  const Rendered rendered =
      render(unit_of("#include \"b.cuh\"\n#include \"a.cuh\"\n#include \"types.cuh\"\n", headers));
  EXPECT_EQ(rendered.text.find("pragma"), std::string::npos);
  EXPECT_EQ(rendered.text.find("int t;"), rendered.text.rfind("int t;"));
  EXPECT_EQ(rendered.text.find("int a;"), rendered.text.rfind("int a;"));
  EXPECT_EQ(used_names(rendered), "dir/k.cuh b.cuh a.cuh types.cuh");
}

TEST(Render, WithoutPragmaOnceAHeaderComesEveryTime) {
  const Rendered rendered = render(unit_of("#include \"x.inc\"\n#include \"x.inc\"\n", {{"x.inc", "X\n"}}));
  EXPECT_EQ(rendered.text,
            "#line 1 \"dir/k.cuh\"\n#line 1 \"x.inc\"\nX\n#line 2 \"dir/k.cuh\"\n#line 1 \"x.inc\"\nX\n#line 3 "
            "\"dir/k.cuh\"\n");
  EXPECT_EQ(used_names(rendered), "dir/k.cuh x.inc");
}

// The first inclusion may stand in a branch that is not compiled; the header must then still come by the second.
TEST(Render, PragmaOnceAcrossBranches) {
  const std::vector<File> headers = {{"types.cuh", "#pragma once\nint t;\n"}};
  const Rendered rendered = render(unit_of(
      "#ifdef CUDA\n#include \"types.cuh\"\n#include \"types.cuh\"\n#else\n#include \"types.cuh\"\n#endif\n", headers));
  EXPECT_EQ(rendered.text,
            "#line 1 \"dir/k.cuh\"\n#ifdef CUDA\n"
            "#define QUERN_INCLUDED_1\n#line 1 \"types.cuh\"\n\nint t;\n#line 3 \"dir/k.cuh\"\n"
            "#line 4 \"dir/k.cuh\"\n#else\n"
            "#ifndef QUERN_INCLUDED_1\n#define QUERN_INCLUDED_1\n#line 1 \"types.cuh\"\n\nint t;\n#endif\n#line 6 "
            "\"dir/k.cuh\"\n"
            "#endif\n");
}

TEST(Render, AHeaderThatIncludesItself) {
  EXPECT_EQ(used_names(render(unit_of("#include \"a\"\n", {{"a", "#pragma once\n#include \"b\"\n"},
                                                           {"b", "#pragma once\n#include \"a\"\n"}}))),
            "dir/k.cuh a b");
  EXPECT_NE(error_of(unit_of("#include \"a\"\n", {{"a", "\n#include \"a\"\n"}})).find("a:2: #include \"a\""),
            std::string::npos);
}

TEST(Render, AMissingHeaderIsNamedWithFileAndLine) {
  const std::string text = error_of(unit_of("#include \"a.cuh\"\n", {{"a.cuh", "\n\n#include \"gone.cuh\"\n"}}));
  EXPECT_NE(text.find("a.cuh:3: #include \"gone.cuh\" is not among the headers: a.cuh"), std::string::npos) << text;
  // Exactly by name: neither folders nor the including file's own place count.
  EXPECT_NE(error_of(unit_of("#include \"b.cuh\"\n", {{"dir/b.cuh", ""}})).find("dir/k.cuh:1"), std::string::npos);
}

TEST(Render, AngleBracketsThatAreNoHeaderAreAnErrorWhereTheyAreCompiled) {
  const std::string text = render(unit_of("#if 0\n#include <cstdint>\n#endif\nint x;\n")).text;
  EXPECT_EQ(text.find("\n#include"), std::string::npos) << text;
  EXPECT_NE(text.find("#error \"quern: #include <cstdint> is not among the headers"), std::string::npos) << text;
  EXPECT_NE(text.find("#line 3 \"dir/k.cuh\"\n#endif\nint x;\n"), std::string::npos) << text;
}

TEST(Render, BadInput) {
  EXPECT_NE(error_of(unit_of("#if 1\n")).find("#if and #endif"), std::string::npos);
  EXPECT_NE(error_of(unit_of("#include \"a\"\n", {{"a", "#endif\n"}})).find("a:1:"), std::string::npos);
  EXPECT_NE(error_of(unit_of(std::string_view("a\0b", 3))).find("NUL"), std::string::npos);
  Unit unit = unit_of("int x;");
  for (const char* name : {"", "1A", "A-B", "A B", "F(x)", "defined"}) {
    unit.constants = {{name, "1"}};
    EXPECT_NE(error_of(unit).find('\'' + std::string(name) + '\''), std::string::npos);
  }
  unit.constants = {{"A", "1\\"}};
  EXPECT_NE(error_of(unit).find("backslash"), std::string::npos);
  unit.constants = {{"A", "1\x01"}};
  EXPECT_NE(error_of(unit).find("control character"), std::string::npos);
}

// Kernels are entered where they begin, and nowhere else: not where the macro is defined or spoken of.
TEST(Render, TheCheckedFormEntersKernels) {
  Unit unit = unit_of(
      "#define QUERN_KERNEL(name, threads, ...) \\\n  void name(__VA_ARGS__)\n"
      "// QUERN_KERNEL(x) is how one begins\n"
      "QUERN_KERNEL(k, f(1), int (*p)(int))\n{\n  p(1);\n}\n");
  const std::string plain = render(unit).text;
  EXPECT_EQ(plain.find("QUERN_ENTER"), std::string::npos);
  unit.checked = true;
  const std::string text = render(unit).text;
  EXPECT_TRUE(text.starts_with("#define QUERN_CHECKED 1\n"));
  const std::size_t at = text.find("QUERN_ENTER");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.find("QUERN_ENTER", at + 1), std::string::npos);
  EXPECT_NE(text.find("int (*p)(int))\n{ QUERN_ENTER \n  p(1);"), std::string::npos);
}

TEST(Render, AByteOrderMarkAndAMissingLineBreakDoNoHarm) {
  const Rendered rendered = render(unit_of("#include \"a\"\nint x;", {{"a", "\xef\xbb\xbfint a;"}}));
  EXPECT_EQ(rendered.text, "#line 1 \"dir/k.cuh\"\n#line 1 \"a\"\nint a;\n#line 2 \"dir/k.cuh\"\nint x;\n");
}

}  // namespace
}  // namespace quern::jit
