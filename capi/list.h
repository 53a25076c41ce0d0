// What administration calls return: rows copied out of the library, with strings of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cache/store.h"
#include "capi/quern.h"

namespace quern::capi {

struct WarmRow {
  std::int32_t outcome = QUERN_WARM_FAILED;
  std::int32_t status = QUERN_OK;
  std::uint32_t line = 0;
  std::string op, target, key, spec, text;
  double milliseconds = 0;
};

struct TuneRow {
  std::int32_t outcome = QUERN_TUNE_FAILED;
  std::int32_t status = QUERN_OK;
  std::uint32_t line = 0;
  std::string op, product, choice, model_choice, text;
  std::int64_t rows = 0;
  double microseconds = 0, model_microseconds = 0;
  std::uint32_t candidates = 0;
};

struct EntryRow {
  cache::Listed listed;
  std::string key;
  std::string compiler;
  bool with_image = false;
};
EntryRow make_entry_row(cache::Listed listed, bool with_image);

struct FindingRow {
  std::int32_t status = QUERN_OK;
  std::string what, text, hint;
};

struct FaultRow {
  std::string op, argument, text;
  std::uint64_t call = 0;
  std::int64_t row = 0, column = 0, value = 0, least = 0, most = 0;
};

struct VerifyRow {
  std::int32_t outcome = QUERN_VERIFY_NOT_RUN;
  std::int32_t status = QUERN_OK;
  std::uint32_t trials = 0;
  std::string op, target, key, spec, text;
  double error = 0, truth_error = -1, milliseconds = 0;
};

// The struct that a caller sees of a row; it points into the row.
quern_warm_result view(const WarmRow& row);
quern_tune_result view(const TuneRow& row);
quern_entry view(const EntryRow& row);
quern_finding view(const FindingRow& row);
quern_fault view(const FaultRow& row);
quern_verify_result view(const VerifyRow& row);

}  // namespace quern::capi

struct quern_list {
  std::variant<std::vector<quern::capi::WarmRow>, std::vector<quern::capi::TuneRow>, std::vector<quern::capi::EntryRow>,
               std::vector<quern::capi::FindingRow>, std::vector<quern::capi::FaultRow>,
               std::vector<quern::capi::VerifyRow>>
      rows;
};

namespace quern::capi {

template <class Row>
std::unique_ptr<quern_list> make_list(std::vector<Row> rows) {
  auto list = std::make_unique<quern_list>();
  list->rows = std::move(rows);
  return list;
}

}  // namespace quern::capi
