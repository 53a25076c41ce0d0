// Bulk copies against plain loops: every rank, every swizzle, boxes that lie partly or wholly outside the tensor.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "tests/hopper/device.h"

namespace quern::hopper_tests {
namespace {

enum Mode : int { kLoad, kStore, kAdd, kPlainLoad, kPlainStore, kPlainAdd };
constexpr std::uint32_t kSharedBytes = 65536;

struct Params {
  void* image;
  void* memory;
  std::uint32_t bytes;
  int mode;
  int at[5];
};

struct Case {
  const char* name;
  int data_type;
  std::size_t element;
  std::vector<std::uint64_t> extent;
  std::vector<std::uint32_t> box;
  std::vector<int> at;
  int swizzle;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::size_t product_of(const auto& list) {
  return std::accumulate(list.begin(), list.end(), std::size_t{1}, [](std::size_t a, auto b) { return a * b; });
}

// A box's elements as they lie in shared memory: `visit(byte in shared memory, element's index in the tensor or -1)`.
// The swizzle, written out: within 1024 bytes there are 8 lines of 128 bytes of 8 pieces, and a line's number is laid
// over its pieces' numbers, all three bits of it, two or one.
template <class Visit>
void for_each_element(const Case& c, Visit visit) {
  const std::size_t count = product_of(c.box);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t index = 0, step = 1;
    bool inside = true;
    for (std::size_t d = 0, rest = i; d < c.box.size(); rest /= c.box[d], ++d) {
      const std::int64_t at = c.at[d] + static_cast<std::int64_t>(rest % c.box[d]);
      inside = inside && at >= 0 && at < static_cast<std::int64_t>(c.extent[d]);
      index += at * step;
      step *= static_cast<std::int64_t>(c.extent[d]);
    }
    const std::size_t byte = i * c.element;
    const std::size_t line = byte / 128 % 8, piece = byte / 16 % 8;
    const std::size_t over = c.swizzle == 3 ? line : c.swizzle == 2 ? line % 4 : c.swizzle == 1 ? line % 2 : 0;
    visit(byte / 128 * 128 + (piece ^ over) * 16 + byte % 16, inside ? index : -1);
  }
}

std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> list(bytes);
  for (std::size_t i = 0; i < bytes; ++i) list[i] = static_cast<unsigned char>((i * 2654435761u + seed) >> 13);
  return list;
}

std::vector<Schedule> schedules() {
  std::vector<Schedule> list{{}};
  for (std::uint64_t seed = 0; seed < 8 && !on_cuda(); ++seed) list.push_back({true, seed});
  return list;
}

class HopperCopies : public testing::TestWithParam<Case> {
 protected:
  static std::string run_mode(Machine& machine, Mode mode, const Memory& image, const Memory& tensor) {
    const Case& c = GetParam();
    Params params{image.data(), nullptr, static_cast<std::uint32_t>(product_of(c.box) * c.element), mode, {}};
    std::copy(c.at.begin(), c.at.end(), params.at);
    jit::TensorMap map = encoded(machine, dense(c.data_type, c.element, tensor.data(), c.extent, c.box, c.swizzle));
    return run(machine, "copies.cuh", {{"RANK", std::to_string(c.box.size())}}, {1, 1, kSharedBytes}, {&params, &map});
  }
};

TEST_P(HopperCopies, ALoadLandsWhereItShouldWithZerosOutside) {
  const Case& c = GetParam();
  const std::vector<unsigned char> tensor = pattern(product_of(c.extent) * c.element, 1);
  std::vector<unsigned char> expected(product_of(c.box) * c.element);
  for_each_element(c, [&](std::size_t byte, std::int64_t index) {
    if (index >= 0) std::memcpy(&expected[byte], &tensor[static_cast<std::size_t>(index) * c.element], c.element);
  });
  for (const Schedule& schedule : schedules()) {
    Machine machine(schedule);
    const Memory image(expected.size()), device(tensor);
    ASSERT_EQ(run_mode(machine, kLoad, image, device), "");
    EXPECT_TRUE(image.read<unsigned char>() == expected) << "seed " << schedule.seed;
  }
}

TEST_P(HopperCopies, AStoreWritesWhatLiesInside) {
  const Case& c = GetParam();
  const std::vector<unsigned char> before = pattern(product_of(c.extent) * c.element, 2);
  const std::vector<unsigned char> box = pattern(product_of(c.box) * c.element, 3);
  std::vector<unsigned char> expected = before;
  for_each_element(c, [&](std::size_t byte, std::int64_t index) {
    if (index >= 0) std::memcpy(&expected[static_cast<std::size_t>(index) * c.element], &box[byte], c.element);
  });
  for (const Schedule& schedule : schedules()) {
    Machine machine(schedule);
    const Memory image(box), device(before);
    ASSERT_EQ(run_mode(machine, kStore, image, device), "");
    EXPECT_TRUE(device.read<unsigned char>() == expected) << "seed " << schedule.seed;
  }
}

class HopperAdds : public HopperCopies {};

TEST_P(HopperAdds, AnAddAddsWhatLiesInside) {
  const Case& c = GetParam();
  std::vector<float> before(product_of(c.extent)), box(product_of(c.box));
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i % 100);
  for (std::size_t i = 0; i < box.size(); ++i) box[i] = static_cast<float>(i) * 0.5f;
  std::vector<float> expected = before;
  for_each_element(c, [&](std::size_t byte, std::int64_t index) {
    if (index >= 0) expected[static_cast<std::size_t>(index)] += box[byte / 4];
  });
  for (const Schedule& schedule : schedules()) {
    Machine machine(schedule);
    const Memory image(box), device(before);
    ASSERT_EQ(run_mode(machine, kAdd, image, device), "");
    EXPECT_EQ(device.read<float>(), expected) << "seed " << schedule.seed;
  }
}

