// Bulk copies against plain loops: every rank, every swizzle, boxes that lie partly or wholly outside the tensor, rows
// that do not end at a multiple of 16 bytes.
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

std::size_t tensor_bytes(const Case& c) {
  return product_of(c.extent) / c.extent[0] * row_stride(c.extent[0], c.element);
}

// Where an element of a box lies: in shared memory, and in the tensor's, or between the rows there.
struct Place {
  std::size_t shared, tensor;
  bool inside;   // the tensor, which a load is to fetch
  bool written;  // by a store, which takes 16 bytes as a whole where a row ends within them
};

// The swizzle, written out: within 1024 bytes there are 8 lines of 128 bytes of 8 pieces, and a line's number is laid
// over its pieces' numbers, all three bits of it, two or one.
template <class Visit>
void for_each_element(const Case& c, Visit visit) {
  const std::size_t count = product_of(c.box), row = row_stride(c.extent[0], c.element);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t byte_of_tensor = 0;
    auto step = static_cast<std::int64_t>(c.element);
    bool inside = true, written = true;
    for (std::size_t d = 0, rest = i; d < c.box.size(); rest /= c.box[d], ++d) {
      const std::int64_t at = c.at[d] + static_cast<std::int64_t>(rest % c.box[d]);
      const std::size_t end = d == 0 ? row / c.element : c.extent[d];
      inside = inside && at >= 0 && at < static_cast<std::int64_t>(c.extent[d]);
      written = written && at >= 0 && at < static_cast<std::int64_t>(end);
      byte_of_tensor += at * step;
      step = d == 0 ? static_cast<std::int64_t>(row) : step * static_cast<std::int64_t>(c.extent[d]);
    }
    const std::size_t byte = i * c.element;
    const std::size_t line = byte / 128 % 8, piece = byte / 16 % 8;
    const std::size_t over = c.swizzle == 3 ? line : c.swizzle == 2 ? line % 4 : c.swizzle == 1 ? line % 2 : 0;
    visit(Place{byte / 128 * 128 + (piece ^ over) * 16 + byte % 16, static_cast<std::size_t>(byte_of_tensor), inside,
                written});
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

class HopperBox : public testing::TestWithParam<Case> {
 protected:
  static std::string run_mode(Machine& machine, Mode mode, const Memory& image, const Memory& tensor) {
    const Case& c = GetParam();
    Params params{image.data(), nullptr, static_cast<std::uint32_t>(product_of(c.box) * c.element), mode, {}};
    std::copy(c.at.begin(), c.at.end(), params.at);
    jit::TensorMap map = encoded(machine, dense(c.data_type, c.element, tensor.data(), c.extent, c.box, c.swizzle));
    return run(machine, "copies.cuh", {{"RANK", std::to_string(c.box.size())}}, {1, 1, kSharedBytes}, {&params, &map});
  }
};

class HopperLoads : public HopperBox {};

TEST_P(HopperLoads, ALoadLandsWhereItShouldWithZerosOutside) {
  const Case& c = GetParam();
  const std::vector<unsigned char> tensor = pattern(tensor_bytes(c), 1);
  std::vector<unsigned char> expected(product_of(c.box) * c.element);
  for_each_element(c, [&](const Place& at) {
    if (at.inside) std::memcpy(&expected[at.shared], &tensor[at.tensor], c.element);
  });
  for (const Schedule& schedule : schedules()) {
    Machine machine(schedule);
    const Memory image(expected.size()), device(tensor);
    ASSERT_EQ(run_mode(machine, kLoad, image, device), "");
    EXPECT_TRUE(image.read<unsigned char>() == expected) << "seed " << schedule.seed;
  }
}

class HopperStores : public HopperBox {};

TEST_P(HopperStores, AStoreWritesWhatLiesInside) {
  const Case& c = GetParam();
  const std::vector<unsigned char> before = pattern(tensor_bytes(c), 2);
  const std::vector<unsigned char> box = pattern(product_of(c.box) * c.element, 3);
  std::vector<unsigned char> expected = before;
  for_each_element(c, [&](const Place& at) {
    if (at.written) std::memcpy(&expected[at.tensor], &box[at.shared], c.element);
  });
  for (const Schedule& schedule : schedules()) {
    Machine machine(schedule);
    const Memory image(box), device(before);
    ASSERT_EQ(run_mode(machine, kStore, image, device), "");
    EXPECT_TRUE(device.read<unsigned char>() == expected) << "seed " << schedule.seed;
  }
}

class HopperAdds : public HopperBox {};

TEST_P(HopperAdds, AnAddAddsWhatLiesInside) {
  const Case& c = GetParam();
  std::vector<float> before(tensor_bytes(c) / 4), box(product_of(c.box));
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i % 100);
  for (std::size_t i = 0; i < box.size(); ++i) box[i] = static_cast<float>(i) * 0.5f;
  std::vector<float> expected = before;
  for_each_element(c, [&](const Place& at) {
    if (at.written) expected[at.tensor / 4] += box[at.shared / 4];
  });
  for (const Schedule& schedule : schedules()) {
    Machine machine(schedule);
    const Memory image(box), device(before);
    ASSERT_EQ(run_mode(machine, kAdd, image, device), "");
    EXPECT_EQ(device.read<float>(), expected) << "seed " << schedule.seed;
  }
}

