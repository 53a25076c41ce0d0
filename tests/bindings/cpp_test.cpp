// quern.hpp: tensors and what they borrow or own, results, and errors as values.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <quern.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace quern {
namespace {

std::vector<std::int64_t> shape_of(const DLTensor* tensor) { return {tensor->shape, tensor->shape + tensor->ndim}; }

TEST(CppTensor, SaysWhatASpanIs) {
  std::vector<float> memory(24);
  const Tensor tensor(memory, {2, 3, 4});
  const DLTensor* said = tensor;
  EXPECT_EQ(said->data, memory.data());
  EXPECT_EQ(shape_of(said), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(said->strides, nullptr);
  EXPECT_EQ(said->dtype.code, kDLFloat);
  EXPECT_EQ(said->dtype.bits, 32);
  EXPECT_EQ(said->device.device_type, kDLCPU);
}

TEST(CppTensor, ACopyRefersToItself) {
  std::vector<bfloat16_bits> memory(12);
  std::optional<Tensor> first(std::in_place, memory, std::initializer_list<std::int64_t>{3, 2},
                              std::initializer_list<std::int64_t>{4, 1});
  const Tensor second = *first;
  Tensor third(memory, {12});
  third = second;
  first.reset();
  for (const Tensor* tensor : {&second, static_cast<const Tensor*>(&third)}) {
    EXPECT_EQ(shape_of(*tensor), (std::vector<std::int64_t>{3, 2}));
    EXPECT_EQ(tensor->dl().strides[0], 4);
    EXPECT_EQ(tensor->dl().shape, tensor->shape().data());
  }
}

TEST(CppTensor, RefusesASpanThatIsShort) {
  std::vector<float> memory(11);
  EXPECT_THROW(Tensor(memory, {3, 4}), std::length_error);
  EXPECT_THROW(Tensor(memory, {3, 3}, {5, 1}), std::length_error);
  EXPECT_NO_THROW(Tensor(memory, {3, 1}, {5, 1}));
  EXPECT_NO_THROW(Tensor(memory, {0, 1000}));
  EXPECT_THROW(Tensor(memory, {1, 1, 1, 1, 1, 1, 1, 1, 1}), std::length_error);
  EXPECT_THROW(Tensor(memory, {3, 1}, {5}), std::length_error);
}

TEST(CppTensor, TakesBytesAsAnotherType) {
  std::vector<std::uint8_t> memory(4);
  const Tensor tensor(memory, {4});
  EXPECT_EQ(tensor.as<e4m3_bits>().dl().dtype.code, kDLFloat8_e4m3fn);
  EXPECT_THROW(static_cast<void>(tensor.as<float>()), std::length_error);
}

// An owner of DLPack's that counts its end.
template <typename Managed>
struct Owner {
  Managed managed = {};
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {3, 1};
  float memory[8] = {};
  int ended = 0;

  Owner() {
    managed.dl_tensor = {memory, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 4};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Owner*>(self->manager_ctx)->ended; };
  }
};

template <typename Managed>
void holds_its_owner() {
  Owner<Managed> owner;
  {
    const Tensor first(&owner.managed);
    const Tensor second = first;
    EXPECT_EQ(second.data(), owner.memory + 1) << "the byte offset counts";
    EXPECT_EQ(shape_of(second), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(owner.ended, 0);
  }
  EXPECT_EQ(owner.ended, 1);
}

TEST(CppTensor, HoldsADlpackOwner) {
  holds_its_owner<DLManagedTensor>();
  holds_its_owner<DLManagedTensorVersioned>();
}

TEST(CppResult, HoldsAValueOrAnError) {
  Result<std::string> good(std::string("text")), bad(Error{QUERN_IO, 5, "no"});
  EXPECT_TRUE(good.has_value());
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4U);
  EXPECT_EQ(std::move(good)
                .and_then([](const std::string& text) { return Result<int>(static_cast<int>(text.size())); })
                .value(),
            4);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().native, 5);
  try {
    bad.value();
    FAIL() << "value() of an error returned";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "QUERN_IO: no");
    EXPECT_EQ(failure.error().status, QUERN_IO);
  }
  EXPECT_EQ(std::move(bad).value_or("else"), "else");
  EXPECT_TRUE(Result<void>().and_then([] { return Result<void>(); }).has_value());
}

TEST(CppContext, TellsErrorsAsValues) {
  auto options = sized<quern_context_options>();
  options.device_type = 99;
  const auto refused = Context::open(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, QUERN_INVALID);
  EXPECT_NE(refused.error().text.find("99"), std::string::npos);

  auto context = Context::host().value();
  EXPECT_EQ(context.device().value().warp_size, 32U);
  std::vector<float> a(12), b(10), out(9);
  const Tensor left(a, {3, 4}), right(b, {2, 5}), product(out, {3, 2});
  const auto outcome = context.prepare(Gemm{.a = left, .b = right, .out = product});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().text.find("b.shape[1] is 5"), std::string::npos) << outcome.error().text;
  EXPECT_FALSE(context.expression("acc +").has_value());
  EXPECT_EQ(context.manifest().value(), "");
}

TEST(CppContext, MovesAndClosesOnce) {
  auto first = Context::host().value();
  quern_context* handle = first.get();
  const Context second = std::move(first);
  EXPECT_EQ(second.get(), handle);
  EXPECT_EQ(first.get(), nullptr);
}

}  // namespace
}  // namespace quern
