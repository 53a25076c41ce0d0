// What Hopper's matrix products compile to: registers, spills, and the instructions that make them fast.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tests/ops/compiled.h"
#include "tests/ops/disassembler.h"

namespace quern::test {
namespace {

// Each variant with each kind of scale and gate, each of the three ops, and what else changes its main loop or its
// epilogue.
std::vector<std::string> hopper_products() {
  std::vector<std::string> all;
  const auto add = [&](const std::string& op, const std::string& variant, const std::string& rest) {
    all.push_back(op + " sm_90a variant=" + variant + " " + rest);
  };
  for (const std::string scales : {"scales=blocks", "scales=vectors"}) {
    for (const char* variant :
         {"persistent_128x128", "persistent_128x256", "swap_ab_16", "swap_ab_32", "swap_ab_64", "swap_ab_128"}) {
      add("fp8_gemm", variant, scales);
      add("fp8_gemm", variant, scales + " gate=1");
    }
    for (const char* variant :
         {"small_m_64x16", "small_m_64x32", "small_m_64x64", "small_m_128x32", "small_m_128x64"}) {
      add("fp8_gemm", variant, scales);
      add("fp8_gemm", variant, scales + " gate=1");
    }
    for (const char* variant : {"split_k_64x128", "split_k_128x128"}) add("fp8_gemm", variant, scales);
    add("fp8_gemm", "persistent_128x192", scales);
    for (const char* variant : {"persistent_128x128", "persistent_128x192", "persistent_128x256"}) {
      add("grouped_fp8_gemm", variant, "rows=contiguous " + scales);
    }
    add("grouped_fp8_gemm", "persistent_128x128", "rows=contiguous gate=1 " + scales);
    add("grouped_fp8_gemm", "swap_ab_32", "rows=contiguous gate=1 " + scales);
    add("grouped_fp8_gemm", "swap_ab_128", "rows=contiguous " + scales);
    add("fp8_gemm", "persistent_128x256", "out=e4m3 out_scale=1 " + scales);
    add("fp8_gemm", "swap_ab_64", "out=e4m3 out_scale=1 " + scales);
  }
  add("fp8_gemm", "persistent_128x176", "scales=vectors");
  add("fp8_gemm", "persistent_128x176", "scales=vectors out=f16 epilogue=gelu(acc)");
  add("gemm", "persistent_128x176", "dtype=bf16 order_a=km");
  add("fp8_gemm", "persistent_128x192", "scales=vectors out=f32");
  add("fp8_gemm", "persistent_128x192", "scales=blocks out=f16");
  add("fp8_gemm", "overlapped_128x256", "scales=blocks");
  add("fp8_gemm", "overlapped_128x256", "scales=vectors");
  add("fp8_gemm", "overlapped_128x256", "scales=vectors out=f16 epilogue=gelu(acc)");
  add("fp8_gemm", "overlapped_128x256", "scales=blocks out=f16 b=e5m2 epilogue=gelu(acc)");
  add("fp8_gemm", "persistent_128x256", "scales=blocks out=f16 epilogue=gelu(acc)");
  add("fp8_gemm", "persistent_128x256", "scales=vectors a=e5m2");
  add("fp8_gemm", "swap_ab_128", "scales=blocks b=e5m2");
  add("fp8_gemm", "swap_ab_128", "scales=vectors epilogue=gelu(acc+tensor0+col2) operand0=bf16 operand2=f32");
  add("gemm", "persistent_128x128", "dtype=bf16");
  add("gemm", "persistent_128x192", "dtype=bf16 epilogue=gelu(acc+col2) operand2=bf16");
  add("gemm", "persistent_128x256", "dtype=f16 out=f32");
  add("gemm", "persistent_128x256", "dtype=bf16 gate=1");
  add("gemm", "swap_ab_16", "dtype=bf16");
  add("gemm", "swap_ab_32", "dtype=bf16");
  add("gemm", "swap_ab_64", "dtype=f16 gate=1");
  add("gemm", "swap_ab_128", "dtype=f16 out=f32");
  add("fp8_gemm", "small_m_128x64", "scales=vectors a=e5m2 epilogue=gelu(acc+tensor0+col2) operand0=bf16 operand2=f32");
  add("gemm", "small_m_64x16", "dtype=bf16");
  add("gemm", "small_m_64x32", "dtype=f16 gate=1");
  add("gemm", "small_m_64x64", "dtype=bf16 out=f32");
  add("gemm", "small_m_128x32", "dtype=f16");
  add("gemm", "small_m_128x64", "dtype=bf16 gate=1");
  add("fp8_gemm", "split_k_128x128",
      "scales=vectors a=e5m2 epilogue=gelu(acc+tensor0+col2) operand0=bf16 operand2=f32");
  add("gemm", "split_k_64x128", "dtype=bf16");
  add("fp8_gemm", "split_k_128x112", "scales=vectors");
  add("gemm", "split_k_128x112", "dtype=bf16");
  add("gemm", "fitted_96x128", "dtype=bf16");
  add("gemm", "fitted_256x128", "dtype=f16");
  add("fp8_gemm", "fitted_192x128", "scales=vectors");
  add("gemm", "split_k_64x128", "dtype=f16 out=f32");
  // Stored the other way round: b, a and both, in tiles of every width.
  for (const std::string order : {"order_b=kn", "order_a=km", "order_a=km order_b=kn"}) {
    for (const char* variant : {"persistent_128x128", "persistent_128x192", "persistent_128x256"})
      add("gemm", variant, "dtype=bf16 " + order);
    for (const char* variant : {"swap_ab_16", "swap_ab_32", "swap_ab_64", "swap_ab_128"}) {
      add("gemm", variant, "dtype=f16 " + order);
    }
  }
  add("gemm", "persistent_128x256", "dtype=f16 out=f32 order_b=kn gate=1");
  add("gemm", "persistent_128x256", "dtype=bf16 out=e4m3 out_scale=1 order_a=km epilogue=gelu(acc+col2) operand2=bf16");
  add("gemm", "swap_ab_64", "dtype=bf16 order_a=km order_b=kn gate=1");
  return all;
}

// A constant's number.
int constant(const std::string& constants, const std::string& name) {
  const std::size_t at = constants.find(" " + name + "=");
  return at == std::string::npos ? -1 : std::stoi(constants.substr(at + name.size() + 2));
}

// Registers of a thread are given in eights, of the 65 536 that a multiprocessor has.
int most_registers(int threads) { return std::min(65536 / threads / 8 * 8, 255); }

// What setmaxnreg leaves a block's threads with, all warpgroups together: more than the block began with is never to be
// had, and who asks for it waits for ever. Nothing where the kernel has none.
std::optional<int> registers_of_warpgroups(const std::vector<Instruction>& instructions, int warpgroups) {
  std::optional<int> more, fewer;
  for (const Instruction& i : instructions) {
    if (!i.is("USETMAXREG")) continue;
    const std::size_t number = i.operands.find("0x");
    const int registers = number == std::string::npos ? 0 : std::stoi(i.operands.substr(number), nullptr, 16);
    (i.name.find("DEALLOC") == std::string::npos ? more : fewer) = registers;
  }
  if (!more && !fewer) return std::nullopt;
  return 128 * (more.value_or(0) * (warpgroups - 1) + fewer.value_or(0));
}

// The tensor cores' work comes in batches of a stage's four steps, each committed with its last one (gsb0) and not
// waited for within. Warpgroups that take turns commit the first of the four by itself. A compiler that cannot keep
// sums in flight makes a batch of every product.
void expect_batches(const std::vector<Instruction>& instructions, const std::string& product) {
  int products = 0, within = 0, committed = 0;
  for (const Instruction& i : instructions) {
    if (i.is("WARPGROUP.DEPBAR")) {
      EXPECT_EQ(within, 0) << "a wait within a stage's four";
    } else if (i.is("QGMMA") || i.is("HGMMA")) {
      EXPECT_TRUE(i.is(product)) << i.name;
      ++products, ++within;
      if (i.operands.find("gsb0") != std::string::npos) {
        EXPECT_TRUE(within == 4 || (within == 1 && committed == 0)) << "committed after " << within << " of four";
        committed = within % 4, within %= 4;
      }
    }
  }
  EXPECT_GT(products, 0);
  EXPECT_EQ(products % 4, 0);
}

// Between the four products of a stage nothing moves an address from the threads' registers to the warp's, as happens,
// some 12 times, where the compiler does not see that all threads of a warp have the same one. A single move in the
// loop of 256 columns that takes turns, with what waits for it, cost 3% of its time.
int moves_between(const std::vector<Instruction>& instructions) {
  int products = 0, moves = 0;
  for (const Instruction& i : instructions) {
    if (i.is("QGMMA") || i.is("HGMMA")) ++products;
    if (i.is("R2UR") && products % 4 != 0) ++moves;
  }
  return moves;
}

// Of the sums that are scaled one after the other, most find the scale where the one before had it
// (jit/operand_reuse.h).
void expect_scales_kept(const std::vector<Instruction>& instructions) {
  constexpr int kRun = 16;  // shorter ones are other formulas'
  int sums = 0, kept = 0, run = 0, kept_of_run = 0;
  for (const Instruction& i : instructions) {
    if (i.is("FFMA")) {
      ++run;
      if (i.operands.find(".reuse") != std::string::npos) ++kept_of_run;
      continue;
    }
    if (run >= kRun) sums += run, kept += kept_of_run;
    run = kept_of_run = 0;
  }
  EXPECT_GT(4 * kept, 3 * sums) << kept << " of " << sums;
}

// Which operands the products take as they are stored, not k by k.
void expect_orders(const std::vector<Instruction>& instructions, bool first, bool second) {
  for (const Instruction& i : instructions) {
    if (!i.is("QGMMA") && !i.is("HGMMA")) continue;
    EXPECT_EQ(i.operands.find(".tnspA") != std::string::npos, first) << i.name << ' ' << i.operands;
    EXPECT_EQ(i.operands.find(".tnspB") != std::string::npos, second) << i.name << ' ' << i.operands;
  }
}

class HopperMachineCode : public testing::Test {
 protected:
  void SetUp() override {
    if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
    context_ = compiling_context();
    std::string why;
    if (!has_compiler(context_.get(), "sm_90a", &why)) GTEST_SKIP() << why;
    std::string manifest;
    for (const std::string& line : hopper_products()) manifest += line + "\n";
    warmed_ = warm(context_.get(), {"sm_90a"}, manifest);
    ASSERT_EQ(warmed_.size(), hopper_products().size());
    expect_compiled(warmed_);
  }
  void each(const std::function<void(const quern_entry&, const std::string& constants)>& look) {
    each_entry(context_.get(), "sm_90a", warmed_, [&](const quern_entry& entry) {
      const std::string constants = constants_of(entry);
      SCOPED_TRACE(std::string(entry.op) + " " + entry.entry_name + constants);
      look(entry, constants);
    });
  }

