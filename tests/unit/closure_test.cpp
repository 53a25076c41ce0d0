// Nothing outside a kernel's own texts gets into it: every spelling that reaches for a file, through the renderer and
// every compiler that this machine has.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "jit/backend.h"
#include "jit/helper/sandbox.h"
#include "jit/unit.h"
#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

// A folder with a file that would define VALUE, and that is the working directory meanwhile.
class Closure : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern-closure-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    side_ = folder_ / "side.h";
    std::ofstream(side_) << "#define VALUE 7\n";
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  // SIDE is replaced by the side file's absolute path.
  std::string with_path(std::string text) const {
    for (std::size_t at; (at = text.find("SIDE")) != std::string::npos;) text.replace(at, 4, side_);
    return text;
  }

  static Unit unit_of(std::string_view source, const char* target) {
    Unit unit;
    unit.op = "test";
    unit.target = Target::parse(target);
    unit.entry = "k";
    unit.source = {"k.cuh", source};
    return unit;
  }

  static std::string kernel_for(const char* target) { return target == std::string("host") ? kHostKernel : kGpuKernel; }

  // What becomes of the source: "" when it is refused, before or by the compiler.
  static std::string image_of(const std::string& source, const char* target, std::string* why = nullptr) {
    Compilers compilers{CompilerOptions{}};
    try {
      return compilers.compile({Target::parse(target), render(unit_of(source, target)).text, "k", {}}).image;
    } catch (const Error& error) {
      EXPECT_TRUE(error.status() == QUERN_INVALID || error.status() == QUERN_COMPILE) << error.text();
      if (why != nullptr) *why = error.text();
      return {};
    }
  }

  std::filesystem::path folder_, before_;
  std::string side_;
};

const char* const kReaching[] = {
    "#include \"side.h\"\n",
    "#include \"SIDE\"\n",
    "#include <SIDE>\n",
    "  #\tinclude <SIDE>\n",
    "/**/ # /**/ include /**/ <SIDE>\n",
    "#include_next \"SIDE\"\n",
    "#import \"SIDE\"\n",
    "%:include <SIDE>\n",
    "?\?=include <SIDE>\n",
    "#inc\\\nlude <SIDE>\n",
    "#inc\\\r\nlude <SIDE>\n",
    "#inc\\ \nlude <SIDE>\n",
    "// comment \\ \n#include <SIDE>\n",
    "// comment \r#include <SIDE>\n",
    "// comment ?\?/\n#include <SIDE>\n",
    "/* *\\\n/ #include <SIDE>\n",
    "/* *\\\n/\n#include <SIDE>\n",
    "#define X \"SIDE\"\n#include X\n",
    "#define X \"side.h\"\n#include X\n",
    "#define X <SIDE>\n#include X\n",
    "#define S(x) #x\n#include S(SIDE)\n",
    "\xef\xbb\xbf#include <SIDE>\n",
    "\xc2\xa0#include <SIDE>\n",
    "const char* a = R\"(\n)\";\n#include <SIDE>\n",
    "#define a$R \nconst char* b = a$R\"(\";\n#include <SIDE>\nconst char* c = \")\";\n",
    "int d = 1.R\"(\";\n#include <SIDE>\nint e = \")\";\n",
    "#if 0\nR\"(\n#endif\n#include <SIDE>\n#if 0\n)\"\n#endif\n",
    "#if 0\n'/*\n#endif\n#include <SIDE>\n#if 0\n*/\n#endif\n",
    "#embed \"SIDE\"\n",
    "const unsigned char bytes[] = {\n#embed <SIDE>\n};\n",
    "#if __has_include(<SIDE>)\n#else\n#error no\n#endif\n",
    "#if __has_include(\"side.h\")\n#else\n#error no\n#endif\n",
    "#define P(a, b) a##b\n#if P(__has_, include)(<SIDE>)\n#else\n#error no\n#endif\n",
    "#define P(a, b) a##b\n#define Q(f) f(__has_, include)(<SIDE>)\n#if 0\n#elif Q(P)\n#else\n#error no\n#endif\n",
    "#if __has_embed(\"SIDE\")\n#else\n#error no\n#endif\n",
    "#pragma GCC pch_preprocess \"SIDE\"\n",
    "#pragma GCC dependency \"SIDE\"\n",
    "#pragma include_alias(\"a.h\", \"SIDE\")\n",
    "#if 1\n#elif 0\n#include <SIDE>\n#endif\n#include <SIDE>\n",
    "const char* date = __DATE__;\n",
    "const char* at = __TIME__ __TIMESTAMP__;\n",
    "import \"side.h\";\n",
    "import <SIDE>;\n",
    "export import <SIDE>;\n",
    "module;\n#include <SIDE>\n",
    "#\\u0069nclude <SIDE>\n",
    "#define \\u0058 <SIDE>\n#include \\u0058\n",
    "#if __has_\\u0069nclude(<SIDE>)\n#else\n#error no\n#endif\n",
    "_Pragma(\"include_alias(<a.h>, <SIDE>)\")\n#include <a.h>\n",
    "_Pragma(\"GCC pch_preprocess \\\"SIDE\\\"\")\n#include <SIDE>\n",
};

