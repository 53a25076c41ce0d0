// copy against a loop: moved to the bit, cast, transposed through shared memory, parts in one call, filled; and its
// refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <ostream>

#include "tests/ops/compiled.h"
#include "tests/ops/field.h"
#include "tests/ops/manifest.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "copy * from=int16 to=int16 width=8",
    "copy * from=e4m3 to=int64 rank=4 width=2 parts=16 wide=1",
    "copy * form=transpose from=uint8 to=uint8 rank=2 width=16 from_width=16",
    "copy * form=transpose from=int64 to=int64 rank=3 width=2 from_width=1",
    "copy * form=transpose from=bf16 to=f32 rank=2 width=4 from_width=8",
    "copy * form=tiles from=bf16 to=e4m3 rank=4 width=1",
};

constexpr ThreeCalls<quern_copy_args> kCalls = {quern_copy, quern_copy_workspace, quern_copy_prepare};

// A call with its parts; an input that is missing is filled.
class Copying {
 public:
  Copying() : args(sized<quern_copy_args>()) {}

  void part(std::unique_ptr<Field> in, std::unique_ptr<Field> out) {
    ins.push_back(std::move(in)), outs.push_back(std::move(out));
  }
  void part(Stored from, Extents in_shape, Extents in_strides, Stored to, Extents shape, Extents strides,
            std::int64_t in_offset = 0, std::int64_t offset = 0) {
    part(std::make_unique<Field>(from, std::move(in_shape), std::move(in_strides), in_offset),
         std::make_unique<Field>(to, std::move(shape), std::move(strides), offset));
  }
  void fill(std::string_view name) {
    Random random(name);
    for (const auto& one : ins) {
      if (one != nullptr) one->fill(random);
    }
  }
  void set() {
    inputs_.clear(), outputs_.clear();
    for (std::size_t i = 0; i < ins.size(); ++i) {
      inputs_.push_back(ins[i] != nullptr ? ins[i]->tensor() : nullptr), outputs_.push_back(outs[i]->tensor());
      if (ins[i] != nullptr) ins[i]->upload();
      outs[i]->upload();
    }
    args.inputs = inputs_.data(), args.input_count = static_cast<std::uint32_t>(inputs_.size());
    args.outputs = outputs_.data(), args.output_count = static_cast<std::uint32_t>(outputs_.size());
  }
  void run(quern_context* in = context()) {
    set();
    ASSERT_NO_FATAL_FAILURE(run_op(in, kCalls, args));
    for (const auto& one : outs) one->download();
  }
  void check() {
    for (std::size_t i = 0; i < ins.size(); ++i) {
      const Field& out = *outs[i];
      std::int64_t wrong = 0;
      each_index(out.shape(), [&](const Extents& at) {
        Held expected = stored(out.type(), args.fill);
        if (ins[i] != nullptr) {
          const Held held = ins[i]->get(at);
          const bool whole = is_whole(ins[i]->type());
          expected = ins[i]->type() == out.type() ? held
                     : whole && is_whole(out.type())
                         ? stored_whole(out.type(), held.whole)
                         : stored(out.type(), whole ? static_cast<double>(static_cast<float>(held.whole)) : held.real);
        }
        if (out.get(at) == expected || wrong++ >= 3) return;
        ADD_FAILURE() << "part " << i << ": " << out.get(at).real << " or " << out.get(at).whole << ", not "
                      << expected.real << " or " << expected.whole;
      });
      EXPECT_EQ(wrong, 0) << "QUERN_TEST_SEED=" << run_seed();
      EXPECT_TRUE(out.is_clean_outside());
    }
  }

  quern_copy_args args;
  std::vector<std::unique_ptr<Field>> ins, outs;

 private:
  std::vector<const DLTensor*> inputs_, outputs_;
};

struct CopyCase {
  std::string name;
  std::function<void(Copying&)> parts;
  int alignment = 0, max_sms = 0;
  bool unfair = false;
};
void PrintTo(const CopyCase& c, std::ostream* out) { *out << c.name; }

