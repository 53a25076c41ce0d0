// The device that a command works on.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/device.h"

#include <array>
#include <charconv>

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {

std::optional<Context> open_first_device(const Session& session, ContextOptions options) {
  for (const std::int32_t type : {std::int32_t{kDLCUDA}, std::int32_t{kDLROCM}}) {
    options.device_type = type;
    try {
      return Context(options, session.console);
    } catch (const Failure& failure) {
      session.console.detail(printable(failure.what(), true));
    }
  }
  return {};
}

Context open_device(const Session& session, ContextOptions options, const std::string& name) {
  struct Kind {
    std::string_view name;
    std::int32_t type;
  };
  static constexpr std::array<Kind, 3> kKinds = {{{"cuda", kDLCUDA}, {"hip", kDLROCM}, {"host", kDLCPU}}};
  const std::size_t colon = name.find(':');
  const std::string_view kind = std::string_view(name).substr(0, colon);
  std::int32_t number = 0;
  bool known = true;
  if (colon != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto [read, failure] = std::from_chars(name.data() + colon + 1, end, number);
    known = failure == std::errc() && read == end && number >= 0;
  }
  options.device_type = 0;
  for (const Kind& each : kKinds) {
    if (each.name == kind) options.device_type = each.type;
  }
  if (!known || options.device_type == 0 || (options.device_type == kDLCPU && number != 0)) {
    throw Failure(QUERN_INVALID, "--device: '" + printable(name) +
                                     "' given; allowed: cuda, hip, host, with :NUMBER where there are several");
  }
  options.device_id = number;
  return Context(options, session.console);
}

quern_device_info device_info(const Context& context) {
  auto info = sized<quern_device_info>();
  auto error = sized<quern_error>();
  check(quern_device(context.get(), &info, &error), error);
  return info;
}

}  // namespace quern::cli
