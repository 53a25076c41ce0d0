// SPDX-License-Identifier: Apache-2.0
#include "sources/index_check/index_check.h"

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/embedded.h"

namespace quern::ops::index_check {

jit::Spec spec_for(jit::Target target) {
  jit::Spec spec;
  spec.op = tag_index_check;
  spec.target = target.tag();
  return spec;
}

namespace {

jit::Unit unit(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "index_check";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_index_check";
  unit.constants.push_back({"THREADS", std::to_string(kWarps * jit::limits_of(unit.target).warp_size)});
  unit.source = embedded("index_check/index_check.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

Constants constants(const jit::Spec&) { return {}; }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  if (!given.empty()) throw Error(QUERN_INVALID, "index_check has no constants; " + given.front().name + " was given");
  return spec_for(target.target);
}

// No model asks for it: preparing an op in a checked context does, and warming in one.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op{"index_check", unit, parse, list, constants};

const jit::Kernel* ready(const Runtime& runtime, std::uint32_t call_flags, void* stream) {
  return kernel_for(runtime, spec_for(runtime.driver->device().limits.target), call_flags, stream);
}

}  // namespace quern::ops::index_check
