// `quern doctor`: what is here, what is missing and what to do about it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "bindings/cli/command.h"
#include "bindings/cli/findings.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

class Doctor : public Command {
 public:
  const char* name() const override { return "doctor"; }
  const char* summary() const override {
    return "Say which drivers, devices, compilers and caches are here, and what is missing";
  }
  const char* examples() const override {
    return "  quern doctor\n"
           "  quern doctor --search-dir venv/lib/python3.11/site-packages/nvidia/cu13/lib";
  }
  void declare(Arguments&) override {}

  int run(const Session& session) override {
    const Context context = session.open();
    List list;
    auto error = sized<quern_error>();
    check(quern_doctor(context.get(), list.out(), &error), error);
    const std::vector<quern_finding> findings = list.items(quern_list_finding);
    session.result["version"] = quern_version();
    session.result["abi"] = quern_abi_version();
    const std::size_t wrong = show_findings(session, findings);
    if (wrong != 0) session.console.note(format_count(wrong, "finding") + " to look at");
    const auto damaged = std::find_if(findings.begin(), findings.end(),
                                      [](const quern_finding& finding) { return finding.status == QUERN_DAMAGED; });
    // What is missing may well be meant to be; damage never is.
    if (damaged != findings.end()) throw Failure(QUERN_DAMAGED, std::string(damaged->what) + ": " + damaged->text);
    return kExitOk;
  }
};

}  // namespace

std::unique_ptr<Command> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace quern::cli
