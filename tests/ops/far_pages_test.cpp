// Pages that lie further off than 32 bits reach, in elements and in slots: caches of tens of GB of which a few pages
// exist.
// On `host`, where memory that nobody has touched costs nothing.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/ops/compiled.h"
#include "tests/ops/cuda.h"
#include "tests/ops/mla_cases.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Mapping() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  char* data() const { return data_ == MAP_FAILED ? nullptr : static_cast<char*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::int64_t kDim = 8, kPageSize = 16, kPages = (std::int64_t{1} << 27) + 4;
constexpr std::size_t kBytes = std::size_t{kPages} * kPageSize * kDim * 2;
// The first is reached by 31 bits of slots, though not of elements.
constexpr std::int64_t kFar[] = {(std::int64_t{1} << 27) - 1, (std::int64_t{1} << 27) + 1, (std::int64_t{1} << 27) + 3};

constexpr ThreeCalls<quern_kv_append_args> kAppend{quern_kv_append, quern_kv_append_workspace, quern_kv_append_prepare};
constexpr ThreeCalls<quern_attention_args> kAttend{quern_attention, quern_attention_workspace, quern_attention_prepare};
constexpr ThreeCalls<quern_kv_copy_pages_args> kCopy{quern_kv_copy_pages, quern_kv_copy_pages_workspace,
                                                     quern_kv_copy_pages_prepare};

TEST(FarPages, AreWrittenReadAndCopied) {
  if (on_cuda()) GTEST_SKIP() << "so much memory is not set aside on a GPU";
  const Mapping k_memory(kBytes), v_memory(kBytes);
  if (k_memory.data() == nullptr || v_memory.data() == nullptr) GTEST_SKIP() << "no room for such a mapping";
  TensorBox k_cache, v_cache;
  for (auto [box, memory] : {std::pair{&k_cache, &k_memory}, {&v_cache, &v_memory}}) {
    box->set(Element(Element::f16).type(), {kPages, kPageSize, 1, kDim});
    box->place(memory->data());
  }
  Random random("far pages");
  Array k(Element::f16, {3, 1, kDim}), v(Element::f16, {3, 1, kDim}), slots(IntegerBits{64}, {3});
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t d = 0; d < kDim; ++d) k.set(random.normal(), i, 0, d), v.set(random.normal(), i, 0, d);
    slots.set_integer(kFar[i] * kPageSize, i);
  }
  for (Array* each : {&k, &v, &slots}) each->upload();
  auto append = sized<quern_kv_append_args>();
  append.k = k.tensor(), append.v = v.tensor(), append.slots = slots.tensor();
  append.k_cache = k_cache.get(), append.v_cache = v_cache.get();
  ASSERT_NO_FATAL_FAILURE(run_op(context(), kAppend, append));

  // Three sequences of one key each: what comes out is its value.
  const auto attend = [&](std::initializer_list<std::int64_t> pages) {
    Array q(Element::f16, {3, 1, kDim}), out(Element::f16, {3, 1, kDim}), lengths(IntegerBits{32}, {3});
    Array table(IntegerBits{32}, {3, 1});
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t d = 0; d < kDim; ++d) q.set(random.normal(), i, 0, d);
      lengths.set_integer(1, i), table.set_integer(pages.begin()[i], i, 0);
    }
    for (Array* each : {&q, &out, &lengths, &table}) each->upload();
    auto args = sized<quern_attention_args>();
    args.q = q.tensor(), args.k = k_cache.get(), args.v = v_cache.get(), args.out = out.tensor();
    args.lengths = lengths.tensor(), args.page_table = table.tensor(), args.max_kv_len = 16;
    ASSERT_NO_FATAL_FAILURE(run_op(context(), kAttend, args));
    out.download();
    EXPECT_EQ(out.memory(), v.memory());
  };
  attend({kFar[0], kFar[1], kFar[2]});

  auto copy = sized<quern_kv_copy_pages_args>();
  Array from(IntegerBits{64}, {3}), to(IntegerBits{64}, {3});
  from.fill({kFar[0], kFar[1], kFar[2]}), to.fill({kFar[1] + 1, 5, kFar[0] - 7});
  from.upload(), to.upload();
  copy.k = k_cache.get(), copy.v = v_cache.get(), copy.sources = from.tensor(), copy.destinations = to.tensor();
  ASSERT_NO_FATAL_FAILURE(run_op(context(), kCopy, copy));
  attend({kFar[1] + 1, 5, kFar[0] - 7});
}

