// The host's own kernels behind the interface that every op has.
// SPDX-License-Identifier: Apache-2.0
#include "sources/kernel/kernel.h"

#include <charconv>
#include <string_view>

#include "jit/error.h"
#include "sources/common_headers.h"

namespace quern::ops::kernel {
namespace {

// A second name, not a second text: a kernel that includes both names gets one set of definitions.
constexpr jit::File kAlias{"quern/kernel.cuh", "#pragma once\n#include \"common/kernel.cuh\"\n"};

jit::Unit unit(const jit::Spec& spec) {
  const Text& text = interned(spec);
  jit::Unit unit;
  unit.op = op.name;
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = text.entry;
  for (const auto& [name, value] : text.defines) unit.constants.push_back({name, value});
  unit.source = {text.source.first, text.source.second};
  for (const auto& [name, contents] : text.headers) unit.headers.push_back({name, contents});
  unit.headers.push_back(kAlias);
  for (const jit::File& header : common_headers(unit.target)) unit.headers.push_back(header);
  unit.options = text.options;
  unit.max_shared_bytes = text.max_shared_bytes;
  return unit;
}

Constants constants(const jit::Spec& spec) {
  const Text& text = interned(spec);
  Constants constants{{"entry", text.entry}};
  if (text.max_shared_bytes != 0) constants.push_back({"shared", std::to_string(text.max_shared_bytes)});
  constants.push_back({"source." + text.source.first, text.source.second});
  for (const auto& [name, contents] : text.headers) constants.push_back({"header." + name, contents});
  for (const auto& [name, value] : text.defines) constants.push_back({"define." + name, value});
  for (std::size_t i = 0; i < text.options.size(); ++i) {
    constants.push_back({"option." + std::to_string(i), text.options[i]});
  }
  return constants;
}

std::uint32_t parse_bytes(const jit::Constant& constant) {
  std::uint32_t bytes = 0;
  const char* const end = constant.value.data() + constant.value.size();
  const auto [stop, code] = std::from_chars(constant.value.data(), end, bytes);
  if (code != std::errc() || stop != end) {
    throw Error(QUERN_INVALID, "shared=" + constant.value + " is not a number of bytes below 2^32");
  }
  return bytes;
}

jit::Spec parse(const Constants& constants, const jit::TargetInfo& target) {
  Text text;
  bool has_source = false;
  for (const jit::Constant& constant : constants) {
    const std::size_t dot = constant.name.find('.');
    const std::string_view kind = std::string_view(constant.name).substr(0, dot);
    std::string name = dot == std::string::npos ? "" : constant.name.substr(dot + 1);
    if (constant.name == "entry") {
      text.entry = constant.value;
    } else if (constant.name == "shared") {
      text.max_shared_bytes = parse_bytes(constant);
    } else if (kind == "source" && !has_source) {
      has_source = true;
      text.source = {std::move(name), constant.value};
    } else if (kind == "header") {
      text.headers.emplace_back(std::move(name), constant.value);
    } else if (kind == "define") {
      text.defines.emplace_back(std::move(name), constant.value);
    } else if (kind == "option") {
      text.options.push_back(constant.value);
    } else {
      throw Error(QUERN_INVALID,
                  "\"" + constant.name +
                      "\" is not a part of a kernel; known are entry, shared, one source.FILE, header.FILE, "
                      "define.NAME and option.N");
    }
  }
  if (!has_source) throw Error(QUERN_INVALID, "source.FILE is missing");
  return intern(std::move(text), target.target);
}

// A model needs none of these: only the host knows them.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op = {"kernel", unit, parse, list, constants};

}  // namespace quern::ops::kernel
