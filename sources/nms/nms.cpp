// A skeleton that refuses, until the op is there.
// SPDX-License-Identifier: Apache-2.0
#include "jit/error.h"
#include "sources/op.h"

namespace quern::ops::nms {
namespace {
[[noreturn]] void absent() { throw Error(QUERN_INTERNAL, "nms is not there yet"); }
jit::Unit unit(const jit::Spec&) { absent(); }
jit::Spec parse(const Constants&, const jit::TargetInfo&) { absent(); }
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}
}  // namespace

extern const Op op;
const Op op{"nms", unit, parse, list};

std::uint64_t workspace(const Runtime&, const quern_nms_args&) { absent(); }
void prepare(const Runtime&, const quern_nms_args&) { absent(); }
void run(const Runtime&, const quern_nms_args&) { absent(); }

}  // namespace quern::ops::nms
