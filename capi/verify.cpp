// Trying every cached kernel: quern_verify.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
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
  Bed(jit::Driver& on, jit::Service& service, bool compiles, const std::string& compiler_pin,
      const std::function<void(std::string_view)>& notice, std::function<void(const jit::Event&)> event)
      : driver(on), tensor_maps(driver), tunings(ops::gemm::make_tunings(service, notice)) {
    jit::EngineOptions options;
    options.driver = &driver;
    options.service = &service;
    options.describe = ops::describe;
    options.compiler_pin = compiler_pin;
    options.event = std::move(event);
    options.notice = notice;
    if (!compiles) {
      options.compile = [](const jit::CompileJob&) -> jit::Compiled {
        throw Error(QUERN_INTERNAL, "verifying compiles nothing for the device");
      };
    }
    engine = std::make_unique<jit::Engine>(std::move(options));
    bench = driver.bench();
  }
  ops::Runtime runtime(jit::Miss miss) { return {engine.get(), &driver, miss, &tensor_maps, tunings.get(), &launched}; }

  jit::Driver& driver;
  jit::TensorMaps tensor_maps;
  std::shared_ptr<ops::gemm::Tunings> tunings;
  std::unique_ptr<jit::Engine> engine;
  std::unique_ptr<jit::Bench> bench;
  std::vector<const jit::Kernel*> launched;
};

// What a row is held against cannot be had, and so nothing can be said of any row.
class NoReference : public Error {
 public:
  explicit NoReference(const Error& failure) : Error(failure) {}
};

class Verifier {
 public:
  Verifier(const quern_context& context, std::uint64_t seed)
      : context_(context),
        seed_(seed),
        host_service_([&] {
          jit::Service::Options none;
          none.store.no_file = true;
          none.compilers = context.options.compilers;
          return none;
        }()),
        host_driver_(jit::open_host({})),
        host_(*host_driver_, host_service_, true, {}, context.notice, {}),
        device_(*context.driver, *context.service, false, context.options.compiler_pin, context.notice,
                [this](const jit::Event& event) {
                  if (event.kind == QUERN_EVENT_REJECTED) rejected_[event.key] = event.text;
                }) {}

  // Throws NoReference, and Error where the row cannot be run.
  void verify(const cache::Listed& listed, VerifyRow* row);

 private:
  std::string why_not_loaded(const cache::Listed& listed, const std::string& plain) const;
  void look_for_trials(const cache::Listed& listed, const ops::verify::OpTrials& trials,
                       const ops::Constants& constants, const std::string& wanted, VerifyRow* row);
  std::vector<std::vector<unsigned char>> reference_of(Trial& trial);
  // By key: a kernel has a row of its own under a compiler pin.
  bool launched(const cache::Key& key) const {
    return std::any_of(device_.launched.begin(), device_.launched.end(),
                       [&](const jit::Kernel* kernel) { return kernel->key == key; });
  }

  const quern_context& context_;
  const std::uint64_t seed_;
  jit::Service host_service_;
  const std::unique_ptr<jit::Driver> host_driver_;
  std::map<std::string, std::string> rejected_;  // by the key that its event told, why
  Bed host_, device_;
};

std::string spec_line(const std::string& text) {
  const std::size_t at = text.find("\nspec ");
  if (at == std::string::npos) return {};
  const std::size_t from = at + 6;
  return text.substr(from, text.find('\n', from) - from);
}

// How a row's text ends that was made under a compiler pin: see jit/images.cpp.
std::string pin_line(const std::string& pin) { return pin.empty() ? "" : "compiler " + pin + '\n'; }

// Why the device's engine does not load this row, which is of the kernel with this plain text or claims to be; "" where
// it does.
std::string Verifier::why_not_loaded(const cache::Listed& listed, const std::string& plain) const {
  const std::string& pin = context_.options.compiler_pin;
  const std::string& text = listed.entry.text;
  const std::string made = listed.entry.compiler_kind + ' ' + listed.entry.compiler_build;
  const bool is_plain = jit::key_of(plain) == listed.key;
  if (is_plain || (!pin.empty() && jit::key_of(plain + pin_line(pin)) == listed.key)) {
    return pin.empty() || made == pin ? "" : "made by " + made + "; this context's compiler_pin is \"" + pin + '"';
  }
  if (text.starts_with(plain + "compiler ") && text.ends_with('\n')) {
    const std::size_t from = plain.size() + 9;
    return "made under the compiler_pin \"" + text.substr(from, text.size() - from - 1) + "\"; this context's is " +
           (pin.empty() ? "not set" : '"' + pin + '"');
  }
  return text.find("\npass checked\n") != std::string::npos
             ? "in the checked form: for finding mistakes, not for serving"
             : "made of other sources than this library's, which never loads it";
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
      row->spec.empty() ? std::nullopt : ops::parse_line(listed.entry.op + ' ' + listed.entry.target + ' ' + row->spec);
  if (!line) {
    row->text = listed.entry.op == "kernel" ? "a host's own kernel: what it computes is not known here"
                                            : "its key's text holds no constants";
    return;
  }
  const jit::Spec spec = ops::to_spec(*line, own);
  const jit::Unit unit = ops::describe(spec);
  const std::string plain = jit::canonical_text(unit, jit::used_files(unit));
  row->text = why_not_loaded(listed, plain);
  if (!row->text.empty()) return;
  const ops::verify::OpTrials* const trials = ops::verify::trials_of(listed.entry.op);
  if (trials == nullptr) {
    row->text = "no trial is made of this op";
    return;
  }
  row->text = trials->refusal(ops::verify::Given(line->constants));
  if (!row->text.empty()) return;
  // The key that the engine's events tell is the one under its pin, whichever row they are of.
  const cache::Key wanted = jit::key_of(plain + pin_line(context_.options.compiler_pin));
  look_for_trials(listed, *trials, line->constants, cache::to_hex(wanted), row);
}