// The pages of a tensor of a latent cache, moved so far apart that no distance between two of them has 32 bits.
class MovedPages {
 public:
  explicit MovedPages(TensorBox& box)
      : memory_(static_cast<std::size_t>(box.shape[0] * kApart) * box.tensor.dtype.bits / 8) {
    if (memory_.data() == nullptr) return;
    const auto element = static_cast<std::size_t>(box.tensor.dtype.bits) / 8;
    std::int64_t page = 1;
    for (std::int32_t d = box.tensor.ndim - 1; d > 0; --d) box.strides[d] = page, page *= box.shape[d];
    for (std::int64_t i = 0; i < box.shape[0]; ++i) {
      std::memcpy(memory_.data() + static_cast<std::size_t>(i * kApart) * element,
                  static_cast<char*>(box.tensor.data) + static_cast<std::size_t>(i * page) * element,
                  static_cast<std::size_t>(page) * element);
    }
    box.strides[0] = kApart, box.tensor.strides = box.strides;
    box.place(memory_.data());
  }
  bool there() const { return memory_.data() != nullptr; }

 private:
  static constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 4096;
  Mapping memory_;
};

class FarLatentPages : public testing::TestWithParam<MlaCase> {};
MlaCases latent_caches() {
  MlaCases list;
  const std::vector<MlaLengths> sequences = {{1, 140}, {2, 20}, {1, 65}};
  list.add("plain", sequences, [](MlaCase& c) { c.causal = true; });
  list.add("heads140", sequences, [](MlaCase& c) { c.heads = 140; });
  list.add("d64_pages_of_8", sequences,
           [](MlaCase& c) { c.d_latent = 64, c.d_rope = 16, c.page_size = 8, c.element = Element::f16; });
  list.add("two_pools", sequences, [](MlaCase& c) { c.two_pools = true; });
  list.add("indptr", sequences, [](MlaCase& c) { c.indptr = true, c.d_latent = 128; });
  list.add("e4m3_tensor", sequences, [](MlaCase& c) { c.cache = MlaCache::e4m3_tensor; });
  list.add("e4m3_token", sequences, [](MlaCase& c) { c.cache = MlaCache::e4m3_token; });
  list.add("rows656", sequences, [](MlaCase& c) { c.cache = MlaCache::rows656; });
  list.add("list", sequences, [](MlaCase& c) { c.top_k = 32; });
  list.add("slots", sequences, [](MlaCase& c) { c.top_k = 32, c.slots = true, c.d_latent = 64; });
  return list;
}
INSTANTIATE_TEST_SUITE_P(Caches, FarLatentPages, testing::ValuesIn(latent_caches().cases()), name_of_mla_case);

TEST_P(FarLatentPages, AreRead) {
  if (on_cuda()) GTEST_SKIP() << "so much memory is not set aside on a GPU";
  MlaProblem problem(GetParam(), Random(GetParam().name));
  std::vector<std::unique_ptr<MovedPages>> moved;
  moved.push_back(std::make_unique<MovedPages>(problem.cache));
  if (problem.cache_rope.given()) moved.push_back(std::make_unique<MovedPages>(problem.cache_rope));
  if (problem.cache_scale.given() && problem.cache_scale.tensor.ndim == 2)
    moved.push_back(std::make_unique<MovedPages>(problem.cache_scale));
  for (const auto& each : moved) {
    if (!each->there()) GTEST_SKIP() << "no room for such a mapping";
  }
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

}  // namespace
}  // namespace quern::test