std::vector<CopyCase> copy_cases() {
  std::vector<CopyCase> cases;
  const auto add = [&](std::string name, std::function<void(Copying&)> parts, int alignment = 0) {
    cases.push_back({std::move(name), std::move(parts), alignment});
  };
  // Casts along rows, of numbers and of integers.
  const std::pair<Stored, Stored> casts[] = {
      {Stored::f32, Stored::bf16}, {Stored::e5m2, Stored::f32},    {Stored::f16, Stored::e4m3},
      {Stored::i64, Stored::f16},  {Stored::i64, Stored::i8},      {Stored::bf16, Stored::i32},
      {Stored::u8, Stored::i16},   {Stored::i32, Stored::boolean}, {Stored::boolean, Stored::f32}};
  for (const auto& [from, to] : casts) {
    add(std::string(name_of(from)) + "_to_" + name_of(to),
        [from = from, to = to](Copying& c) { c.part(from, {3, 401}, {}, to, {3, 401}, {408, 1}); });
  }
  // Each size of element through shared memory, of extents that fill no tile and rows that begin anywhere.
  for (const Stored type : {Stored::i8, Stored::f16, Stored::f32, Stored::i64}) {
    const std::string name = std::string("transposes_") + name_of(type);
    add(name, [type](Copying& c) { c.part(type, {2, 272, 144}, {144 * 272, 1, 272}, type, {2, 272, 144}, {}); });
    add(name + "_ragged", [type](Copying& c) { c.part(type, {131, 203}, {1, 131}, type, {131, 203}, {}); });
    add(name + "_tails", [type](Copying& c) { c.part(type, {133, 150}, {1, 144}, type, {133, 150}, {160, 1}); });
  }
  add(
      "transposes_at_8_bytes",
      [](Copying& c) { c.part(Stored::f16, {140, 148}, {1, 140}, Stored::f16, {140, 148}, {}, 8, 8); }, 8);
  add("transposes_to_e4m3",
      [](Copying& c) { c.part(Stored::bf16, {150, 140}, {1, 152}, Stored::e4m3, {150, 140}, {144, 1}); });
  add("transposes_to_int64", [](Copying& c) { c.part(Stored::i8, {150, 131}, {1, 150}, Stored::i64, {150, 131}, {}); });
  add("permutes", [](Copying& c) {
    c.part(Stored::f16, {5, 33, 4, 40}, {40, 4 * 5 * 40, 5 * 40, 1}, Stored::f16, {5, 33, 4, 40}, {});
    c.part(Stored::f16, {40, 5, 3, 33}, {1, 40, 33 * 5 * 40, 5 * 40}, Stored::f16, {40, 5, 3, 33}, {});
  });
  // So few elements that they take another way.
  add("permutes_few", [](Copying& c) {
    c.part(Stored::f32, {3, 65, 2, 34}, {34, 2 * 3 * 34, 3 * 34, 1}, Stored::e5m2, {3, 65, 2, 34}, {});
    c.part(Stored::f32, {34, 3, 2, 65}, {1, 34, 65 * 3 * 34, 3 * 34}, Stored::e5m2, {34, 3, 2, 65}, {});
  });
  add("transposes_few", [](Copying& c) { c.part(Stored::i64, {70, 33}, {1, 70}, Stored::i64, {70, 33}, {}); });
  add("too_narrow_to_transpose",
      [](Copying& c) { c.part(Stored::f32, {300, 3}, {1, 300}, Stored::f32, {300, 3}, {}); });
  add("backwards", [](Copying& c) {
    c.part(Stored::f32, {40, 24}, {24, 1}, Stored::f32, {40, 24}, {-24, -1});
    c.part(Stored::f32, {40, 24}, {-24, -1}, Stored::f32, {40, 24}, {24, 1});
  });
  add("repeats_with_tails",
      [](Copying& c) { c.part(Stored::bf16, {50, 133}, {1, 0}, Stored::bf16, {50, 133}, {136, 1}); });
  add("repeats", [](Copying& c) {
    c.part(Stored::bf16, {6, 1, 40}, {}, Stored::bf16, {6, 3, 40}, {});
    c.part(Stored::bf16, {50, 1}, {}, Stored::bf16, {50, 7}, {});
    c.part(Stored::bf16, {}, {}, Stored::bf16, {2, 3, 4}, {});
  });
  // A split, of parts whose lengths differ, one of them none.
  add("parts", [](Copying& c) {
    for (const std::int64_t n : {128, 7, 0, 33, 64, 1, 8, 16, 24})
      c.part(Stored::f32, {9, n}, {300, 1}, Stored::f32, {9, n}, {});
  });
  for (const Stored type : kAllStored) {
    add(std::string("fills_") + name_of(type), [type](Copying& c) {
      c.args.fill = is_whole(type) ? 100 : 1.7;
      c.part(nullptr, std::make_unique<Field>(type, Extents{7, 9}, Extents{24, 1}));
      c.part(std::make_unique<Field>(type, Extents{3, 8}), std::make_unique<Field>(type, Extents{3, 8}, Extents{1, 3}));
    });
  }
  add("fills_beyond", [](Copying& c) {
    c.args.fill = -1e30;
    for (const Stored type : {Stored::f16}) c.part(nullptr, std::make_unique<Field>(type, Extents{70}));
  });
  add("nothing", [](Copying& c) { c.part(Stored::f32, {0, 4}, {}, Stored::f32, {0, 4}, {}); });
  add("one", [](Copying& c) { c.part(Stored::i64, {}, {}, Stored::i64, {}, {}); });
  add("six_dimensions", [](Copying& c) {
    c.part(Stored::i8, {2, 3, 2, 3, 2, 5}, {5, 10, 30, 60, 180, 1}, Stored::i8, {2, 3, 2, 3, 2, 5}, {});
  });
  // Rows that are shorter than a vector, and begin anywhere: nothing is read behind them.
  add("less_than_a_vector", [](Copying& c) { c.part(Stored::f32, {3}, {}, Stored::f32, {3}, {}); });
  add("single_elements", [](Copying& c) {
    c.part(Stored::f32, {1}, {}, Stored::f32, {1}, {}, 4, 0);
    c.part(Stored::f32, {1}, {}, Stored::f32, {1}, {}, 0, 12);
  });
  // Loops over more tiles than there are blocks.
  add("few_sms", [](Copying& c) {
    c.part(Stored::i8, {40'003}, {}, Stored::i8, {40'003}, {});
    c.part(Stored::i8, {900, 300}, {1, 900}, Stored::i8, {900, 300}, {});
  });
  cases.back().max_sms = 1;
  for (const char* which : {"transposes_f16_ragged", "parts", "few_sms"}) {
    const auto of = std::find_if(cases.begin(), cases.end(), [&](const CopyCase& c) { return c.name == which; });
    CopyCase unfair = *of;
    unfair.name += "_unfair", unfair.unfair = true;
    cases.push_back(unfair);
  }
  return cases;
}

