// The list of ops, made of sources/ops.def.
// SPDX-License-Identifier: Apache-2.0
#include "sources/ops.h"

#include <algorithm>
#include <array>

#include "jit/error.h"
#include "sources/index_check/index_check.h"
#include "sources/kernel/kernel.h"
#include "sources/manifest.h"

namespace quern::ops {

namespace {

// Copied while the library is loaded: each op is a constant, which is there before that.
const std::array kOps = {
#define QUERN_OP(name, ...) name::op,
#include "sources/ops.def"
#undef QUERN_OP
    kernel::op,
    index_check::op,
};
static_assert(std::tuple_size_v<decltype(kOps)> == tag_index_check + 1);

}  // namespace

std::span<const Op> all() { return kOps; }

const Op* find(std::string_view name) {
  const std::span<const Op> ops = all();
  const auto found = std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.name == name; });
  return found == ops.end() ? nullptr : &*found;
}

jit::Unit describe(const jit::Spec& spec) {
  const std::span<const Op> ops = all();
  if (spec.op >= ops.size()) {
    throw Error(QUERN_INTERNAL,
                "a Spec names op " + std::to_string(spec.op) + "; there are " + std::to_string(ops.size()));
  }
  jit::Unit unit = ops[spec.op].unit(spec);
  // Not that of a host's own kernel, which is its source and would stand in the key twice.
  if (spec.op != tag_kernel && ops[spec.op].constants != nullptr)
    unit.spec = constants_text(ops[spec.op].constants(spec));
  // A host's own kernel is left as its compiler made it.
  unit.keep_operands = spec.op != tag_kernel && unit.target.name() == "sm_90a";
  return unit;
}

bool has_checked_form(const jit::Unit& unit) {
  return unit.op != "kernel" || unit.source.text.find("QUERN_KERNEL") != std::string_view::npos;
}

jit::Unit describe_checked(const jit::Spec& spec) {
  jit::Unit unit = describe(spec);
  unit.checked = has_checked_form(unit);
  return unit;
}

}  // namespace quern::ops
