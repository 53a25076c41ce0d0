// Trying every cached kernel: quern_verify.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <tuple>

#include "capi/context.h"
#include "capi/findings.h"
#include "capi/list.h"
#include "jit/key.h"
#include "sources/manifest.h"
#include "sources/verify/trial.h"

namespace quern::capi {
namespace {

using ops::verify::Trial;

// So many of the calls that launch a kernel are compared.
constexpr std::uint32_t kEnough = 2;

// A device with an engine of its own, so that what is tried is what the store holds, and nothing that was made before.
struct Bed {
  Bed(jit::Driver& on, jit::Service& service, bool compiles, std::function<void(const jit::Event&)> event)
      : driver(on), tensor_maps(driver), tunings(ops::gemm::make_tunings(service, {})) {
    jit::EngineOptions options;
    options.driver = &driver;
    options.service = &service;
    options.describe = ops::describe;
    options.event = std::move(event);
    if (!compiles) {
      options.compile = [](const jit::CompileJob&) -> jit::Compiled {
        throw Error(QUERN_INTERNAL, "verifying compiles nothing for the device");
      };
    }
    engine = std::make_unique<jit::Engine>(std::move(options));
    bench = driver.bench();
  }
  ops::Runtime runtime(jit::Miss miss) {
    return {engine.get(), &driver, miss, &tensor_maps, tunings.get(), &launched};
  }

  jit::Driver& driver;
  jit::TensorMaps tensor_maps;
  std::shared_ptr<ops::gemm::Tunings> tunings;
  std::unique_ptr<jit::Engine> engine;
  std::unique_ptr<jit::Bench> bench;
  std::vector<const jit::Kernel*> launched;
};

class Verifier {
 public:
  Verifier(const quern_context& context, std::uint64_t seed)
      : context_(context),
        seed_(seed),
        without_file_([&] {
          jit::Service::Options options{{}, context.options.compilers, context.options.compile_threads};
          options.store.no_file = true;
          return options;
        }()),
        host_driver_(jit::open_host({})),
        host_(*host_driver_, without_file_, true, {}),
        device_(*context.driver, *context.service, false,
                [this](const jit::Event& event) {
                  if (event.kind == QUERN_EVENT_REJECTED) rejected_ = event.text;
                }) {}

  void verify(const cache::Listed& listed, VerifyRow* row);

 private:
  void look_for_trials(const cache::Listed& listed, const ops::verify::OpTrials& trials, const ops::Constants& constants,
                       const jit::Spec& spec, VerifyRow* row);
  bool launched(const jit::Spec& spec) const {
    return std::any_of(device_.launched.begin(), device_.launched.end(),
                       [&](const jit::Kernel* kernel) { return kernel->spec == spec; });
  }