// The host's compiler is needed for every row: where it is missing or refuses what the library itself wrote, that ends
// quern_verify with its error, since rows that were not run would look as if nothing were wrong.
std::vector<std::vector<unsigned char>> Verifier::reference_of(Trial& trial) {
  try {
    return trial.run(host_.runtime(jit::Miss::compile), *host_.bench);
  } catch (const Error& failure) {
    if (failure.status() == QUERN_NOT_FOUND || failure.status() == QUERN_COMPILE) throw NoReference(failure);
    throw;
  }
}

void Verifier::look_for_trials(const cache::Listed& listed, const ops::verify::OpTrials& trials,
                               const ops::Constants& constants, const std::string& wanted, VerifyRow* row) {
  const ops::verify::Given given(constants);
  ops::verify::Random random(seed_ ^ listed.key.high);
  std::string others;
  for (int i = 0; i < trials.count(given) && row->trials < kEnough; ++i) {
    const std::unique_ptr<Trial> trial = trials.make(given, i, random);
    device_.launched.clear();
    std::vector<std::vector<unsigned char>> results;
    try {
      results = trial->run(device_.runtime(jit::Miss::cached_only), *device_.bench);
    } catch (const Error& failure) {
      // What was not launched has not failed, and a miss is of another kernel of the same call. A refusal of this row
      // by the driver is a miss too: it is looked for below.
      if (!launched(listed.key) || failure.status() == QUERN_MISS) {
        others = failure.text();
        continue;
      }
      row->outcome = QUERN_VERIFY_FAILED;
      row->status = failure.status();
      row->text = failure.text();
      return;
    }
    if (!launched(listed.key)) continue;
    const std::vector<std::vector<unsigned char>> reference = reference_of(*trial);
    host_.launched.clear();
    const Trial::Verdict verdict = trial->compare(results, reference);
    ++row->trials;
    row->error = std::max(row->error, verdict.error);
    row->truth_error = std::max(row->truth_error, verdict.truth_error);
    const bool agrees = verdict.error <= 1 && verdict.truth_error <= 1;
    if (!agrees || row->text.empty())
      row->text = verdict.where.empty() ? "equal to the bit; " + trial->what : verdict.where;
    row->outcome = agrees ? QUERN_VERIFY_AGREES : QUERN_VERIFY_DIFFERS;
    row->status = agrees ? QUERN_OK : QUERN_DAMAGED;
    if (!agrees) break;
  }
  row->text += " (seed " + std::to_string(seed_) + ")";
  if (row->trials != 0) return;
  if (const auto rejected = rejected_.find(wanted); rejected != rejected_.end()) {
    row->outcome = QUERN_VERIFY_FAILED;
    row->status = QUERN_DAMAGED;
    row->text = rejected->second;
    return;
  }
  row->text = "none of the trials' calls launches it here";
  if (!others.empty()) row->text += "; the last that failed says: " + others;
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
    const jit::Listening listening(alive.notice);
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
    std::optional<NoReference> ended;
    for (const cache::Listed& listed : all) {
      VerifyRow row;
      row.op = listed.entry.op, row.target = listed.entry.target, row.key = cache::to_hex(listed.key);
      const auto start = std::chrono::steady_clock::now();
      try {
        verifier.verify(listed, &row);
      } catch (const NoReference& failure) {
        ended = failure;  // the rows before this one are told all the same
        break;
      } catch (const Error& failure) {
        row.outcome = QUERN_VERIFY_NOT_RUN, row.status = failure.status(), row.text = failure.text();
      }
      row.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      bad += row.outcome == QUERN_VERIFY_DIFFERS || row.outcome == QUERN_VERIFY_FAILED;
      rows.push_back(std::move(row));
      if (given->progress == nullptr) continue;
      const quern_verify_result seen = view(rows.back());
      cancelled = given->progress(given->progress_user, rows.size(), all.size(), &seen) != 0;
      if (cancelled) break;
    }
    const std::size_t done = rows.size();
    if (results != nullptr) *results = make_list(std::move(rows)).release();
    if (ended) throw *ended;
    if (bad != 0) {
      throw Error(QUERN_DAMAGED, std::to_string(bad) + " of " + std::to_string(done) +
                                     " kernels differ from what the host's execution of their source gives, or failed");
    }
    return cancelled ? QUERN_PARTIAL : QUERN_OK;
  });
}

}  // extern "C"
