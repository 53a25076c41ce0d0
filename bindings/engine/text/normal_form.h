// Unicode's normal form C (Unicode Standard Annex #15): one way to write what can be written in several, "e" and an
// acute as "\u00e9".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace quern::engine {

// What is no UTF-8 stays as it is, and parts what stands around it.
std::string normal_form_c(std::string_view text);

}  // namespace quern::engine
