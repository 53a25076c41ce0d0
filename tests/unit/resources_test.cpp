// Reading register, shared memory and stack use out of what the compilers say.
// SPDX-License-Identifier: Apache-2.0
#include "jit/resources.h"

#include <gtest/gtest.h>

namespace quern::jit {
namespace {

TEST(Resources, PtxasReport) {
  const PtxasReport report = read_ptxas_report(
      "k.cu(3): warning: declared but never referenced\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
      "ptxas info    : Function properties for other\n"
      "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 54 registers, used 1 barriers, 400 bytes cumulative stack size, 128 bytes smem\n"
      "ptxas info    : Compile time = 23.637 ms\n"
      "ptxas warning : something to know",
      "k");
  EXPECT_EQ(report.resources.registers, 54);
  EXPECT_EQ(report.resources.shared_bytes, 128);
  EXPECT_EQ(report.resources.local_bytes, 400);
  EXPECT_EQ(report.entries, (std::vector<std::string>{"other", "k"}));
  EXPECT_EQ(report.rest, "k.cu(3): warning: declared but never referenced\nptxas warning : something to know");
}

TEST(Resources, AreThoseOfTheKernelWhateverFollows) {
  const PtxasReport report = read_ptxas_report(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Used 54 registers, 128 bytes smem\n"
      "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
      "ptxas info    : Used 255 registers, 1024 bytes smem\n",
      "k");
  EXPECT_EQ(report.resources.registers, 54);
  EXPECT_EQ(report.resources.shared_bytes, 128);
}

TEST(Resources, HintsStayInTheLog) {
  const PtxasReport report = read_ptxas_report(
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "insufficient register resources for the wgmma pipeline in the function 'k'\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Used 30 registers, used 0 barriers\n",
      "k");
  EXPECT_EQ(report.resources.registers, 30);
  EXPECT_EQ(report.rest,
            "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
            "insufficient register resources for the wgmma pipeline in the function 'k'\n");
}

TEST(Resources, AReportWithoutTheKernel) {
  const PtxasReport report = read_ptxas_report("", "k");
  EXPECT_EQ(report.resources.registers, -1);
  EXPECT_EQ(report.resources.shared_bytes, -1);
  EXPECT_EQ(report.resources.local_bytes, -1);
  EXPECT_TRUE(report.entries.empty());
}

TEST(Resources, CodeObject) {
  const std::string_view kernel =
      "..\xb9.group_segment_fixed_size\xcc\x80\xbb.private_segment_fixed_size\xcd\x01\xa0\xab.vgpr_count!..";
  const Resources one = read_code_object(kernel);
  EXPECT_EQ(one.registers, 33);
  EXPECT_EQ(one.shared_bytes, 128);
  EXPECT_EQ(one.local_bytes, 416);
  const Resources two = read_code_object(std::string(kernel) + std::string(kernel));
  EXPECT_EQ(two.registers, -1);
  EXPECT_EQ(read_code_object("\xab.vgpr_count").registers, -1);
  EXPECT_EQ(read_code_object("").registers, -1);
}

}  // namespace
}  // namespace quern::jit
