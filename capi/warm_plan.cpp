// From a manifest and a model to the specialisations they ask for.
// SPDX-License-Identifier: Apache-2.0
#include "capi/warm_plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "capi/abi.h"
#include "capi/requests.h"
#include "sources/index_check/index_check.h"
#include "sources/manifest.h"
#include "sources/needs.h"
#include "sources/op.h"

namespace quern::capi {
namespace {

constexpr std::uint64_t kMostTargets = 256;

struct HashSpec {
  std::size_t operator()(const jit::Spec& spec) const noexcept {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&spec), sizeof(spec)});
  }
};

class Plan {
 public:
  void add(const jit::Spec& spec, std::uint32_t line) {
    if (!seen_.insert(spec).second) return;
    WarmItem item;
    item.spec = spec;
    item.row.line = line;
    item.row.op = ops::all()[spec.op].name;
    item.row.target = jit::Target::from_tag(spec.target).name();
    item.row.spec = ops::constants_text(spec);
    items_.push_back(std::move(item));
  }
  void add_failure(const Error& failure, std::uint32_t line, std::string op, std::string target) {
    WarmItem item;
    item.row.status = failure.status();
    item.row.line = line;
    item.row.op = std::move(op);
    item.row.target = std::move(target);
    item.row.text = text_of_failure(failure.text(), line);
    items_.push_back(std::move(item));
  }
  void add_unserved(ops::Unserved need, std::string target) {
    WarmItem item;
    item.row.outcome = QUERN_WARM_UNSERVED;
    item.row.status = QUERN_UNSUPPORTED;
    item.row.op = std::move(need.need);
    item.row.target = std::move(target);
    item.row.text = std::move(need.text);
    items_.push_back(std::move(item));
  }
  void add_index_checks() {
    std::vector<jit::Spec> walks;
    for (const WarmItem& item : items_)
      if (item.spec) walks.push_back(ops::index_check::spec_for(jit::Target::from_tag(item.spec->target)));
    for (const jit::Spec& spec : walks) add(spec, 0);
  }
  std::vector<WarmItem> take() { return std::move(items_); }

 private:
  std::vector<WarmItem> items_;
  std::unordered_set<jit::Spec, HashSpec> seen_;
};

void add_line(std::string_view text, std::uint32_t number, const std::vector<jit::Target>& targets, Plan* plan) {
  std::optional<ops::ManifestLine> line;
  try {
    line = ops::parse_line(text);
  } catch (const Error& failure) {
    plan->add_failure(failure, number, "", "");
    return;
  }
  if (!line) return;
  const std::vector<jit::Target> wanted = line->target ? std::vector{*line->target} : targets;
  if (wanted.empty()) {
    plan->add_failure({QUERN_INVALID, "target '*' stands for the targets of the call, and none was given"}, number,
                      line->op->name, "*");
  }
  for (const jit::Target target : wanted) {
    try {
      plan->add(ops::to_spec(*line, target), number);
    } catch (const Error& failure) {
      plan->add_failure(failure, number, line->op->name, target.name());
    }
  }
}

void add_model(const quern_model& model, const std::vector<jit::Target>& targets, Plan* plan) {
  check_model(model);
  if (targets.empty()) {
    throw Error(QUERN_INVALID, "targets: none is given with a model, and the context has none of its own");
  }
  for (const jit::Target target : targets) {
    std::vector<bool> listed;
    for (const ops::Op& op : ops::all()) {
      listed.push_back(false);
      std::vector<jit::Spec> specs;
      try {
        op.list(model, jit::limits_of(target), &specs);
      } catch (const Error& failure) {
        plan->add_failure(failure, 0, op.name, target.name());
        continue;
      }
      listed.back() = !specs.empty();
      for (const jit::Spec& spec : specs) plan->add(spec, 0);
    }
    for (ops::Unserved& need : ops::unserved(model, jit::limits_of(target), listed)) {
      plan->add_unserved(std::move(need), target.name());
    }
  }
}

}  // namespace

std::vector<jit::Target> read_targets(const quern_warm_options& options, std::optional<jit::Target> own) {
  if (options.target_count > kMostTargets || (options.target_count != 0 && options.targets == nullptr)) {
    throw Error(QUERN_INVALID, "targets is " + std::string(options.targets == nullptr ? "NULL" : "given") +
                                   " with a count of " + std::to_string(options.target_count) + "; at most " +
                                   std::to_string(kMostTargets) + " are allowed");
  }
  if (options.target_count == 0) return own ? std::vector{*own} : std::vector<jit::Target>{};
  std::vector<jit::Target> targets;
  for (std::uint64_t i = 0; i < options.target_count; ++i) {
    const std::string place = "targets[" + std::to_string(i) + "]";
    if (options.targets[i] == nullptr) fail_null(place.c_str());
    try {
      const jit::Target target = jit::Target::parse(options.targets[i]);
      if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
    } catch (const Error& failure) {
      throw Error(failure.status(), place + ": " + failure.text());
    }
  }
  return targets;
}

std::vector<WarmItem> plan_warm(const quern_warm_options& options, const std::vector<jit::Target>& targets,
                                bool checked) {
  Plan plan;
  if (options.manifest != nullptr) {
    for_each_line({options.manifest, options.manifest_length},
                  [&](std::string_view text, std::uint32_t number) { add_line(text, number, targets, &plan); });
  }
  if (options.model != nullptr) {
    const In<quern_model> model(options.model, "quern_model");
    add_model(*model, targets, &plan);
  }
  if (checked) plan.add_index_checks();
  return plan.take();
}

}  // namespace quern::capi