  Context context_;
  std::vector<Warmed> warmed_;
};

TEST_F(HopperMachineCode, HasRoomAndDoesNotSpill) {
  std::printf("%4s %6s %6s %6s  %s\n", "regs", "local", "static", "ms", "kernel");
  each([](const quern_entry& entry, const std::string& constants) {
    std::printf("%4d %6d %6d %6.0f  %s %s%s\n", entry.registers, entry.local_bytes, entry.shared_bytes,
                entry.compile_ms, entry.op, entry.entry_name, constants.c_str());
    EXPECT_EQ(entry.local_bytes, 0) << "spills";
    EXPECT_GE(entry.registers, 16);
    EXPECT_LE(entry.registers, most_registers(constant(constants, "THREADS") * constant(constants, "BLOCKS_PER_SM")));
    // Half a second where nothing else runs; machines differ, and tests run side by side.
    EXPECT_LT(entry.compile_ms, 30000.0);
    // Such as (C7510) to (C7514): "wgmma.mma_async instructions are serialized due to ...".
    EXPECT_STREQ(entry.log, "");
  });
}

TEST_F(HopperMachineCode, IsMadeOfTheInstructionsThatItShould) {
  std::optional<Disassembler> disassembler;
  each([&](const quern_entry& entry, const std::string& constants) {
    const std::string image = image_of(context_.get(), entry);
    if (!disassembler) disassembler.emplace(image);
    if (!disassembler->found()) return;
    const std::vector<Instruction> instructions = disassembler->read(image);
    ASSERT_FALSE(instructions.empty());
    const auto count = [&](const char* family) {
      return std::count_if(instructions.begin(), instructions.end(),
                           [&](const Instruction& i) { return i.is(family); });
    };
    EXPECT_EQ(count("LDL") + count("STL"), 0) << "spills";
    EXPECT_GT(count("UTMALDG"), 0) << "copies by tensor map";
    EXPECT_GT(count("SYNCS"), 0) << "waits for them";
    // Sums that are sent out of registers, sixteen bytes at a time; by fitted tiles of which one warpgroup has all
    // columns, none.
    const bool fitted = std::string(entry.entry_name) == "quern_gemm_fitted";
    const bool sends = fitted && constant(constants, "TILE_M") == 128;
    EXPECT_EQ(count("STAS") > 0, sends || std::string(entry.entry_name) == "quern_gemm_split_k");
    EXPECT_EQ(count("STAS"), count("STAS.128"));
    expect_batches(instructions, std::string(entry.op) == "gemm" ? "HGMMA" : "QGMMA");
    const bool as_stored = constant(constants, "TRANSPOSED_A") + constant(constants, "TRANSPOSED_B") == 0;
    if (std::string(entry.entry_name) == "quern_gemm_persistent" && as_stored) {
      const bool turns = constant(constants, "SCALED") == 1 && constant(constants, "OVERLAPPED_EPILOGUE") == 0;
      const bool dense = constant(constants, "GROUPING") == 0;
      // Before the loops. Scaled 8-bit results move one register more.
      const int wide = constant(constants, "OUT_SCALE");
      const int most = turns && dense && constant(constants, "TILE_N") == 256 ? wide : 6;
      EXPECT_LE(moves_between(instructions), most) << constants;
      // Gates and other formulas have long runs of their own.
      if (constant(constants, "BLOCK_SCALE") == 1 && constants.ends_with(" EPILOGUE=acc"))
        expect_scales_kept(instructions);
    }
    // Few rows are multiplied the other way round, as the second operand.
    const bool swapped = std::string(entry.entry_name) == "quern_gemm_swap_ab";
    const bool a = constant(constants, "TRANSPOSED_A") == 1, b = constant(constants, "TRANSPOSED_B") == 1;
    expect_orders(instructions, swapped ? b : a, swapped ? a : b);
    const int threads = constant(constants, "THREADS");
    const auto registers = registers_of_warpgroups(instructions, threads / 128);
    EXPECT_EQ(registers.has_value(), fitted || std::string(entry.entry_name) == "quern_gemm_persistent");
    EXPECT_LE(registers.value_or(0), entry.registers * threads);
  });
  ASSERT_TRUE(disassembler.has_value());
  if (!disassembler->found()) GTEST_SKIP() << disassembler->told();
  std::printf("disassembled by %s\n", disassembler->told().c_str());
}

}  // namespace
}  // namespace quern::test