class Copy : public testing::TestWithParam<CopyCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, Copy, testing::ValuesIn(copy_cases()),
                         [](const testing::TestParamInfo<CopyCase>& test) { return test.param.name; });

TEST_P(Copy, PutsEveryElementInItsPlace) {
  const CopyCase& c = GetParam();
  Copying copying;
  c.parts(copying);
  copying.args.alignment = c.alignment, copying.args.max_sms = c.max_sms;
  copying.fill(c.name);
  const Context unfair = c.unfair ? unfair_context(3) : nullptr;
  ASSERT_NO_FATAL_FAILURE(copying.run(c.unfair ? unfair.get() : context()));
  copying.check();
}

// Any layouts of any shapes on both sides.
TEST(CopyLayouts, AreAnyOnBothSides) {
  const Extents extents = {1, 2, 3, 8, 17, 40};
  for (std::uint64_t round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    Random random("copied" + std::to_string(round));
    Extents shape(1 + random.below(5));
    for (std::int64_t& extent : shape) extent = extents[random.below(extents.size())];
    while (count_of(shape) > 20000) shape.pop_back();
    Copying c;
    c.part(Stored::f16, shape, any_strides(random, shape), Stored::f16, shape, any_strides(random, shape));
    c.fill("copied values" + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(c.run());
    c.check();
  }
}

// A NaN keeps its bits, and types without arithmetic here are moved as well.
TEST(CopyBits, AreNotLookedAt) {
  Copying c;
  c.part(Stored::f32, {64}, {}, Stored::f32, {64}, {});
  const float nans[] = {std::nanf("1"), std::nanf("12345"), -std::nanf("77")};
  for (std::int64_t i = 0; i < 64; ++i) c.ins[0]->set({static_cast<double>(nans[i % 3]), 0}, {i});
  c.ins[0]->change().dtype = c.outs[0]->change().dtype = {kDLUInt, 32, 1};
  ASSERT_NO_FATAL_FAILURE(c.run());
  EXPECT_EQ(c.ins[0]->memory(), c.outs[0]->memory());
}

// Rows that are 4 GiB apart, in memory of which two pages are touched.
TEST(CopyFar, ReachesBeyond32Bits) {
  if (on_cuda()) GTEST_SKIP() << "takes memory of the host's";
  constexpr std::size_t kBytes = (std::size_t{4} << 30) + 4096;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no room for 4 GiB of addresses";
  Copying c;
  c.part(Stored::i8, {2, 77}, {}, Stored::i8, {2, 77}, {});
  c.fill("far");
  c.set();
  DLTensor far = *c.outs[0]->tensor();
  std::int64_t strides[] = {std::int64_t{1} << 32, 1};
  far.data = memory, far.byte_offset = 0, far.strides = strides;
  const DLTensor* outputs[] = {&far};
  c.args.outputs = outputs;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_copy(context(), &c.args, &error), QUERN_OK) << error.text;
  const auto* to = static_cast<const signed char*>(memory);
  each_index({2, 77}, [&](const Extents& at) { EXPECT_EQ(to[(at[0] << 32) + at[1]], c.ins[0]->get(at).whole); });
  munmap(memory, kBytes);
}

