// What a warm-up did, for people and for scripts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/command.h"

namespace quern::cli {

// "cached", "compiled", "failed", "absent", "unserved" of an enum quern_warm_outcome.
const char* outcome_name(std::int32_t outcome);

// One kernel: from the library, or a manifest line that never reached it.
struct WarmRow {
  std::int32_t outcome;  // enum quern_warm_outcome
  std::int32_t status;   // enum quern_status
  std::uint32_t line;    // of the manifest; 0: from the model
  std::string op, target, key, spec, text;
  double milliseconds;
};

struct WarmReport {
  std::string manifest;  // its path, for messages
  std::vector<WarmRow> rows;
  std::vector<WarmRow> unserved;  // needs of the model that nothing here serves
  bool allowed = false;           // that there are such
  bool list_only = false;
  double milliseconds = 0;  // in all

  std::uint64_t count(std::int32_t outcome) const;
  // Failures on stderr, a table on stdout, or the JSON.
  void show(const Session& session) const;
};

}  // namespace quern::cli