TEST_F(Closure, NoSpellingReachesAFile) {
  for (const char* target : {"host", "sm_80", "gfx90a"}) {
    const std::string plain = image_of(kernel_for(target), target);
    ASSERT_NE(plain, "") << target << " cannot be compiled for here";
    for (const char* spelling : kReaching) {
      std::string why;
      EXPECT_EQ(image_of(with_path(spelling) + kernel_for(target), target, &why), "") << target << ":\n" << spelling;
      EXPECT_EQ(why.find("catastrophic error: could not open"), std::string::npos)
          << "only its place saved it: " << why;
    }
  }
}

// Assemblers have directives of their own, which no scanner of C++ finds where the text is put together.
TEST_F(Closure, NoAssemblerDirectiveReachesAFile) {
  const char* const host[] = {"asm(\".inc\" \"bin \\\"SIDE\\\"\");\n", "asm(\".include \\\"SIDE\\\"\");\n",
                              "asm(\".macro m a, b\\n.\\\\a\\\\b \\\"SIDE\\\"\\n.endm\\nm inc bin\");\n"};
  for (const char* text : host) EXPECT_EQ(image_of(with_path(text) + kHostKernel, "host"), "") << text;
  const std::string gpu = "extern \"C\" __global__ void k() { asm volatile(\".inc\" \"bin \\\"SIDE\\\"\"); }\n";
  for (const char* target : {"sm_80", "gfx90a"}) EXPECT_EQ(image_of(with_path(gpu), target), "") << target;
}

// The same without the sandbox, as on a kernel that has none: the compiler's own lists of what it has read.
TEST_F(Closure, WithoutASandboxTheListsOfFilesReadRemain) {
  ASSERT_EQ(setenv("TMPDIR", folder_.c_str(), 1), 0);  // as the helper has it
  const std::unique_ptr<Backend> compiler = open_cxx("", folder_);
  EXPECT_NE(compiler->compile({Target::parse("host"), kHostKernel, "k", {}}).image, "");
  for (const char* text :
       {"#include \"SIDE\"\n", "#define X <SIDE>\n#include X\n", "asm(\".incbin \\\"SIDE\\\"\");\n"}) {
    const Error error =
        error_of([&] { compiler->compile({Target::parse("host"), with_path(text) + kHostKernel, "k", {}}); });
    EXPECT_EQ(error.status(), QUERN_COMPILE) << text;
    EXPECT_TRUE(contains(error.text(), "it reads " + side_)) << error.text();
  }
  unsetenv("TMPDIR");
}

// Runs `ask` in a process in which, and in whose children, the kernel offers no Landlock. What it returns comes back.
std::string without_landlock(const std::function<std::string()>& ask) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 444, 0, 2),  // the three system calls of Landlock
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 446, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{sizeof(program) / sizeof(*program), program};
    std::string said = "no filter of system calls can be set here";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0)
      said = helper::landlock_version() == 0 ? ask() : "Landlock is there all the same";
    for (std::size_t at = 0; at < said.size();) {
      const ssize_t some = write(ends[1], said.data() + at, said.size() - at);
      if (some <= 0) break;
      at += static_cast<std::size_t>(some);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return said;
}

