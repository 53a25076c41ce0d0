// Trying cached kernels: a call of the op on the device, which loads the kernel as serving would, held against the same
// call on the host's own execution of the same source and against a plain loop in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/driver.h"
#include "jit/engine.h"
#include "jit/error.h"
#include "jit/service.h"
#include "sources/op.h"
#include "sources/verify/trial.h"

namespace quern::ops::verify {

// What the store says of a kernel.
struct Cached {
  cache::Key key;
  std::string op, target, text;
  std::string compiler;  // "nvrtc 13.0"
};

struct Finding {
  std::int32_t outcome = QUERN_VERIFY_NOT_RUN;  // enum quern_verify_outcome
  std::int32_t status = QUERN_OK;
  std::uint32_t trials = 0;
  std::string spec, text;
  double error = 0, truth_error = -1;
  bool may_be_others = false;  // not run, but the calls of other kernels may launch it: see Verifier::verify_by_others
};

// What a kernel is held against cannot be had, and so nothing can be said of any.
class NoReference : public Error {
 public:
  explicit NoReference(const Error& failure) : Error(failure) {}
};

// A device with an engine of its own, so that what is tried is what the store holds, and nothing that was made before.
class Bed {
 public:
  // `compiles` is whether kernels may be made that are not in the store.
  Bed(jit::Driver& on, jit::Service& service, bool compiles, const std::string& compiler_pin,
      const std::function<void(std::string_view)>& notice, std::function<void(const jit::Event&)> event);

  std::vector<std::vector<unsigned char>> run(Trial& trial, jit::Miss miss);
  // By the last trial. By key: a kernel has a row of its own under a compiler pin.
  bool launched(const cache::Key& key) const;
  const std::vector<const jit::Kernel*>& launched() const { return launched_; }

 private:
  jit::Driver& driver_;
  jit::TensorMaps tensor_maps_;
  std::shared_ptr<gemm::Tunings> tunings_;
  std::unique_ptr<jit::Engine> engine_;
  std::unique_ptr<jit::Bench> bench_;
  std::vector<const jit::Kernel*> launched_;
};

class Attempt;
struct EndAttempt {
  void operator()(Attempt* attempt) const;
};
using BegunAttempt = std::unique_ptr<Attempt, EndAttempt>;

class Verifier {
 public:
  // All outlive it. The host's compiler is looked for as `compilers` says. Throws what making a context throws.
  Verifier(jit::Driver& driver, jit::Service& service, const jit::CompilerOptions& compilers,
           const std::string& compiler_pin, const std::function<void(std::string_view)>& notice, std::uint64_t seed);

  // Launches the kernel here and has the host's begin to be compiled, in the background: compiling is most of the time
  // that a kernel takes, and several can be begun before the first is finished. Throws Error where it cannot be run.
  BegunAttempt begin(const Cached& cached);
  // Waits for the host's and compares. Throws NoReference, and Error.
  Finding finish(Attempt& attempt);
  // How many to begin before the first is finished.
  std::size_t at_once() const { return std::size_t{2} * host_service_.compile_threads(); }
  // What the calls say that were tried for other kernels and launched this one: a kernel that joins, sorts or finishes
  // what others leave says nothing of these in its own constants. `found` is what finish() said.
  Finding verify_by_others(const Cached& cached, Finding found) const;

 private:
  // Of calls that launched a kernel.
  struct Seen {
    std::uint32_t agreed = 0, differed = 0;
    double error = 0, truth_error = -1;
    std::string text;
  };
  std::string why_not_loaded(const Cached& cached, const std::string& plain) const;
  void look_for_trial(Attempt& attempt);
  void begin_reference(Attempt& attempt);
  std::vector<std::vector<unsigned char>> reference_of(Trial& trial);

  jit::Driver& driver_;
  const std::string& compiler_pin_;
  const std::uint64_t seed_;
  jit::Service host_service_;
  const std::unique_ptr<jit::Driver> host_driver_;
  std::map<cache::Key, Seen> seen_;
  std::map<std::string, std::string> rejected_;  // by the key that its event told, why
  Bed host_, device_;
};

}  // namespace quern::ops::verify
