// SPDX-License-Identifier: Apache-2.0
#include "sources/verify_draft/around.h"

#include <algorithm>

#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/sample/edits.h"

namespace quern::ops::verify_draft {
namespace {

constexpr Names<Step, 2> kSteps = {{{"edit", Step::edit}, {"report", Step::report}}};
constexpr auto kConstants =
    describe<Around>(tag_verify_draft, "verify_draft", choice<&Around::step>("step", nullptr, kSteps),
                     choice<&Around::logits>("dtype", "LOGIT", kFloatDtypes));

constexpr int kEditThreads = 256, kEditBlocksPerSm = 2;
constexpr int kReportThreads = 512, kReportBlocksPerSm = 2;

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

struct Parts {
  std::uint64_t logits = 0, wrong = 0, path = 0;  // bytes of each
};
Parts parts_of(const Problem& problem) {
  const auto batch = static_cast<std::uint64_t>(problem.params.batch);
  Parts parts;
  if (problem.edits) {
    parts.logits = round_up(static_cast<std::uint64_t>(problem.rows() * problem.edit.out_stride) * 4);
    parts.wrong = round_up(batch * 4);
  }
  if (problem.tells_logprobs) parts.path = round_up(batch * static_cast<std::uint64_t>(problem.params.depth) * 4);
  return parts;
}

std::uint32_t grid_of(std::int64_t units, bool bounded, int sms, int blocks_per_sm) {
  const std::int64_t most = bounded ? std::int64_t{sms} * blocks_per_sm : std::int64_t{1} << 30;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(units, 1, most));
}

}  // namespace

bool is_around(const jit::Spec& spec) { return (spec.words[0] & 0xff) >= static_cast<std::uint32_t>(Step::edit); }
bool is_around(const Constants& given) {
  return std::any_of(given.begin(), given.end(), [](const auto& each) { return each.name == "step"; });
}

Constants around_constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }
jit::Spec parse_around(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}
jit::Spec to_spec(const Around& around, const jit::TargetInfo& target) {
  return kConstants.to_spec(around, target.target);
}

jit::Unit around_unit(const jit::Spec& spec) {
  const Around around = kConstants.to_shape(spec);
  const bool edits = around.step == Step::edit;
  jit::Unit unit;
  unit.op = "verify_draft";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = edits ? "quern_verify_draft_edit" : "quern_verify_draft_report";
  kConstants.define(around, &unit);
  // What edits.cuh asks for.
  unit.constants.push_back({"EDITS", "1"});
  unit.constants.push_back({"THREADS", std::to_string(edits ? kEditThreads : kReportThreads)});
  unit.source = embedded(edits ? "verify_draft/kernels/edit.cuh" : "verify_draft/kernels/report.cuh");
  unit.headers = device_headers(unit.target);
  if (edits) unit.max_shared_bytes = sample::most_edit_bytes(jit::limits_of(unit.target));
  return unit;
}

AroundKernels around_kernels(const Runtime& runtime, const Problem& problem, std::uint32_t flags, void* stream) {
  const jit::TargetInfo& target = runtime.driver->device().limits;
  const auto find = [&](const Around& around) { return kernel_for(runtime, to_spec(around, target), flags, stream); };
  AroundKernels kernels;
  if (problem.edits) kernels.edit = find({Step::edit, problem.given});
  if (problem.reports) kernels.report = find({Step::report, problem.target});
  return kernels;
}

std::uint64_t around_bytes(const Problem& problem) {
  const Parts parts = parts_of(problem);
  return parts.logits + parts.wrong + parts.path;
}

void place_around(char* scratch, Problem* problem) {
  const Parts parts = parts_of(*problem);
  q::VerifyParams& p = problem->params;
  q::ReportParams& r = problem->report;
  if (problem->edits) {
    auto* const logits = reinterpret_cast<float*>(scratch);
    problem->edit.out = logits, problem->edit.wrong = reinterpret_cast<q::i32*>(scratch + parts.logits);
    r.logits = logits, r.wrong = problem->edit.wrong;
    problem->largest.logits = problem->filtered.params.in = problem->whole.params.logits = logits;
    if (problem->of_logits()) p.target = logits;
  }
  // The report looks for a token's row by its path, wanted by the caller or not.
  if (problem->tells_logprobs && p.path == nullptr) {
    p.path = reinterpret_cast<q::i32*>(scratch + parts.logits + parts.wrong);
    p.path_stride = p.depth;
  }
  r.path = p.path, r.path_stride = p.path_stride;
  if (problem->logprobs_filtered) r.kept = p.kept;
}

void launch_edit(const Runtime& runtime, const jit::Kernel& kernel, Problem* problem, bool bounded, bool programmatic,
                 void* stream) {
  q::EditParams& e = problem->edit;
  q::SampleParams& s = e.of_sequences;
  // A block reads its row's lists, whatever part of the row it has: with lists there are no more parts than it takes to
  // have work for all multiprocessors.
  constexpr std::int64_t kWarps = kEditThreads / 32;
  const std::int64_t rows = problem->rows(), waves = s.slots != 0 ? 1 : 4;
  const std::int64_t wanted = std::max<std::int64_t>(waves * problem->sms * kEditBlocksPerSm / rows, 1);
  s.chunks_per_block = static_cast<q::i32>(std::max<std::int64_t>(s.chunks / (wanted * kWarps), 1) * kWarps);
  e.parts = (s.chunks + s.chunks_per_block - 1) / s.chunks_per_block;
  e.units = rows * e.parts;
  jit::Launch launch;
  launch.grid[0] = grid_of(e.units, bounded, problem->sms, kEditBlocksPerSm);
  launch.block[0] = kEditThreads;
  launch.shared_bytes = static_cast<std::uint32_t>(s.slots) * 12;
  launch.programmatic = programmatic, launch.stream = stream;
  ops::launch(runtime, kernel, launch, "launching verify_draft's edits", e);
}

void launch_report(const Runtime& runtime, const jit::Kernel& kernel, Problem* problem, bool bounded, void* stream) {
  q::ReportParams& r = problem->report;
  r.units = std::int64_t{problem->params.batch} * (r.depth + 1);
  jit::Launch launch;
  launch.grid[0] = grid_of(r.units, bounded, problem->sms, kReportBlocksPerSm);
  launch.block[0] = kReportThreads;
  launch.programmatic = true, launch.stream = stream;  // it waits for what it reads by itself
  ops::launch(runtime, kernel, launch, "launching verify_draft's report", r);
}

}  // namespace quern::ops::verify_draft