  const quern_context& context_;
  const std::uint64_t seed_;
  jit::Service without_file_;
  const std::unique_ptr<jit::Driver> host_driver_;
  std::string rejected_;
  Bed host_, device_;
};

std::string spec_line(const std::string& text) {
  const std::size_t at = text.find("\nspec ");
  if (at == std::string::npos) return {};
  const std::size_t from = at + 6;
  return text.substr(from, text.find('\n', from) - from);
}

void Verifier::verify(const cache::Listed& listed, VerifyRow* row) {
  const jit::Target own = context_.driver->device().limits.target;
  row->outcome = QUERN_VERIFY_NOT_RUN;
  row->spec = spec_line(listed.entry.text);
  if (listed.entry.target != own.name()) {
    row->text = "for " + listed.entry.target + "; this device runs " + own.name();
    return;
  }
  const std::optional<ops::ManifestLine> line =
      row->spec.empty() ? std::nullopt
                        : ops::parse_line(listed.entry.op + ' ' + listed.entry.target + ' ' + row->spec);
  if (!line) {
    row->text = listed.entry.op == "kernel" ? "a host's own kernel: what it computes is not known here"
                                            : "its key's text holds no constants";
    return;
  }
  const jit::Spec spec = ops::to_spec(*line, own);
  const jit::Unit unit = ops::describe(spec);
  if (jit::key_of(jit::canonical_text(unit, jit::used_files(unit))) != listed.key) {
    row->text = listed.entry.text.find("\npass checked\n") != std::string::npos
                    ? "in the checked form: for finding mistakes, not for serving"
                    : "made of other sources than this library's, which never loads it";
    return;
  }
  const ops::verify::OpTrials* const trials = ops::verify::trials_of(listed.entry.op);
  if (trials == nullptr) {
    row->text = "no trial is made of this op";
    return;
  }
  row->text = trials->refusal(ops::verify::Given(line->constants));
  if (row->text.empty()) look_for_trials(listed, *trials, line->constants, spec, row);
}

void Verifier::look_for_trials(const cache::Listed& listed, const ops::verify::OpTrials& trials,
                               const ops::Constants& constants, const jit::Spec& spec, VerifyRow* row) {
  const ops::verify::Given given(constants);
  ops::verify::Random random(seed_ ^ listed.key.high);
  std::string others;
  rejected_.clear();
  for (int i = 0; i < trials.count(given) && row->trials < kEnough; ++i) {
    const std::unique_ptr<Trial> trial = trials.make(given, i, random);
    device_.launched.clear();
    std::vector<std::vector<unsigned char>> results;
    try {
      results = trial->run(device_.runtime(jit::Miss::cached_only), *device_.bench);
    } catch (const Error& failure) {
      const bool ours = launched(spec) || !rejected_.empty();
      if (!ours && (failure.status() == QUERN_MISS || failure.status() == QUERN_INVALID ||
                    failure.status() == QUERN_UNSUPPORTED)) {
        others = failure.text();
        continue;
      }
      row->outcome = QUERN_VERIFY_FAILED;
      row->status = rejected_.empty() ? failure.status() : QUERN_DAMAGED;
      row->text = rejected_.empty() ? failure.text() : rejected_;
      return;
    }
    if (!launched(spec)) continue;
    const std::vector<std::vector<unsigned char>> reference =
        trial->run(host_.runtime(jit::Miss::compile), *host_.bench);
    host_.launched.clear();
    const Trial::Verdict verdict = trial->compare(results, reference);
    ++row->trials;
    row->error = std::max(row->error, verdict.error);
    row->truth_error = std::max(row->truth_error, verdict.truth_error);
    const bool agrees = verdict.error <= 1 && verdict.truth_error <= 1;
    if (!agrees || row->text.empty()) row->text = verdict.where.empty() ? "equal to the bit; " + trial->what : verdict.where;
    row->outcome = agrees ? QUERN_VERIFY_AGREES : QUERN_VERIFY_DIFFERS;
    row->status = agrees ? QUERN_OK : QUERN_DAMAGED;
    if (!agrees) break;
  }
  row->text += " (seed " + std::to_string(seed_) + ")";
  if (row->trials != 0) return;
  row->text = "none of the trials' calls chooses it here";
  if (!others.empty()) row->text += "; the last asked for " + others;
}

}  // namespace
}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_verify(quern_context* context, const quern_verify_options* options, quern_list** results,
                     quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live_with_device(context);
    quern_verify_options zeroed{};
    zeroed.size = sizeof(zeroed);
    const In<quern_verify_options> given(options != nullptr ? options : &zeroed, "quern_verify_options");
    check_flags("quern_verify_options.flags", given->flags, 0);
    if (alive.checked != nullptr)
      throw Error(QUERN_INVALID, "context is checked (QUERN_CONTEXT_CHECKED): verify with one that is not");
    const std::uint64_t seed = given->seed != 0 ? given->seed : std::random_device{}() | 1u;
    std::vector<cache::Listed> all = list_store(alive.service->store());
    std::erase_if(all, [&](const cache::Listed& listed) {
      return !selected(listed, given->prefix == nullptr ? "" : given->prefix);
    });
    // Of a key in several layers the first is what is loaded.
    std::sort(all.begin(), all.end(), [](const cache::Listed& a, const cache::Listed& b) {
      return std::tie(a.entry.op, a.entry.target, a.entry.text, a.layer) <
             std::tie(b.entry.op, b.entry.target, b.entry.text, b.layer);
    });
    const auto same = [](const cache::Listed& a, const cache::Listed& b) { return a.key == b.key; };
    all.erase(std::unique(all.begin(), all.end(), same), all.end());

    std::vector<VerifyRow> rows;
    Verifier verifier(alive, seed);
    bool cancelled = false;
    std::size_t bad = 0;
    for (const cache::Listed& listed : all) {
      VerifyRow row;
      row.op = listed.entry.op, row.target = listed.entry.target, row.key = cache::to_hex(listed.key);
      const auto start = std::chrono::steady_clock::now();
      try {
        verifier.verify(listed, &row);
      } catch (const Error& failure) {
        row.outcome = QUERN_VERIFY_NOT_RUN, row.status = failure.status(), row.text = failure.text();
      }
      row.milliseconds =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      bad += row.outcome == QUERN_VERIFY_DIFFERS || row.outcome == QUERN_VERIFY_FAILED;
      rows.push_back(std::move(row));
      if (given->progress == nullptr) continue;
      const quern_verify_result seen = view(rows.back());
      cancelled = given->progress(given->progress_user, rows.size(), all.size(), &seen) != 0;
      if (cancelled) break;
    }
    const std::size_t done = rows.size();
    if (results != nullptr) *results = make_list(std::move(rows)).release();
    if (bad != 0) {
      throw Error(QUERN_DAMAGED, std::to_string(bad) + " of " + std::to_string(done) +
                                     " kernels differ from what the host's execution of their source gives, or failed");
    }
    return cancelled ? QUERN_PARTIAL : QUERN_OK;
  });
}

}  // extern "C"
