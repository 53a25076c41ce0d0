// Lists: counting, reading by index, freeing.
// SPDX-License-Identifier: Apache-2.0
#include "capi/list.h"

#include "capi/abi.h"
#include "jit/seal.h"

namespace quern::capi {
namespace {

// Fills *out with row `index` of a list that holds such rows. The typed getters take no quern_error: the status says
// it.
template <class Row, class T>
std::int32_t read_row(const quern_list* list, std::uint64_t index, T* given, const char* name) noexcept {
  return guarded(nullptr, [&] {
    const Out<T> out(given, name);
    if (list == nullptr) fail_null("list");
    const auto* const rows = std::get_if<std::vector<Row>>(&list->rows);
    if (rows == nullptr || index >= rows->size()) return QUERN_INVALID;
    out.set(view((*rows)[index]));
    return QUERN_OK;
  });
}

}  // namespace

EntryRow make_entry_row(cache::Listed listed, bool with_image) {
  EntryRow row;
  row.key = cache::to_hex(listed.key);
  row.compiler = listed.entry.compiler_kind;
  if (!listed.entry.compiler_build.empty()) row.compiler += ' ' + listed.entry.compiler_build;
  row.with_image = with_image;
  row.listed = std::move(listed);
  return row;
}

quern_warm_result view(const WarmRow& row) {
  quern_warm_result seen{};
  seen.size = sizeof(seen);
  seen.outcome = row.outcome;
  seen.status = row.status;
  seen.line = row.line;
  seen.op = row.op.c_str();
  seen.target = row.target.c_str();
  seen.key = row.key.c_str();
  seen.spec = row.spec.c_str();
  seen.text = row.text.c_str();
  seen.milliseconds = row.milliseconds;
  return seen;
}

quern_tune_result view(const TuneRow& row) {
  quern_tune_result seen{};
  seen.size = sizeof(seen);
  seen.outcome = row.outcome;
  seen.status = row.status;
  seen.line = row.line;
  seen.op = row.op.c_str();
  seen.product = row.product.c_str();
  seen.choice = row.choice.c_str();
  seen.model_choice = row.model_choice.c_str();
  seen.text = row.text.c_str();
  seen.rows = row.rows;
  seen.microseconds = row.microseconds;
  seen.model_microseconds = row.model_microseconds;
  seen.candidates = row.candidates;
  return seen;
}

quern_entry view(const EntryRow& row) {
  const cache::Entry& entry = row.listed.entry;
  quern_entry seen{};
  seen.size = sizeof(seen);
  seen.layer = row.listed.layer;
  seen.key = row.key.c_str();
  seen.op = entry.op.c_str();
  seen.target = entry.target.c_str();
  seen.entry_name = entry.entry_name.c_str();
  seen.text = entry.text.c_str();
  seen.compiler = row.compiler.c_str();
  seen.log = entry.log.c_str();
  // The seal is the engine's own business; a list, which has no images, takes it to be there.
  const bool sealed = entry.kind == cache::Kind::image;
  const std::string_view image = sealed ? jit::without_seal(entry.image) : entry.image;
  const std::uint64_t whole = row.listed.image_size;
  seen.image = row.with_image ? image.data() : nullptr;
  seen.image_size = row.with_image                       ? image.size()
                    : sealed && whole > jit::kSealLength ? whole - jit::kSealLength
                                                         : whole;
  seen.created = entry.created;
  seen.last_use = row.listed.last_use;
  seen.compile_ms = entry.compile_ms;
  seen.registers = entry.registers;
  seen.shared_bytes = entry.shared_bytes;
  seen.local_bytes = entry.local_bytes;
  seen.kind = static_cast<std::int32_t>(entry.kind);
  return seen;
}

quern_fault view(const FaultRow& row) {
  quern_fault seen{};
  seen.size = sizeof(seen);
  seen.op = row.op.c_str();
  seen.argument = row.argument.c_str();
  seen.text = row.text.c_str();
  seen.call = row.call;
  seen.row = row.row, seen.column = row.column;
  seen.value = row.value, seen.least = row.least, seen.most = row.most;
  return seen;
}

quern_verify_result view(const VerifyRow& row) {
  quern_verify_result seen{};
  seen.size = sizeof(seen);
  seen.outcome = row.outcome;
  seen.status = row.status;
  seen.trials = row.trials;
  seen.op = row.op.c_str();
  seen.target = row.target.c_str();
  seen.key = row.key.c_str();
  seen.spec = row.spec.c_str();
  seen.text = row.text.c_str();
  seen.error = row.error, seen.truth_error = row.truth_error;
  seen.milliseconds = row.milliseconds;
  return seen;
}

quern_finding view(const FindingRow& row) {
  quern_finding seen{};
  seen.size = sizeof(seen);
  seen.status = row.status;
  seen.what = row.what.c_str();
  seen.text = row.text.c_str();
  seen.hint = row.hint.c_str();
  return seen;
}

}  // namespace quern::capi

using namespace quern::capi;

extern "C" {

uint64_t quern_list_count(const quern_list* list) {
  if (list == nullptr) return 0;
  return std::visit([](const auto& rows) -> uint64_t { return rows.size(); }, list->rows);
}

void quern_list_free(quern_list* list) { delete list; }

int32_t quern_list_warm_result(const quern_list* list, uint64_t index, quern_warm_result* result) {
  return read_row<WarmRow>(list, index, result, "quern_warm_result");
}

int32_t quern_list_tune_result(const quern_list* list, uint64_t index, quern_tune_result* result) {
  return read_row<TuneRow>(list, index, result, "quern_tune_result");
}

int32_t quern_list_entry(const quern_list* list, uint64_t index, quern_entry* entry) {
  return read_row<EntryRow>(list, index, entry, "quern_entry");
}

int32_t quern_list_fault(const quern_list* list, uint64_t index, quern_fault* fault) {
  return read_row<FaultRow>(list, index, fault, "quern_fault");
}

int32_t quern_list_verify_result(const quern_list* list, uint64_t index, quern_verify_result* result) {
  return read_row<VerifyRow>(list, index, result, "quern_verify_result");
}

int32_t quern_list_finding(const quern_list* list, uint64_t index, quern_finding* finding) {
  return read_row<FindingRow>(list, index, finding, "quern_finding");
}

}  // extern "C"
