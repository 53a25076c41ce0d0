// The device that a command works on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "bindings/cli/session.h"

namespace quern::cli {

// A context on the first GPU that is found here; none where there is none, with what was tried as details.
std::optional<Context> open_first_device(const Session& session, ContextOptions options);

// A context on the device of this name: "cuda", "cuda:1", "hip:0", "host". Throws Failure naming --device.
Context open_device(const Session& session, ContextOptions options, const std::string& name);

quern_device_info device_info(const Context& context);

}  // namespace quern::cli
