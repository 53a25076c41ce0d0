// What `verify` and `doctor` found, as a table and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bindings/cli/command.h"

namespace quern::cli {

// Sets result["findings"] and prints them on stdout, hints under the lines they belong to. Returns how many are not
// QUERN_OK.
std::size_t show_findings(const Session& session, const std::vector<quern_finding>& findings);

}  // namespace quern::cli
