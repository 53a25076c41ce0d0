// Frames and payloads between a process and its helper, whole and damaged.
// SPDX-License-Identifier: Apache-2.0
#include "jit/helper/protocol.h"

#include <gtest/gtest.h>

#include "tests/unit/compilers.h"

namespace quern::jit::helper {
namespace {

Request sample() {
  Request request;
  request.action = Action::compile;
  request.family = Family::hip;
  request.job = job_for("gfx90a", kGpuKernel);
  request.job.options = {"-O3", ""};
  request.search_dirs = {"/a", "/b"};
  request.host_compiler = "/usr/bin/c++";
  request.folder = "/tmp/x";
  request.timeout_ms = 7;
  return request;
}

TEST(Protocol, ARequestComesBackAsItWent) {
  const Request back = decode_request(encode(sample()));
  EXPECT_EQ(back.action, Action::compile);
  EXPECT_EQ(back.family, Family::hip);
  EXPECT_EQ(back.job.target.name(), "gfx90a");
  EXPECT_EQ(back.job.source, kGpuKernel);
  EXPECT_EQ(back.job.options, (std::vector<std::string>{"-O3", ""}));
  EXPECT_EQ(back.search_dirs, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(back.host_compiler, "/usr/bin/c++");
  EXPECT_EQ(back.folder, "/tmp/x");
  EXPECT_EQ(back.timeout_ms, 7u);
}

TEST(Protocol, AnAnswerComesBackAsItWent) {
  Answer answer;
  answer.status = QUERN_COMPILE;
  answer.native = -5;
  answer.text = "no";
  answer.compiled.image = std::string("a\0b", 3);
  answer.compiled.registers = 32;
  answer.compiled.compiler_build = "1.2";
  answer.targets = "x,y";
  const Answer back = decode_answer(encode(answer));
  EXPECT_EQ(back.status, QUERN_COMPILE);
  EXPECT_EQ(back.native, -5);
  EXPECT_EQ(back.text, "no");
  EXPECT_EQ(back.compiled.image, std::string("a\0b", 3));
  EXPECT_EQ(back.compiled.registers, 32);
  EXPECT_EQ(back.compiled.compiler_build, "1.2");
  EXPECT_EQ(back.targets, "x,y");
}

TEST(Protocol, FramesAreTakenWholeAndInOrder) {
  const std::string all = make_frame(Type::opened, "one") + make_frame(Type::answer, "");
  std::string bytes;
  std::vector<std::string> seen;
  for (const char c : all) {
    bytes += c;
    while (const std::optional<Frame> frame = take_frame(&bytes)) {
      seen.push_back(std::to_string(static_cast<unsigned>(frame->type)) + frame->payload);
    }
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"2one", "3"}));
  EXPECT_TRUE(bytes.empty());
}

TEST(Protocol, EveryFlippedBitIsSeen) {
  const std::string whole = make_frame(Type::answer, encode(Answer{}));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    try {
      EXPECT_FALSE(take_frame(&bytes).has_value()) << "bit " << bit;  // a longer length: still waiting
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), QUERN_COMPILE);
    }
  }
}

TEST(Protocol, EveryCutPayloadIsSeen) {
  const std::string request = encode(sample());
  for (std::size_t size = 0; size < request.size(); ++size) {
    EXPECT_EQ(error_of([&] { decode_request(std::string_view(request).substr(0, size)); }).status(), QUERN_COMPILE)
        << size;
  }
  EXPECT_EQ(error_of([&] { decode_request(request + "x"); }).status(), QUERN_COMPILE);
  EXPECT_EQ(error_of([&] { decode_answer("x"); }).status(), QUERN_COMPILE);
  EXPECT_EQ(error_of([&] { decode_identity(""); }).status(), QUERN_COMPILE);
}

}  // namespace
}  // namespace quern::jit::helper
