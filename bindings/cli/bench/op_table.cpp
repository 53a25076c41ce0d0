// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/op_table.h"

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

// Put together in the order of the list: an op, its fields, then each part with its own.
class Builder {
 public:
  void begin(OpTable op) {
    ops_.push_back(std::move(op));
    part_ = -1;
  }
  void part(std::size_t pointer_offset, std::size_t size) {
    ops_.back().parts.push_back({pointer_offset, size});
    ++part_;
  }
  void field(const char* name, FieldKind kind, std::size_t offset, std::size_t count_offset = 0) {
    ops_.back().fields.push_back({name, kind, offset, count_offset, part_});
  }
  std::vector<OpTable> take() { return std::move(ops_); }

 private:
  std::vector<OpTable> ops_;
  int part_ = -1;
};

std::vector<OpTable> make() {
  Builder builder;
#define QUERN_OP(op)                                                                                                  \
  builder.begin({#op,                                                                                                 \
                 sizeof(quern_##op##_args),                                                                           \
                 {},                                                                                                  \
                 {},                                                                                                  \
                 [](quern_context* context, const void* args, std::uint64_t* bytes, quern_error* error) {             \
                   return quern_##op##_workspace(context, static_cast<const quern_##op##_args*>(args), bytes, error); \
                 },                                                                                                   \
                 [](quern_context* context, const void* args, quern_error* error) {                                   \
                   return quern_##op(context, static_cast<const quern_##op##_args*>(args), error);                    \
                 }});
#define QUERN_FIELD(type, member, name, kind) builder.field(name, FieldKind::kind, offsetof(type, member));
#define QUERN_LIST(type, member, name, kind, count) \
  builder.field(name, FieldKind::kind, offsetof(type, member), offsetof(type, count));
#define QUERN_PART(type, member, pointed) builder.part(offsetof(type, member), sizeof(pointed));
#define QUERN_END()
#include "bindings/described/ops.inc"
#undef QUERN_OP
#undef QUERN_FIELD
#undef QUERN_LIST
#undef QUERN_PART
#undef QUERN_END
  return builder.take();
}

}  // namespace

const OpField* OpTable::find(std::string_view field) const {
  for (const OpField& each : fields) {
    if (each.name == field) return &each;
  }
  return nullptr;
}

const std::vector<OpTable>& all_ops() {
  static const std::vector<OpTable> ops = make();
  return ops;
}

const OpTable& op_named(std::string_view name) {
  std::string known;
  for (const OpTable& op : all_ops()) {
    if (op.name == name) return op;
    known += (known.empty() ? "" : ", ") + op.name;
  }
  throw Failure(QUERN_INVALID, "OP: '" + printable(name) + "' given; allowed: " + known);
}

}  // namespace quern::cli
