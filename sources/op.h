// What an op is to the rest of the house.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/quern.h"
#include "jit/engine.h"
#include "jit/spec.h"
#include "jit/tensor_maps.h"
#include "jit/unit.h"

namespace quern::ops {

namespace gemm {
class Tunings;
// The service outlives it. Throws std::bad_alloc.
std::shared_ptr<Tunings> make_tunings(jit::Service& service, std::function<void(std::string_view)> notice);
}  // namespace gemm

// The name and value of every constant of a specialisation, as in a manifest line and in the canonical text.
using Constants = std::vector<jit::Constant>;

struct Runtime;

// How long to measure, and what to do about what has been measured before.
struct TuneOptions {
  double milliseconds;  // for each candidate
  bool again;           // measure although it is known
  bool list_only;       // measure nothing
};
// What tuning found for one product and number of rows.
struct TuneFinding {
  enum class Outcome : std::uint8_t { measured, known, absent } outcome;
  std::string product;               // the product in full, as its canonical line
  std::string choice, model_choice;  // as text; empty where nothing is known
  double microseconds = 0, model_microseconds = 0;
  int candidates = 0;  // that were measured
};

struct Op {
  const char* name;  // "attention"; names the folder, the manifest's op and the exports
  // Spec to what is compiled; the inverse of parse. Throws Error.
  jit::Unit (*unit)(const jit::Spec& spec);
  // A manifest line's constants to a Spec. Throws Error(QUERN_INVALID) naming the constant, what was given and what is
  // allowed.
  jit::Spec (*parse)(const Constants& constants, const jit::TargetInfo& target);
  // Every specialisation that a model needs on a target, appended to *specs; nothing where the op is not for that
  // model.
  void (*list)(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs);
  // What parse reads back, where that is more than the unit's constants (a host's own kernel carries its source). Null:
  // the unit's constants are all there is.
  Constants (*constants)(const jit::Spec& spec) = nullptr;
  // Finds the fastest way to do a product of so many rows on the context's device and keeps it in the cache. `product`
  // are a manifest line's constants but for those that tuning finds, and its extents. Throws Error(QUERN_INVALID)
  // naming the constant, and what compiling, allocating and launching throw. Null: there is nothing to tune.
  TuneFinding (*tune)(const Runtime& runtime, const Constants& product, std::int64_t rows,
                      const TuneOptions& options) = nullptr;
  // Every product that a model needs on a target, appended to *products.
  void (*products)(const quern_model& model, const jit::TargetInfo& target, std::vector<Constants>* products) = nullptr;
  // Why the op has no kernels for what it is to do in this model, with the model's numbers and what is allowed; empty
  // where it has them. Null: `list` naming none says it all.
  std::string (*refusal)(const quern_model& model, const jit::TargetInfo& target) = nullptr;
};

// Spec::op of each op: its place in sources/ops.def, a host's own kernels after them.
enum Tag : std::uint32_t {
#define QUERN_OP(name, ...) tag_##name,
#include "sources/ops.def"
#undef QUERN_OP
  tag_kernel,
  tag_index_check,  // the library's own: walks index tensors in the checked form
};

// The ops in the order of their tags.
std::span<const Op> all();
// Null when there is none of this name.
const Op* find(std::string_view name);
// What a Spec stands for: the unit of its op. Throws Error.
jit::Unit describe(const jit::Spec& spec);
// The same in the checked form. Of a host's own kernels only those that QUERN_KERNEL declares have one.
jit::Unit describe_checked(const jit::Spec& spec);
bool has_checked_form(const jit::Unit& unit);

// What an op's calls work with. `driver` and `tensor_maps` are null in a context without a device: workspace and
// prepare then throw Error(QUERN_INVALID).
class CheckedCall;
class LateTensors;
class Recording;

struct Runtime {
  jit::Engine* engine;
  jit::Driver* driver;
  jit::Miss miss;
  jit::TensorMaps* tensor_maps;
  gemm::Tunings* tunings;                               // of matrix products
  std::vector<const jit::Kernel*>* launched = nullptr;  // where given: receives every kernel that is launched
  CheckedCall* call = nullptr;     // in the checked form: the call whose kernels are launched (sources/checked.h)
  LateTensors* late = nullptr;     // on `host` with a seed: of the call at hand (sources/late.h)
  Recording* recording = nullptr;  // where given: is told what is launched (sources/repeat/recording.h)
};

// The kernel for a Spec: the lock-free look-up, and on a miss whatever the call's flags and the context's policy allow.
inline const jit::Kernel* kernel_for(const Runtime& runtime, const jit::Spec& spec, std::uint32_t call_flags,
                                     void* stream) {
  if (const jit::Kernel* kernel = runtime.engine->find(spec)) return kernel;
  jit::Miss miss = runtime.miss;
  if (call_flags & QUERN_CALL_CACHED_ONLY) miss = jit::Miss::cached_only;
  if (call_flags & QUERN_CALL_BACKGROUND) miss = jit::Miss::background;
  return runtime.engine->ready(spec, miss, stream);
}

}  // namespace quern::ops
