// The manual page and the completions say what --help says.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <map>
#include <set>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

const std::vector<std::string> kCommands = {"",       "warm", "tune",   "bench",  "manifest", "list",  "inspect",
                                            "verify", "trim", "export", "import", "keys",     "stats", "doctor"};

class Documents : public CommandTest {
 protected:
  // "--cache", "-q", ... of the help of a command, of quern itself for "".
  std::set<std::string> options(const std::string& command) const {
    const std::string text =
        quern(command.empty() ? std::vector<std::string>{"--help"} : std::vector<std::string>{command, "--help"}).out;
    std::set<std::string> found;
    for (std::size_t at = text.find("\n  -"); at != std::string::npos; at = text.find("\n  -", at + 1)) {
      // "  -q,--quiet              Say nothing ..."
      const std::size_t begin = at + 3;
      std::string names = text.substr(begin, text.find_first_of(" \n", begin) - begin);
      for (std::size_t comma = names.find(','); comma != std::string::npos; comma = names.find(',')) {
        found.insert(names.substr(0, comma));
        names.erase(0, comma + 1);
      }
      found.insert(names);
    }
    EXPECT_TRUE(found.count("--help") == 1 && found.count("--json") == 1) << text;
    return found;
  }

  static std::string document(const char* name) { return read(std::filesystem::path(QUERN_CLI_SOURCES) / name); }

  // `word` in `text`, not as a part of a longer one.
  static bool has_word(const std::string& text, const std::string& word) {
    const auto inner = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if ((at == 0 || !inner(text[at - 1])) && (end == text.size() || !inner(text[end]))) return true;
    }
    return false;
  }

  // The document has every command, and every option as `form` writes it; "" need not be there.
  template <class Form>
  void expect_all(const char* name, Form form) const {
    const std::string text = document(name);
    for (const std::string& command : kCommands) {
      EXPECT_TRUE(command.empty() || has_word(text, command)) << command;
      for (const std::string& option : options(command)) {
        const std::string written = form(option);
        EXPECT_TRUE(written.empty() || has_word(text, written)) << command << ' ' << option;
      }
    }
  }
};

TEST_F(Documents, ManualHasEveryCommandAndOption) {
  std::string manual = document("quern.1");
  for (std::size_t at = manual.find("\\-"); at != std::string::npos; at = manual.find("\\-", at)) manual.erase(at, 1);
  // Font changes stand right before words.
  for (const char* font : {"\\fB", "\\fI", "\\fR", "\\fP"}) {
    for (std::size_t at = manual.find(font); at != std::string::npos; at = manual.find(font, at)) manual.erase(at, 3);
  }
  for (const std::string& command : kCommands) {
    EXPECT_TRUE(command.empty() || has(manual, "\n.SS " + command));
    for (const std::string& option : options(command))
      EXPECT_TRUE(has_word(manual, option)) << command << ' ' << option;
  }
}

TEST_F(Documents, BashCompletionHasEveryCommandAndOption) {
  // Nobody completes what is two characters long.
  expect_all("completions/quern.bash", [](const std::string& option) { return option.size() > 2 ? option : ""; });
}

TEST_F(Documents, ZshCompletionHasEveryCommandAndOption) {
  expect_all("completions/_quern", [](const std::string& option) { return option; });
}

TEST_F(Documents, FishCompletionHasEveryCommandAndOption) {
  expect_all("completions/quern.fish", [](const std::string& option) {
    return option.starts_with("--") ? "-l " + option.substr(2) : "-s " + option.substr(1);
  });
}

TEST_F(Documents, BashCompletes) {
  const auto complete = [&](const std::vector<std::string>& words) {
    std::string line = "source '" + std::string(QUERN_CLI_SOURCES) + "/completions/quern.bash'; COMP_WORDS=(";
    for (const std::string& word : words) line += " '" + word + '\'';
    line += "); COMP_CWORD=" + std::to_string(words.size() - 1) + "; _quern; echo \"${COMPREPLY[*]}\"";
    Invocation bash = invocation({});
    bash.arguments = {"bash", "--norc", "-c", line};
    const Finished finished = run(bash);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.out;
  };
  EXPECT_EQ(complete({"quern", "wa"}), "warm\n");
  EXPECT_EQ(complete({"quern", "--cache", "/tmp", "tri"}), "trim\n");
  EXPECT_EQ(complete({"quern", "trim", "--reb"}), "--rebuild\n");
  EXPECT_EQ(complete({"quern", "warm", "--target", "sm_90"}), "sm_90a\n");
  EXPECT_EQ(complete({"quern", "warm", "--target", "sm_90a,gfx94"}), "sm_90a,gfx942\n");
  EXPECT_EQ(complete({"quern", "warm", "--kv-dtype", "e"}), "e4m3 e5m2\n");
  EXPECT_EQ(complete({"quern", "warm", "--kv-dtype", "=", "i"}), "int8\n");
  EXPECT_EQ(complete({"quern", "warm", "--weights", "fp8-"}), "fp8-block\n");
  EXPECT_EQ(complete({"quern", "list", "merge"}), "merge_state merge_states\n");
  EXPECT_EQ(complete({"quern", "list", "moe"}), "moe_route moe_combine\n");
  write("a.manifest", "");
  EXPECT_EQ(complete({"quern", "warm", "a.m"}), "a.manifest\n");
}

}  // namespace
}  // namespace quern::cli_tests
