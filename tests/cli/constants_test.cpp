// What a manifest's lines may say of each op stands on the op's page: lines written by hand are then the way to the
// kernels that no model's list names.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class ConstantsOfOps : public CommandTest {
 protected:
  static std::vector<std::string> ops() {
    std::vector<std::string> names;
    const std::string text = read(QUERN_OPS_DEF);
    const std::regex line("\nQUERN_OP\\((\\w+),");
    for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) names.push_back((*at)[1]);
    return names;
  }

  struct Page {
    std::vector<std::set<std::string>> rows;  // names of the table, those of a range together
    std::string lines;                        // of a manifest, as examples
  };
  static Page page(const std::string& op) {
    Page page;
    const std::string text = read(std::filesystem::path(QUERN_OPS_DEF).parent_path() / op / "README.md");
    const std::size_t begin = text.find("\n## Constants\n");
    if (begin == std::string::npos) return page;
    std::istringstream section(text.substr(begin + 1, text.find("\n## ", begin + 1) - begin - 1));
    bool fenced = false;
    for (std::string line; std::getline(section, line);) {
      if (line == "```") {
        fenced = !fenced;
      } else if (fenced) {
        page.lines += line + '\n';
      } else if (line.starts_with("| `")) {
        add_names(line.substr(0, line.find(" | ", 1)), page);
      }
    }
    return page;
  }

  // The names of the constants of each op, as the command says them of these lines.
  std::map<std::string, std::set<std::string>> said(const std::string& lines) const {
    const Json json = quern_json({"manifest", write("lines.manifest", lines), "--target", "host,sm_90a"});
    EXPECT_EQ(json["code"], 0) << json;
    return names_of(json["kernels"]);
  }
  static std::map<std::string, std::set<std::string>> names_of(const Json& kernels) {
    std::map<std::string, std::set<std::string>> found;
    const std::regex constant(" (\\w+)=");
    for (const Json& kernel : kernels) {
      const std::string text = kernel["kernel"];
      std::set<std::string>& names = found[kernel["op"]];
      for (std::sregex_iterator at(text.begin(), text.end(), constant), end; at != end; ++at) names.insert((*at)[1]);
    }
    return found;
  }

  static bool is_on(const Page& page, const std::string& name) {
    return std::any_of(page.rows.begin(), page.rows.end(), [&](const auto& row) { return row.count(name) == 1; });
  }

 private:
  // "`out`, `out1` to `out3`": one name, and a range of three.
  static void add_names(const std::string& cell, Page& page) {
    const std::regex name("`([a-z_]+)([0-9]*)([a-z_0-9]*)`(?: to `[a-z_]+([0-9]+))?");
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at) {
      const std::smatch& match = *at;
      std::set<std::string> row = {match[1].str() + match[2].str() + match[3].str()};
      if (match[4].matched) {
        for (int i = std::stoi(match[2]); i <= std::stoi(match[4]); ++i)
          row.insert(match[1].str() + std::to_string(i) + match[3].str());
      }
      page.rows.push_back(row);
    }
  }
};

TEST_F(ConstantsOfOps, StandOnTheirPages) {
  std::string all;
  std::map<std::string, Page> pages;
  for (const std::string& op : ops()) {
    pages[op] = page(op);
    EXPECT_FALSE(pages[op].rows.empty() || pages[op].lines.empty()) << op << "'s page has no constants";
    all += pages[op].lines;
  }
  EXPECT_GE(pages.size(), 34u);
  const std::map<std::string, std::set<std::string>> known = said(all);
  for (const auto& [op, page] : pages) {
    ASSERT_EQ(known.count(op), 1u) << op;
    for (const std::string& name : known.at(op)) EXPECT_TRUE(is_on(page, name)) << op << ' ' << name;
    for (const std::set<std::string>& row : page.rows) {
      const bool there =
          std::any_of(row.begin(), row.end(), [&](const std::string& name) { return known.at(op).count(name) == 1; });
      EXPECT_TRUE(there) << op << "'s page says " << *row.begin() << ", of which its lines say nothing";
    }
  }
}

TEST_F(ConstantsOfOps, OfModelsStandThereToo) {
  for (const char* model : {"llama-3-8b", "deepseek-v3", "gpt2", "gpt-oss-20b"}) {
    const Json json = quern_json({"manifest", "--config", std::string(QUERN_CLI_CONFIGS) + "/" + model + ".json",
                                  "--target", "host,sm_90a", "--allow-missing"});
    for (const auto& [op, names] : names_of(json["kernels"])) {
      const Page there = page(op);
      for (const std::string& name : names) EXPECT_TRUE(is_on(there, name)) << op << ' ' << name;
    }
  }
}

}  // namespace
}  // namespace quern::cli_tests
