// What the tests of the C ABI share.
// SPDX-License-Identifier: Apache-2.0
#include "tests/abi/support.h"

#include <stdlib.h>

namespace quern::test {
namespace {

constexpr const char* kScaleHeader = R"(#pragma once
struct Params {
  const float* a;
  float* out;
  int n;
  float b;
};
)";

std::string encoded(std::string_view text) {
  std::string line;
  for (const char c : text) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 32 || c == '%' || c == '=') {
      line += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

const char* const kScaleSource = R"(#include "quern/kernel.cuh"
#include "params.cuh"
QUERN_KERNEL(scale, 64, 1, QUERN_PARAM Params p) {
  const int i = q::block_index(0) * 64 + q::thread_index();
  if (i < p.n) p.out[i] = p.a[i] * FACTOR + p.b;
}
)";

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "quern-abi-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
  root_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

Context make_context(const Folder& folder, std::int32_t device_type,
                     const std::function<void(quern_context_options&)>& change) {
  const std::string cache = folder.path("cache");
  auto options = sized<quern_context_options>();
  options.device_type = device_type;
  options.cache_path = cache.c_str();
  if (change) change(options);
  quern_context* context = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_context_create(&options, &context, &error), QUERN_OK) << error.text;
  return Context(context);
}

void expect_refused(std::int32_t status, std::initializer_list<std::string_view> words,
                    const std::function<std::int32_t(quern_error*)>& call) {
  auto error = sized<quern_error>();
  const std::int32_t returned = call(&error);
  EXPECT_STREQ(quern_status_name(returned), quern_status_name(status)) << error.text;
  EXPECT_EQ(error.status, returned);
  for (const std::string_view word : words) {
    EXPECT_NE(std::string_view(error.text).find(word), std::string_view::npos)
        << "\"" << word << "\" is not in: " << error.text;
  }
  EXPECT_EQ(call(nullptr), status) << "without a quern_error";
}

ScaleDesc::ScaleDesc(const char* factor)
    : source{sizeof(quern_source), 0, "scale.cuh", kScaleSource, 0},
      header{sizeof(quern_source), 0, "params.cuh", kScaleHeader, 0},
      constant{sizeof(quern_constant), 0, "FACTOR", factor},
      desc(sized<quern_kernel_desc>()) {
  desc.entry = "scale";
  desc.source = &source;
  desc.headers = &header;
  desc.header_count = 1;
  desc.constants = &constant;
  desc.constant_count = 1;
}

std::string scale_line(const std::string& target, const std::string& factor) {
  return "kernel " + target + " entry=scale source.scale.cuh=" + encoded(kScaleSource) +
         " header.params.cuh=" + encoded(kScaleHeader) + " define.FACTOR=" + encoded(factor);
}

std::string manifest_of(const quern_context* context) {
  std::uint64_t length = 0;
  EXPECT_EQ(quern_manifest(context, nullptr, &length, nullptr), QUERN_OK);
  std::string text(length + 1, '?');
  std::uint64_t size = text.size();
  EXPECT_EQ(quern_manifest(context, text.data(), &size, nullptr), QUERN_OK);
  EXPECT_EQ(size, length);
  text.resize(length);
  return text;
}

}  // namespace quern::test