using jit::kTensorBF16, jit::kTensorF32, jit::kTensorU8, jit::kTensorI32, jit::kTensorF16, jit::kTensorU16;
// The innermost coordinate is a multiple of 16 bytes throughout.
const Case kCases[] = {
    {"Line", kTensorF32, 4, {100}, {64}, {8}, 0},
    {"LineEndsOutside", kTensorF32, 4, {100}, {64}, {60}, 0},
    {"LineWhollyOutside", kTensorF32, 4, {100}, {64}, {100}, 0},
    {"LineEndsWithin16Bytes", kTensorF32, 4, {97}, {64}, {60}, 0},
    {"Plane", kTensorBF16, 2, {96, 40}, {64, 16}, {16, 3}, 0},
    {"PlaneSwizzle32", kTensorBF16, 2, {96, 40}, {16, 64}, {16, 5}, 1},
    {"PlaneSwizzle64", kTensorF16, 2, {96, 40}, {32, 64}, {8, 5}, 2},
    {"PlaneSwizzle128", kTensorBF16, 2, {96, 40}, {64, 64}, {48, 3}, 3},
    {"PlaneOfBytesSwizzle128", kTensorU8, 1, {208, 70}, {128, 64}, {96, 20}, 3},
    {"PlaneOfWordsSwizzle128", kTensorF32, 4, {40, 40}, {32, 32}, {28, 10}, 3},
    {"PlaneOfWordsSwizzle64", kTensorI32, 4, {40, 40}, {16, 32}, {28, 30}, 2},
    {"PlaneOfHalvesSwizzle32", kTensorU16, 2, {40, 40}, {16, 7}, {32, 30}, 1},
    {"PlaneEndsWithin16Bytes", kTensorBF16, 2, {89, 40}, {64, 16}, {48, 30}, 3},
    {"PlaneOfBytesEndsWithin16Bytes", kTensorU8, 1, {99, 12}, {32, 8}, {80, 2}, 1},
    {"PlaneOfWordsEndsWithin16Bytes", kTensorF32, 4, {37, 40}, {32, 16}, {16, 30}, 3},
    {"PlaneFarOutside", kTensorBF16, 2, {96, 40}, {64, 16}, {1000, 2000}, 3},
    {"Cube", kTensorBF16, 2, {64, 10, 7}, {64, 4, 3}, {8, 8, 5}, 3},
    {"FourDimensions", kTensorF32, 4, {36, 5, 4, 3}, {32, 2, 3, 2}, {8, 4, 2, 2}, 3},
    {"FiveDimensions", kTensorU8, 1, {48, 5, 4, 3, 6}, {32, 2, 3, 2, 4}, {32, 1, 2, 2, 3}, 1},
};
// Only a load may begin outside.
const Case kBeginOutside[] = {
    {"LineBeginsOutside", kTensorF32, 4, {100}, {64}, {-4}, 0},
    {"PlaneBeginsOutsideSwizzle32", kTensorBF16, 2, {96, 40}, {16, 64}, {16, -5}, 1},
    {"PlaneBeginsOutsideSwizzle64", kTensorF16, 2, {96, 40}, {32, 64}, {-8, 5}, 2},
    {"PlaneBeginsOutsideSwizzle128", kTensorF32, 4, {40, 40}, {32, 32}, {-4, -1}, 3},
    {"PlaneFarBeforeTheBegin", kTensorBF16, 2, {96, 40}, {64, 16}, {-1000, 2000}, 3},
    {"CubeBeginsOutside", kTensorBF16, 2, {64, 10, 7}, {64, 4, 3}, {8, 8, -1}, 3},
    {"FourDimensionsBeginOutside", kTensorF32, 4, {36, 5, 4, 3}, {32, 2, 3, 2}, {8, 4, -1, 2}, 3},
    {"FiveDimensionsBeginOutside", kTensorU8, 1, {48, 5, 4, 3, 6}, {32, 2, 3, 2, 4}, {32, 1, 2, -1, 3}, 1},
};
std::string name_of(const testing::TestParamInfo<Case>& box) { return box.param.name; }
INSTANTIATE_TEST_SUITE_P(Boxes, HopperLoads, testing::ValuesIn(kCases), name_of);
INSTANTIATE_TEST_SUITE_P(BeginOutside, HopperLoads, testing::ValuesIn(kBeginOutside), name_of);
INSTANTIATE_TEST_SUITE_P(Boxes, HopperStores, testing::ValuesIn(kCases), name_of);

std::vector<Case> of_f32() {
  std::vector<Case> list;
  for (const Case& c : kCases) {
    if (c.data_type == kTensorF32) list.push_back(c);
  }
  return list;
}
INSTANTIATE_TEST_SUITE_P(Boxes, HopperAdds, testing::ValuesIn(of_f32()), name_of);

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
