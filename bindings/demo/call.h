// quern.h as C++ likes it: structs with their size set, failures as exceptions, a context that frees itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "quern.h"

namespace quern::demo {

// A struct of quern.h, zeroed, with its size set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.size = static_cast<std::uint32_t>(sizeof(Struct));
  return value;
}

// Makes a call of quern.h, which gets a quern_error, and throws std::runtime_error with its text unless it succeeds.
template <class Call>
void call(Call&& make) {
  auto error = sized<quern_error>();
  const std::int32_t status = make(&error);
  if (status != QUERN_OK) throw std::runtime_error(std::string(quern_status_name(status)) + ": " + error.text);
}

struct DestroyContext {
  void operator()(quern_context* context) const { quern_context_destroy(context); }
};
using Context = std::unique_ptr<quern_context, DestroyContext>;

inline Context make_context(const quern_context_options& options) {
  quern_context* context = nullptr;
  call([&](quern_error* error) { return quern_context_create(&options, &context, error); });
  return Context(context);
}

inline quern_stats stats_of(const quern_context* context) {
  auto stats = sized<quern_stats>();
  call([&](quern_error* error) { return quern_get_stats(context, &stats, error); });
  return stats;
}

}  // namespace quern::demo