// hipRTC's assembler tells nobody what it reads: no spelling of assembly gets there, and what has none is compiled.
TEST_F(Closure, WithoutASandboxHipRtcIsGivenNoAssembly) {
  const auto outcome = [&](const std::string& source) {
    return without_landlock([&] {
      std::string why;
      const std::string image = image_of(source, "gfx90a", &why);
      return image.empty() ? "refused: " + why : std::string("compiled");
    });
  };
  EXPECT_EQ(outcome(kGpuKernel), "compiled");
  const std::string inside = "(\".inc\" \"bin \\\"SIDE\\\"\");";
  const struct {
    std::string before, word;
  } spellings[] = {
      {"", "asm volatile"},
      {"", "__asm__"},
      {"", "__asm"},
      {"", "a\\\nsm"},
      {"#define P(a, b) a##b\n", "P(a, sm)"},
      {"#define P(a, b) a##b\n#define Q(f) f(__as, m__)\n", "Q(P) volatile"},
      {"#undef asm\n", "asm"},
      {"# /**/ undef /**/ __asm__\n", "__asm__"},
      {"#un\\\ndef asm\n", "asm"},
      {"%:undef asm\n", "asm"},
      {"#define asm asm\n", "asm"},
      {"#define word asm\n", "word"},
      {"#pragma push_macro(\"asm\")\n#pragma pop_macro(\"asm\")\n#pragma pop_macro(\"asm\")\n", "asm"},
      {"_Pragma(\"pop_macro(\\\"asm\\\")\")\n", "asm"},
      {"", "\\u0061sm"},
      {"#undef \\u0061sm\n", "asm"},
  };
  for (const auto& [before, word] : spellings) {
    const std::string statement = before + "extern \"C\" __global__ void k() { " + word + inside + " }\n";
    EXPECT_TRUE(outcome(with_path(statement)).starts_with("refused: ")) << statement;
    const std::string declaration = before + word + inside + '\n' + kGpuKernel;
    EXPECT_TRUE(outcome(with_path(declaration)).starts_with("refused: ")) << declaration;
  }
  for (const char* text : {"asm(\"s_nop 0\");", "a\\\nsm(\"s_nop 0\");"}) {
    const std::string said = outcome("extern \"C\" __global__ void k() { " + std::string(text) + " }\n");
    EXPECT_TRUE(contains(said, "inline assembly is refused where the compiler cannot be shut in")) << said;
  }
  const std::string said = outcome("#undef asm\n" + std::string(kGpuKernel));
  EXPECT_TRUE(contains(said, "undefines 'asm'")) << said;
}

// What is refused there is not where there is a sandbox.
TEST_F(Closure, AssemblyOfAGpuIsCompiledInTheSandbox) {
  if (helper::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_NE(image_of("extern \"C\" __global__ void k() { asm volatile(\"s_nop 0\"); }\n", "gfx90a"), "");
}

// A compiler that is turned against the machine finds nothing there: neither the caller's files nor a place to write.
TEST_F(Closure, ACompilerInTheHelperIsShutIn) {
  if (helper::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string script = folder_ / "compiler";
  std::ofstream(script) << "#!/bin/sh\n"
                           "if [ \"$1\" = --version ]; then echo fake 1; exit 0; fi\n"
                           "cat '"
                        << side_
                        << "' >&2 && echo READ >&2\n"
                           "echo x > '"
                        << side_
                        << ".new' && echo WRITTEN >&2\n"
                           "cat /etc/passwd > /dev/null && echo PASSWD >&2\n"
                           "echo x > own && echo OWN >&2\n"
                           "exit 1\n";
  ASSERT_EQ(chmod(script.c_str(), 0755), 0);
  CompilerOptions options;
  options.host_compiler = script;
  Compilers compilers(options);
  const Error error = error_of([&] { compilers.compile(job_for("host", kHostKernel)); });
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "OWN")) << error.text();
  for (const char* reached : {"READ", "VALUE", "WRITTEN", "PASSWD"})
    EXPECT_FALSE(contains(error.text(), reached)) << error.text();
  EXPECT_FALSE(std::filesystem::exists(side_ + ".new"));
}

// What plain CUDA C++ has for other compilers stays harmless in branches that are not compiled.
TEST_F(Closure, WhatIsNotCompiledDoesNoHarm) {
  const std::string guarded =
      "#ifndef __CUDACC_RTC__\n#ifdef NEVER\n#include <cstdint>\n#include <cuda_fp16.h>\n#endif\n#endif\n"
      "#if defined(__has_include)\n#if __has_include(<cuda_bf16.h>)\n#include <cuda_bf16.h>\n#endif\n#endif\n"
      "#if defined(__has_include) && __has_include(<cstdint>)\n#include <cstdint>\n#endif\n";
  for (const char* target : {"host", "sm_80", "gfx90a"})
    EXPECT_NE(image_of(guarded + kernel_for(target), target), "") << target;
}

TEST_F(Closure, AHeaderIsFoundByBothSpellings) {
  Unit unit = unit_of("#include <a.h>\n#include \"a.h\"\n", "host");
  unit.headers = {{"a.h", "#pragma once\nint a;\n"}};
  const Rendered rendered = render(unit);
  EXPECT_EQ(rendered.used.size(), 2u);
  EXPECT_EQ(rendered.text.find("#include"), std::string::npos) << rendered.text;
}

TEST_F(Closure, ConstantsAreTextsToo) {
  for (const char* value : {"__has_include(</etc/passwd>)", "__DATE__"}) {
    Unit unit = unit_of("#if X\n#error reached\n#endif\nint k;\n", "host");
    unit.constants = {{"X", value}};
    try {
      EXPECT_EQ(render(unit).text.find("__has_include"), std::string::npos);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), QUERN_INVALID);
    }
  }
}

}  // namespace
}  // namespace quern::jit
