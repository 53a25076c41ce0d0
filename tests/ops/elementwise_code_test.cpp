// What pointwise and copy compile to for sm_90a: no spills, and 16 bytes at a time where all is side by side.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/ops/compiled.h"
#include "tests/ops/disassembler.h"

namespace quern::test {
namespace {

const std::string kEightOperands =
    "pointwise sm_90a results=4 expression=tensor0*tensor4 expression1=tensor1*tensor5 expression2=tensor2*tensor6 "
    "expression3=tensor3*tensor7 width=8 operand0=f16 operand1=f16 operand2=f16 operand3=f16 operand4=f16 "
    "operand5=f16 operand6=f16 operand7=f16 out=f16 out1=f16 out2=f16 out3=f16";
const std::vector<std::string> kLines = {
    "pointwise sm_90a expression=silu(tensor0)*tensor1 width=8 operand0=bf16 operand1=bf16 out=bf16",
    "pointwise sm_90a expression=tensor0+tensor1 rank=2 width=4 operand0=f32 operand1=f32 out=f32",
    kEightOperands,
    "pointwise sm_90a expression=abs(integer0) width=16 operand0=int8 out=int8",
    "copy sm_90a from=int16 to=int16 rank=2 width=8",
    "copy sm_90a form=transpose from=uint8 to=uint8 rank=2 width=16 from_width=16",
    "copy sm_90a form=transpose from=int32 to=int32 rank=2 width=4 from_width=4",
    "copy sm_90a form=transpose from=int64 to=int64 rank=4 width=2 from_width=2",
};

TEST(ElementwiseMachineCode, Moves16BytesAtOnceWithoutSpills) {
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), "sm_90a", &why)) GTEST_SKIP() << why;
  std::string manifest;
  for (const std::string& line : kLines) manifest += line + "\n";
  const std::vector<Warmed> warmed = warm(context.get(), {}, manifest);
  expect_compiled(warmed);
  std::optional<Disassembler> disassembler;
  std::size_t seen = 0;
  each_entry(context.get(), "sm_90a", warmed, [&](const quern_entry& entry) {
    SCOPED_TRACE(constants_of(entry));
    ++seen;
    EXPECT_EQ(entry.local_bytes, 0);
    const std::string image = image_of(context.get(), entry);
    if (!disassembler) disassembler.emplace(image);
    if (!disassembler->found()) return;
    int loads = 0, stores = 0;
    for (const Instruction& i : disassembler->read(image)) {
      const bool wide = i.name.find(".128") != std::string::npos;
      loads += i.is("LDG") && wide ? 1 : 0, stores += i.is("STG") && wide ? 1 : 0;
    }
    EXPECT_GE(loads, 1);
    EXPECT_GE(stores, 1);
  });
  EXPECT_EQ(seen, kLines.size());
}

}  // namespace
}  // namespace quern::test
