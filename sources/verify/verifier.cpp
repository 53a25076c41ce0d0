// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/verifier.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "jit/key.h"
#include "sources/manifest.h"

namespace quern::ops::verify {
namespace {

// So many of the calls that launch a kernel are compared, and one where the host takes longer for it.
constexpr std::uint32_t kEnough = 2;
constexpr std::chrono::seconds kLong{5};

jit::Service::Options without_file(const jit::CompilerOptions& compilers) {
  jit::Service::Options none;
  none.store.no_file = true;
  none.compilers = compilers;
  return none;
}

std::string spec_line(const std::string& text) {
  const std::size_t at = text.find("\nspec ");
  if (at == std::string::npos) return {};
  const std::size_t from = at + 6;
  return text.substr(from, text.find('\n', from) - from);
}

// How a row's text ends that was made under a compiler pin: see jit/images.cpp.
std::string pin_line(const std::string& pin) { return pin.empty() ? "" : "compiler " + pin + '\n'; }

}  // namespace

// A kernel on its way: its trials in turn, and of the one at hand what the device gave.
class Attempt {
 public:
  Attempt(const Cached& of, std::uint64_t seed) : cached(of), random(seed ^ of.key.high) {}

  const Cached cached;
  Finding found;
  const OpTrials* trials = nullptr;  // null: there is nothing more to find
  Constants constants;
  std::string wanted;  // the key that the engine's events tell
  Random random;
  int next = 0;
  std::unique_ptr<Trial> trial;  // null: there is none that launches it
  std::vector<std::vector<unsigned char>> results;
  std::optional<std::vector<std::vector<unsigned char>>> reference;  // where the host had its kernels at once
  std::vector<const jit::Kernel*> launched;
  std::string others;
};

Bed::Bed(jit::Driver& on, jit::Service& service, bool compiles, const std::string& compiler_pin,
         const std::function<void(std::string_view)>& notice, std::function<void(const jit::Event&)> event)
    : driver_(on), tensor_maps_(driver_), tunings_(gemm::make_tunings(service, notice)) {
  jit::EngineOptions options;
  options.driver = &driver_;
  options.service = &service;
  options.describe = describe;
  options.compiler_pin = compiler_pin;
  options.event = std::move(event);
  options.notice = notice;
  if (!compiles) {
    options.compile = [](const jit::CompileJob&) -> jit::Compiled {
      throw Error(QUERN_INTERNAL, "verifying compiles nothing for the device");
    };
  }
  engine_ = std::make_unique<jit::Engine>(std::move(options));
  bench_ = driver_.bench();
}

std::vector<std::vector<unsigned char>> Bed::run(Trial& trial, jit::Miss miss) {
  launched_.clear();
  return trial.run({engine_.get(), &driver_, miss, &tensor_maps_, tunings_.get(), &launched_}, *bench_);
}

bool Bed::launched(const cache::Key& key) const {
  return std::any_of(launched_.begin(), launched_.end(), [&](const jit::Kernel* kernel) { return kernel->key == key; });
}

Verifier::Verifier(jit::Driver& driver, jit::Service& service, const jit::CompilerOptions& compilers,
                   const std::string& compiler_pin, const std::function<void(std::string_view)>& notice,
                   std::uint64_t seed)
    : driver_(driver),
      compiler_pin_(compiler_pin),
      seed_(seed),
      host_service_(without_file(compilers)),
      host_driver_(jit::open_host({})),
      host_(*host_driver_, host_service_, true, {}, notice, {}),
      device_(driver, service, false, compiler_pin, notice, [this](const jit::Event& event) {
        if (event.kind == QUERN_EVENT_REJECTED) rejected_[event.key] = event.text;
      }) {}

// Why the device's engine does not load this row, which is of the kernel with this plain text or claims to be; "" where
// it does.
std::string Verifier::why_not_loaded(const Cached& cached, const std::string& plain) const {
  const std::string& pin = compiler_pin_;
  const std::string& text = cached.text;
  const bool is_plain = jit::key_of(plain) == cached.key;
  if (is_plain || (!pin.empty() && jit::key_of(plain + pin_line(pin)) == cached.key)) {
    return pin.empty() || cached.compiler == pin
               ? ""
               : "made by " + cached.compiler + "; this context's compiler_pin is \"" + pin + '"';
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

void EndAttempt::operator()(Attempt* attempt) const { delete attempt; }

BegunAttempt Verifier::begin(const Cached& cached) {
  BegunAttempt attempt(new Attempt(cached, seed_));
  const jit::Target own = driver_.device().limits.target;
  Finding& found = attempt->found;
  found.spec = spec_line(cached.text);
  if (cached.target != own.name()) {
    found.text = "for " + cached.target + "; this device runs " + own.name();
    return attempt;
  }
  const std::optional<ManifestLine> line =
      found.spec.empty() ? std::nullopt : parse_line(cached.op + ' ' + cached.target + ' ' + found.spec);
  if (!line) {
    found.text = cached.op == "kernel" ? "a host's own kernel: what it computes is not known here"
                                       : "its key's text holds no constants";
    return attempt;
  }
  const jit::Spec spec = to_spec(*line, own);
  const jit::Unit unit = describe(spec);
  const std::string plain = jit::canonical_text(unit, jit::used_files(unit));
  found.text = why_not_loaded(cached, plain);
  if (!found.text.empty()) return attempt;
  const OpTrials* const trials = trials_of(cached.op);
  if (trials == nullptr) {
    found.text = "no trial is made of this op";
    return attempt;
  }
  if (trials->refusal != nullptr) found.text = trials->refusal(Given(line->constants));
  if (!found.text.empty()) return attempt;
  attempt->trials = trials;
  attempt->constants = line->constants;
  // The key that the engine's events tell is the one under its pin, whichever row they are of.
  attempt->wanted = cache::to_hex(jit::key_of(plain + pin_line(compiler_pin_)));
  look_for_trial(*attempt);
  begin_reference(*attempt);
  return attempt;
}

// The host's compiler is needed for every row: where it is missing or refuses what the library itself wrote, that ends
// all, since rows that were not run would look as if nothing were wrong.
std::vector<std::vector<unsigned char>> Verifier::reference_of(Trial& trial) {
  try {
    return host_.run(trial, jit::Miss::compile);
  } catch (const Error& failure) {
    if (failure.status() == QUERN_NOT_FOUND || failure.status() == QUERN_COMPILE) throw NoReference(failure);
    throw;
  }
}

// Whatever fails here does so again when it is waited for.
void Verifier::begin_reference(Attempt& attempt) {
  if (attempt.trial == nullptr) return;
  try {
    attempt.reference = host_.run(*attempt.trial, jit::Miss::background);
  } catch (const Error&) {
    // QUERN_PENDING, as a rule.
  }
}

// The next trial whose call launches the kernel on the device, with what it gave there.
void Verifier::look_for_trial(Attempt& attempt) {
  Finding& found = attempt.found;
  const Given given(attempt.constants);
  attempt.reference.reset();
  for (attempt.trial = nullptr; attempt.next < attempt.trials->count;) {
    auto trial = std::make_unique<Trial>(attempt.random);
    attempt.trials->make(given, attempt.next++, *trial);
    try {
      attempt.results = device_.run(*trial, jit::Miss::cached_only);
    } catch (const Error& failure) {
      // What was not launched has not failed, and a miss is of another kernel of the same call. A refusal of this row
      // by the driver is a miss too: it is looked for when no trial is left.
      if (!device_.launched(attempt.cached.key) || failure.status() == QUERN_MISS) {
        attempt.others = failure.text();
        continue;
      }
      found.outcome = QUERN_VERIFY_FAILED;
      found.status = failure.status();
      found.text = failure.text();
      attempt.trials = nullptr;
      return;
    }
    if (!device_.launched(attempt.cached.key)) continue;
    attempt.launched = device_.launched();
    attempt.trial = std::move(trial);
    return;
  }
}

Finding Verifier::finish(Attempt& attempt) {
  Finding& found = attempt.found;
  const auto start = std::chrono::steady_clock::now();
  while (attempt.trial != nullptr) {
    Trial& trial = *attempt.trial;
    const Trial::Verdict verdict =
        trial.compare(attempt.results, attempt.reference ? *attempt.reference : reference_of(trial));
    ++found.trials;
    found.error = std::max(found.error, verdict.error);
    found.truth_error = std::max(found.truth_error, verdict.truth_error);
    const bool agrees = verdict.error <= 1 && verdict.truth_error <= 1;
    for (const jit::Kernel* kernel : attempt.launched) {
      Seen& seen = seen_[kernel->key];
      if (!agrees) ++seen.differed;
      if (!agrees && seen.agreed != 0) continue;
      if (agrees && seen.agreed++ == 0) seen.error = 0, seen.truth_error = -1;
      seen.error = std::max(seen.error, verdict.error);
      seen.truth_error = std::max(seen.truth_error, verdict.truth_error);
      seen.text =
          attempt.cached.op + ' ' + found.spec + ": " + (verdict.where.empty() ? "equal to the bit" : verdict.where);
    }
    if (!agrees || found.text.empty())
      found.text = verdict.where.empty() ? "equal to the bit; " + trial.what : verdict.where;
    found.outcome = agrees ? QUERN_VERIFY_AGREES : QUERN_VERIFY_DIFFERS;
    found.status = agrees ? QUERN_OK : QUERN_DAMAGED;
    if (!agrees || found.trials == kEnough || std::chrono::steady_clock::now() - start > kLong) break;
    look_for_trial(attempt);
  }
  if (attempt.trials == nullptr) return found;
  found.text += " (seed " + std::to_string(seed_) + ")";
  if (found.trials != 0) return found;
  if (const auto rejected = rejected_.find(attempt.wanted); rejected != rejected_.end()) {
    found.outcome = QUERN_VERIFY_FAILED;
    found.status = QUERN_DAMAGED;
    found.text = rejected->second;
    return found;
  }
  found.may_be_others = true;
  found.text = "none of the trials' calls launches it here";
  if (!attempt.others.empty()) found.text += "; the last that failed says: " + attempt.others;
  return found;
}

// One that took part in a call which agrees is right as far as can be told; where all of them differ it may be to
// blame.
Finding Verifier::verify_by_others(const Cached& cached, Finding found) const {
  const auto seen = seen_.find(cached.key);
  if (!found.may_be_others || seen == seen_.end()) return found;
  const Seen& calls = seen->second;
  const bool agrees = calls.agreed != 0;
  found.outcome = agrees ? QUERN_VERIFY_AGREES : QUERN_VERIFY_DIFFERS;
  found.status = agrees ? QUERN_OK : QUERN_DAMAGED;
  found.trials = agrees ? calls.agreed : calls.differed;
  found.error = calls.error, found.truth_error = calls.truth_error;
  found.text = "launched by the calls of others, the last of " + calls.text + " (seed " + std::to_string(seed_) + ")";
  return found;
}

}  // namespace quern::ops::verify
