// The fences that `host` cannot miss, in the machine code of sm_90a: its processors keep the order of stores, its
// copies see what threads have written, and its grids never overlap. What a kernel's source asks for must be there, as
// often.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tests/ops/compiled.h"
#include "tests/ops/disassembler.h"

namespace quern::test {
namespace {

struct Expected {
  const char* line;
  std::map<std::string, int> least;
};

// ACQBULK waits for the previous grid (griddepcontrol.wait), PREEXIT lets the next one begin. FENCE.VIEW.ASYNC is
// fence.proxy.async: ordinary writes of shared memory, then bulk copies or warpgroups' products that read it. MEMBAR
// orders writes for the whole device.
const std::vector<Expected>& expected() {
  static const std::string attention =
      " dtype=bf16 q=bf16 cache=bf16 scales=head dim_k=128 dim_v=128 group=4 page_size=64 cap=0 alibi=0 sinks=0 mask=0 "
      "alignment=16";
  static const std::string streams = "attention sm_90a variant=streams" + attention,
                           medium = "attention sm_90a variant=medium" + attention,
                           warpgroups = "attention sm_90a variant=warpgroups" + attention,
                           widened =
                               "attention sm_90a variant=warpgroups dtype=bf16 cache=e4m3 dim_k=128 group=4 "
                               "page_size=64";
  static const std::vector<Expected> all = {
      {"merge_state sm_90a dtype=bf16", {{"ACQBULK", 1}, {"PREEXIT", 1}}},
      // Whoever comes last joins what others have written: the counter is raised behind these, and in front of what is
      // read.
      {medium.c_str(), {{"ACQBULK", 1}, {"PREEXIT", 1}, {"MEMBAR.ALL.GPU", 1}, {"CCTL.IVALL", 1}}},
      {streams.c_str(),
       {{"ACQBULK", 3}, {"PREEXIT", 1}, {"MEMBAR.ALL.GPU", 1}, {"CCTL.IVALL", 1}, {"FENCE.VIEW.ASYNC", 3}}},
      {warpgroups.c_str(),
       {{"ACQBULK", 1}, {"PREEXIT", 1}, {"MEMBAR.ALL.GPU", 1}, {"CCTL.IVALL", 1}, {"FENCE.VIEW.ASYNC", 4}}},
      {widened.c_str(),
       {{"ACQBULK", 1}, {"PREEXIT", 1}, {"MEMBAR.ALL.GPU", 1}, {"CCTL.IVALL", 1}, {"FENCE.VIEW.ASYNC", 6}}},
      {"attention sm_90a variant=wide_pairs dtype=bf16 dim_k=512 group=4 page_size=64",
       {{"ACQBULK", 1}, {"PREEXIT", 1}, {"MEMBAR.ALL.GPU", 1}, {"CCTL.IVALL", 1}, {"FENCE.VIEW.ASYNC", 3}}},
      // Results that leave by bulk copies, and partial sums that other blocks read.
      {"gemm sm_90a variant=persistent_128x128 dtype=bf16",
       {{"ACQBULK", 2}, {"PREEXIT", 1}, {"FENCE.VIEW.ASYNC", 3}, {"MEMBAR.ALL.GPU", 2}, {"UTMASTG", 1}}},
      {"gemm sm_90a variant=split_k_64x128 dtype=bf16", {{"ACQBULK", 2}, {"PREEXIT", 1}, {"FENCE.VIEW.ASYNC", 2}}},
      {"gemm sm_90a variant=swap_ab_64 dtype=f16",
       {{"ACQBULK", 2}, {"PREEXIT", 1}, {"FENCE.VIEW.ASYNC", 1}, {"MEMBAR.ALL.GPU", 1}}},
      // Windows that came by ordinary copies, and results that leave by bulk copies.
      {"conv2d sm_90a kernel=persistent dtype=bf16 tile=128x128 places_first=0 bias=1 activation=none",
       {{"ACQBULK", 1}, {"PREEXIT", 1}, {"FENCE.VIEW.ASYNC", 6}, {"UTMASTG", 1}}},
      // A tensor's scale, by whoever comes last, of what all blocks have found.
      {"quantize sm_90a x=bf16 out=e4m3 front=none scale=find columns=1024", {{"ACQBULK", 1}, {"MEMBAR.SC.GPU", 2}}},
      {"quantize sm_90a x=bf16 out=e4m3 front=rmsnorm scale=find weight=bf16 columns=8192",
       {{"ACQBULK", 1}, {"MEMBAR.SC.GPU", 2}}},
  };
  return all;
}

TEST(Fences, AreInTheMachineCode) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), "sm_90a", &why)) GTEST_SKIP() << why;
  std::optional<Disassembler> disassembler;
  for (const Expected& each : expected()) {
    SCOPED_TRACE(each.line);
    const std::vector<Warmed> warmed = warm(context.get(), {"sm_90a"}, std::string(each.line) + "\n");
    ASSERT_EQ(warmed.size(), 1u);
    expect_compiled(warmed);
    each_entry(context.get(), "sm_90a", warmed, [&](const quern_entry& entry) {
      const std::string image = image_of(context.get(), entry);
      if (!disassembler) disassembler.emplace(image);
      if (!disassembler->found()) return;
      const std::vector<Instruction> instructions = disassembler->read(image);
      ASSERT_FALSE(instructions.empty());
      for (const auto& [family, least] : each.least) {
        const auto count = std::count_if(instructions.begin(), instructions.end(),
                                         [&wanted = family](const Instruction& i) { return i.is(wanted); });
        EXPECT_GE(count, least) << family;
      }
    });
  }
  if (!disassembler->found()) GTEST_SKIP() << disassembler->told();
}

}  // namespace
}  // namespace quern::test