// One preparation serves every shorter first dimension, of rows and of a transpose.
TEST(CopyPrepared, ServesFewerRows) {
  const Context own = make_context();
  for (const Extents& strides : {Extents{40, 1}, Extents{1, 72}}) {
    Copying c;
    c.part(Stored::f16, {70, 40}, strides, Stored::f16, {70, 40}, {});
    c.fill("prepared");
    c.set();
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_copy_prepare(own.get(), &c.args, &error), QUERN_OK) << error.text;
    c.args.flags |= QUERN_CALL_CACHED_ONLY;
    for (std::int64_t rows = 70; rows >= 0; --rows) {
      c.ins[0]->extents()[0] = c.outs[0]->extents()[0] = rows;
      ASSERT_EQ(quern_copy(own.get(), &c.args, &error), QUERN_OK) << rows << ": " << error.text;
    }
  }
}

struct RefusableCopy : Copying {
  RefusableCopy() {
    part(Stored::f32, {6, 8}, {}, Stored::bf16, {6, 8}, {});
    part(Stored::f32, {8}, {}, Stored::bf16, {6, 8}, {});
    fill("refusals");
    set();
  }
  std::vector<const DLTensor*> other{17, nullptr};
};

TEST(CopyRefuses, EveryWrongArgument) {
  using C = RefusableCopy&;
  const std::vector<Mistake<RefusableCopy>> mistakes = {
      {"inputs NULL", {"inputs", "NULL"}, [](C c) { c.args.inputs = nullptr; }},
      {"outputs NULL", {"outputs", "NULL"}, [](C c) { c.args.outputs = nullptr; }},
      {"no parts", {"input_count", "0"}, [](C c) { c.args.input_count = 0; }},
      {"too many parts", {"input_count", "17"}, [](C c) { c.args.input_count = 17; }},
      {"fewer outputs", {"output_count", "1"}, [](C c) { c.args.output_count = 1; }},
      {"an output missing", {"outputs[0]", "NULL"}, [](C c) { c.args.outputs = c.other.data(); }},
      {"another dtype in", {"inputs[1]", "f16", "f32"}, [](C c) { c.ins[1]->change().dtype = {kDLFloat, 16, 1}; }},
      {"another dtype out", {"outputs[1]", "f16", "bf16"}, [](C c) { c.outs[1]->change().dtype = {kDLFloat, 16, 1}; }},
      {"a cast that is none",
       {"inputs[0]", "float64", "f32"},
       [](C c) {
         for (const auto& one : c.ins) one->change().dtype = {kDLFloat, 64, 1};
       }},
      {"a size that is none",
       {"inputs[0]", "complex128"},
       [](C c) { c.ins[0]->change().dtype = {kDLComplex, 128, 1}; }},
      {"an extent", {"inputs[1].shape[0]", "7", "outputs[1].shape[1]"}, [](C c) { c.ins[1]->extents()[0] = 7; }},
      {"rank 7", {"outputs[0].ndim", "7", "0 to 6"}, [](C c) { c.outs[0]->change().ndim = 7; }},
      {"elements over each other", {"outputs[0].strides[0]", "7"}, [](C c) { c.outs[0]->strides()[0] = 7; }},
      {"outputs over each other",
       {"outputs[1]", "outputs[0]"},
       [](C c) { c.outs[1]->change().data = c.outs[0]->change().data; },
       true},
      {"an input over an output",
       {"inputs[1]", "lies over outputs[0]"},
       [](C c) { c.ins[1]->change().data = c.outs[0]->change().data; },
       true},
      {"without data", {"inputs[0]", "NULL"}, [](C c) { c.ins[0]->change().data = nullptr; }, true},
      {"data's alignment", {"outputs[1]", "data", "16"}, [](C c) { c.outs[1]->change().byte_offset += 2; }, true},
      {"another device", {"inputs[0]", "ROCm"}, [](C c) { c.ins[0]->change().device.device_type = kDLROCM; }},
      {"alignment 3", {"alignment", "3"}, [](C c) { c.args.alignment = 3; }},
      {"max_sms negative", {"max_sms", "-1"}, [](C c) { c.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](C c) { c.args.flags = 1u << 18; }},
      {"no size", {"size"}, [](C c) { c.args.size = 0; }},
  };
  expect_all_refused(
      mistakes, kCalls, [] { return std::make_unique<RefusableCopy>(); },
      [](RefusableCopy& one) {
        return [&one] {
          one.outs[0]->download(), one.outs[1]->download();
          return one.outs[0]->is_untouched() && one.outs[1]->is_untouched();
        };
      });
}

TEST(CopyRefuses, FillsOfWhatIsOnlyMoved) {
  Copying c;
  c.part(nullptr, std::make_unique<Field>(Stored::i64, Extents{4}));
  c.outs[0]->change().dtype = {kDLFloat, 64, 1};
  c.args.fill = 2;
  c.set();
  expect_refused({"fill", "2"}, [&](quern_error* e) { return quern_copy(context(), &c.args, e); });
}

TEST(CopyRefuses, ManifestLinesThatNoCallCouldAskFor) {
  const std::pair<const char*, const char*> lines[] = {
      {"copy host from=bf16 to=bf16 width=8", "int16"},
      {"copy host from=int16 to=f32 width=8", "up to 4"},
      {"copy host form=transpose from=int32 to=int32 rank=1 width=4 from_width=4", "2 to 6"},
      {"copy host form=transpose from=int32 to=int32 rank=2 width=4 from_width=8", "up to 4"},
  };
  for (const auto& [line, word] : lines) {
    const std::vector<Warmed> warmed = warm(context(), {}, line, nullptr, QUERN_WARM_LIST_ONLY);
    ASSERT_EQ(warmed.size(), 1u);
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find(word), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
