// What is different on a terminal: the progress bar, colours, widths.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class TerminalTest : public CommandTest {
 protected:
  std::string on_terminal(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment = {},
                          unsigned short columns = 100) const {
    Invocation invoked = invocation(arguments);
    for (const auto& [name, value] : environment) invoked.environment[name] = value;
    const Finished finished = run_on_terminal(invoked, columns);
    EXPECT_EQ(finished.code, 0) << finished.out;
    return finished.out;
  }
};

constexpr const char* kErase = "\r\033[K";

TEST_F(TerminalTest, ProgressBar) {
  const std::string text = on_terminal({"warm", host_kernels(3)});
  EXPECT_TRUE(has(text, "[------------------------] "));
  EXPECT_TRUE(has(text, "[########----------------] 1/3 "));
  EXPECT_TRUE(has(text, "[################--------] 2/3 "));
  EXPECT_TRUE(has(text, "[########################] 3/3 "));
  // It is gone before the result is shown.
  const std::size_t table = text.find("KERNELS");
  ASSERT_NE(table, std::string::npos) << text;
  EXPECT_EQ(text.find("[#", table), std::string::npos) << text;
  EXPECT_GE(occurrences(text, kErase), 4) << text;
}

TEST_F(TerminalTest, HowLongItStillTakes) {
  const std::string text = on_terminal({"warm", host_kernels(8), "--jobs", "1"});
  EXPECT_TRUE(has(text, ", about "));
  EXPECT_TRUE(has(text, " s to go"));
}

TEST_F(TerminalTest, NoBarWhereNobodyLooks) {
  const std::string manifest = host_kernels(1);
  EXPECT_FALSE(has(quern({"warm", manifest}).err, "\r"));
  EXPECT_FALSE(has(on_terminal({"warm", manifest, "--quiet"}), "[#"));
  EXPECT_FALSE(has(on_terminal({"warm", manifest}, {{"TERM", "dumb"}}), "\033"));
}

TEST_F(TerminalTest, LinesStandAboveTheBar) {
  const std::string text = on_terminal({"warm", host_kernels(2), "--verbose"});
  EXPECT_TRUE(has(text, std::string(kErase) + "[1/2] compiled kernel host "));
  EXPECT_TRUE(has(text, std::string(kErase) + "[2/2] compiled kernel host "));
}

TEST_F(TerminalTest, Colours) {
  ASSERT_EQ(quern({"warm", host_kernels(1)}).code, 0);
  EXPECT_TRUE(has(on_terminal({"list"}), "\033[1mKEY"));
  EXPECT_TRUE(has(on_terminal({"verify"}), "\033[32mok"));
  EXPECT_FALSE(has(on_terminal({"list"}, {{"NO_COLOR", "1"}}), "\033["));
  EXPECT_FALSE(has(on_terminal({"list", "--no-color"}), "\033["));
  EXPECT_FALSE(has(on_terminal({"list"}, {{"TERM", "dumb"}}), "\033["));
  EXPECT_FALSE(has(quern({"list"}).out, "\033"));
}

TEST_F(TerminalTest, JsonIsPlain) {
  ASSERT_EQ(quern({"warm", host_kernels(1)}).code, 0);
  const std::string text = on_terminal({"list", "--json", "--quiet"});
  EXPECT_FALSE(has(text, "\033"));
  EXPECT_EQ(Json::parse(text)["entries"].size(), 1U);
}

TEST_F(TerminalTest, TablesFitTheirTerminal) {
  std::string text = "kernel host entry=scale source=@scale.cu header=@factor.cuh define.FACTOR=1";
  for (int i = 0; i < 12; ++i) text += " define.SOMETHING_LONG_" + std::to_string(i) + "=1234567890";
  host_kernels(0);
  ASSERT_EQ(quern({"warm", write("long.manifest", text + '\n')}).code, 0);
  const std::string listed = on_terminal({"list", "--quiet", "--no-color"}, {}, 110);
  for (std::size_t at = 0; at < listed.size(); at = listed.find('\n', at) + 1) {
    EXPECT_LE(listed.find('\r', at) - at, 110U) << listed;
  }
  EXPECT_TRUE(has(listed, "...\r\n"));
  EXPECT_TRUE(has(quern({"list"}).out, "SOMETHING_LONG_11=1234567890\n")) << "cut where there is no terminal";
  const std::string bar = on_terminal({"warm", folder() / "long.manifest"}, {}, 30);
  EXPECT_TRUE(has(bar, "[#######] 1/1  "));
}

TEST_F(TerminalTest, DoctorWraps) {
  const std::string text = on_terminal({"doctor", "--no-color", "--quiet"}, {}, 60);
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\r', at) - at);
    if (line.size() <= 60) continue;
    // Only a word that has no room anywhere, such as a path, is longer.
    EXPECT_EQ(line.find(' ', 22), std::string::npos) << line;
  }
  EXPECT_TRUE(has(text, "\r\n                      "));
}

TEST_F(TerminalTest, NamesCannotSteerTheTerminal) {
  const std::string text = on_terminal({"warm", host_kernels(1), "--quiet", "--no-color"});
  EXPECT_FALSE(has(text, "\033"));
  Invocation evil =
      invocation({"warm", write("evil.manifest", "\033]0;title\007 host A=1\n"), "--no-color", "--quiet"});
  const Finished finished = run_on_terminal(evil, 100);
  EXPECT_EQ(finished.code, 1);
  EXPECT_FALSE(has(finished.out, "\033")) << finished.out;
  EXPECT_TRUE(has(finished.out, "\\x1b]0;title"));
}

}  // namespace
}  // namespace quern::cli_tests
