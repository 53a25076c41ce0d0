// `quern verify`: reads and checks every entry of the cache and the bundles.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/command.h"
#include "bindings/cli/findings.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

class Verify : public Command {
 public:
  const char* name() const override { return "verify"; }
  const char* summary() const override { return "Check every entry of the cache and the bundles"; }
  const char* examples() const override {
    return "  quern verify\n"
           "  quern verify --bundle kernels.quern\n"
           "  quern verify || quern trim --rebuild";
  }
  void declare(Arguments&) override {}

  int run(const Session& session) override {
    const Existing existing = session.open_existing();
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_cache_verify(existing.context.get(), list.out(), &error);
    const std::vector<quern_finding> findings = list.items(quern_list_finding);
    const std::size_t wrong = show_findings(session, findings);
    check(status, error);
    session.console.note(wrong == 0 ? "no damage found" : format_count(wrong, "problem") + " found");
    return kExitOk;
  }
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<Verify>(); }

}  // namespace quern::cli