using jit::kTensorBF16, jit::kTensorF32, jit::kTensorU8, jit::kTensorI32, jit::kTensorF16, jit::kTensorU16;
const Case kCases[] = {
    {"Line", kTensorF32, 4, {100}, {64}, {8}, 0},
    {"LineBeginsOutside", kTensorF32, 4, {100}, {64}, {-3}, 0},
    {"LineEndsOutside", kTensorF32, 4, {100}, {64}, {61}, 0},
    {"LineWhollyOutside", kTensorF32, 4, {100}, {64}, {100}, 0},
    {"Plane", kTensorBF16, 2, {96, 40}, {64, 16}, {16, 3}, 0},
    {"PlaneSwizzle32", kTensorBF16, 2, {96, 40}, {16, 64}, {16, -5}, 1},
    {"PlaneSwizzle64", kTensorF16, 2, {96, 40}, {32, 64}, {-7, 5}, 2},
    {"PlaneSwizzle128", kTensorBF16, 2, {96, 40}, {64, 64}, {50, 3}, 3},
    {"PlaneOfBytesSwizzle128", kTensorU8, 1, {208, 70}, {128, 64}, {96, 20}, 3},
    {"PlaneOfWordsSwizzle128", kTensorF32, 4, {40, 40}, {32, 32}, {-1, -1}, 3},
    {"PlaneOfWordsSwizzle64", kTensorI32, 4, {40, 40}, {16, 32}, {30, 30}, 2},
    {"PlaneOfHalvesSwizzle32", kTensorU16, 2, {40, 40}, {16, 7}, {30, 30}, 1},
    {"PlaneFarOutside", kTensorBF16, 2, {96, 40}, {64, 16}, {-1000, 2000}, 3},
    {"Cube", kTensorBF16, 2, {64, 10, 7}, {64, 4, 3}, {8, 8, -1}, 3},
    {"FourDimensions", kTensorF32, 4, {36, 5, 4, 3}, {32, 2, 3, 2}, {8, 4, -1, 2}, 3},
    {"FiveDimensions", kTensorU8, 1, {48, 5, 4, 3, 6}, {32, 2, 3, 2, 4}, {32, 1, 2, -1, 3}, 1},
    // Rows narrower than the swizzle lie side by side, as without one.
    {"NarrowRowsSwizzle128", kTensorBF16, 2, {96, 40}, {32, 32}, {16, 3}, 3},
    {"NarrowRowsSwizzle64", kTensorBF16, 2, {96, 40}, {8, 32}, {16, 3}, 2},
};
INSTANTIATE_TEST_SUITE_P(Boxes, HopperCopies, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& box) { return std::string(box.param.name); });

std::vector<Case> of_f32() {
  std::vector<Case> list;
  for (const Case& c : kCases) {
    if (c.data_type == kTensorF32) list.push_back(c);
  }
  return list;
}
INSTANTIATE_TEST_SUITE_P(Boxes, HopperAdds, testing::ValuesIn(of_f32()),
                         [](const testing::TestParamInfo<Case>& box) { return std::string(box.param.name); });

TEST(HopperPlainCopies, LoadStoreAndAdd) {
  constexpr std::uint32_t kBytes = 4112;
  std::vector<float> image(kBytes / 4), memory(kBytes / 4), sum(kBytes / 4);
  for (std::size_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<float>(i);
    memory[i] = 0.5f * static_cast<float>(i % 77);
    sum[i] = image[i] + memory[i];
  }
  for (const Schedule& schedule : schedules()) {
    for (const Mode mode : {kPlainLoad, kPlainStore, kPlainAdd}) {
      Machine machine(schedule);
      const Memory device_image(image), device_memory(memory);
      Params params{device_image.data(), device_memory.data(), kBytes, mode, {}};
      jit::TensorMap none{};
      ASSERT_EQ(run(machine, "copies.cuh", {{"RANK", "1"}}, {1, 1, kSharedBytes}, {&params, &none}), "");
      EXPECT_EQ(device_image.read<float>(), mode == kPlainLoad ? memory : image) << "mode " << mode;
      EXPECT_EQ(device_memory.read<float>(), mode == kPlainLoad    ? memory
                                             : mode == kPlainStore ? image
                                                                   : sum)
          << "mode " << mode;
    }
  }
}

}  // namespace
}  // namespace quern::hopper_tests
