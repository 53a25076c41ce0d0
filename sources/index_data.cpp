// SPDX-License-Identifier: Apache-2.0
#include "sources/index_data.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "jit/error.h"

namespace quern::ops {
namespace {

using q::CheckKind;

std::string number(std::int64_t n) { return std::to_string(n); }
std::string subscript(std::int64_t n) { return '[' + number(n) + ']'; }

bool follows_pages(const q::IndexCheck& c) { return c.kind == CheckKind::pages || c.kind == CheckKind::new_pages; }

// "page_table[2][5] (sequence 2, keys 80 to 95)"
std::string place_text(const q::IndexCheck& c, const q::IndexFault& f) {
  std::string name = c.name;
  if (name.find('#') != std::string::npos) {
    for (std::size_t mark; (mark = name.find('#')) != std::string::npos;) name.replace(mark, 1, number(f.row));
    return name;
  }
  if (c.kind == CheckKind::offsets) {
    const bool first = f.extra != 0;  // not the end of the first, but where it begins
    return name + subscript(first ? 0 : f.row + 1) + (first ? " (" : " (the end of ") + c.item + ' ' + number(f.row) + ')';
  }
  const FaultPlace place = place_of(c, f);
  std::string text = name + subscript(place.row) + (place.column >= 0 ? subscript(place.column) : "");
  if (c.item == nullptr) return text;
  text += std::string(" (") + c.item + ' ' + number(f.row);
  if ((c.flags & q::kSaysKeys) != 0) {
    text += ", keys " + number(f.column * c.size) + " to " + number(std::min((f.column + 1) * c.size, f.extra) - 1);
  }
  text += ')';
  if (c.kind == CheckKind::new_positions) text += ", of sequence " + number(f.extra) + ',';
  return text;
}

// Each with each would take too long here, where all are looked at.
bool distinct_fault(const q::IndexCheck& c, q::IndexFault* fault) {
  std::unordered_map<std::int64_t, std::int64_t> met;  // value: where
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t value = q::integer_at(c.values, row);
    if (value < c.least || value > c.most || ((c.flags & q::kOneValueMore) != 0 && value == c.size)) continue;
    const auto [at, is_new] = met.try_emplace(value, row);
    if (is_new) continue;
    *fault = {row, -1, at->second, value, c.least, c.most, 0};
    return true;
  }
  return false;
}

}  // namespace

FaultPlace place_of(const q::IndexCheck& check, const q::IndexFault& fault) {
  std::string_view name = check.name;
  if (check.kind == CheckKind::extents) return {check.item, fault.row, -1};
  name = name.substr(0, name.find_first_of(" ["));
  if (check.kind == CheckKind::offsets) return {std::string(name), fault.extra != 0 ? 0 : fault.row + 1, -1};
  if (follows_pages(check) && fault.at >= 0) return {std::string(name), fault.at, -1};
  return {std::string(name), fault.row, fault.column};
}

std::string text_of(const q::IndexCheck& check, const q::IndexFault& fault) {
  std::string text = place_text(check, fault) + " is " + number(fault.value);
  if (check.kind == CheckKind::distinct)
    return text + ", as is " + check.name + subscript(fault.at) + "; " + check.bound;
  text += "; allowed: ";
  text += fault.most < fault.least ? "none" : number(fault.least) + " to " + number(fault.most);
  text += ", ";
  if (check.kind == CheckKind::offsets && fault.extra == 0) text += "from where it begins to ";
  return text + check.bound;
}

void expect(const IndexList& list) {
  const q::IndexChecks& all = list.checks();
  for (std::int32_t i = 0; i < all.count; ++i) {
    const q::IndexCheck& check = all.checks[i];
    q::IndexFault fault{};
    const bool found = check.kind == CheckKind::distinct ? distinct_fault(check, &fault)
                                                         : q::first_fault(check, {0, 1, 0, 1}, fault);
    if (found) throw Error(QUERN_INVALID, text_of(check, fault));
  }
}

q::IndexCheck& IndexList::add(CheckKind kind, const char* name, const q::Integers& values, std::int64_t rows,
                              const char* item, const char* bound) {
  if (checks_.count == q::kMostChecks) throw Error(QUERN_INTERNAL, "more index checks than a list has room for");
  q::IndexCheck& check = checks_.checks[checks_.count++];
  check.kind = kind, check.values = values, check.rows = rows, check.columns = -1, check.row_stride = 1;
  check.name = name, check.item = item, check.bound = bound;
  return check;
}

q::IndexCheck& IndexList::in_range(const char* name, const q::Integers& values, std::int64_t count, std::int64_t least,
                                   std::int64_t most, const char* item, const char* bound) {
  q::IndexCheck& check = add(CheckKind::each, name, values, count, item, bound);
  check.least = least, check.most = most;
  return check;
}

q::IndexCheck& IndexList::in_range(const char* name, const std::int32_t* values, std::int64_t count, std::int64_t least,
                                   std::int64_t most, const char* item, const char* bound) {
  return in_range(name, integers(values), count, least, most, item, bound);
}

q::IndexCheck& IndexList::rows_in_range(const char* name, const std::int32_t* values, std::int64_t rows,
                                        std::int64_t columns, std::int64_t stride, std::int64_t least,
                                        std::int64_t most, const char* item, const char* bound) {
  q::IndexCheck& check = in_range(name, values, rows, least, most, item, bound);
  check.columns = columns, check.row_stride = stride;
  return check;
}

void IndexList::offsets(const char* name, const std::int32_t* offsets, std::int64_t count, std::int64_t most,
                        const char* item, const char* bound) {
  add(CheckKind::offsets, name, integers(offsets), count, item, bound).most = most;
}

void IndexList::extents(const char* name, const char* argument, const std::int32_t* offsets, std::int64_t count,
                        std::int64_t most, const char* bound) {
  add(CheckKind::extents, name, integers(offsets), count, argument, bound).most = most;
}

void IndexList::rooms(const char* name, const std::int32_t* values, const std::int32_t* indptr, std::int64_t count,
                      std::int64_t size, const char* item, const char* bound) {
  q::IndexCheck& check = add(CheckKind::rooms, name, integers(values), count, item, bound);
  check.indptr = indptr, check.size = size;
}

q::IndexCheck& IndexList::pages(const std::int32_t* pages, const std::int32_t* page_indptr, std::int64_t stride,
                                const std::int32_t* lengths, std::int64_t rows, std::int64_t size, std::int64_t count,
                                const char* bound) {
  q::IndexCheck& check = add(CheckKind::pages, page_indptr != nullptr ? "page_indices" : "page_table", integers(pages),
                             rows, "sequence", bound);
  check.page_indptr = page_indptr, check.row_stride = stride, check.counts = lengths, check.size = size;
  check.most = count - 1;
  check.window = std::int64_t{1} << 40;  // every key is seen
  return check;
}

}  // namespace quern::ops
