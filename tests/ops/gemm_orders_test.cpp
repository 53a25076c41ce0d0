// Products whose operands are stored either way, a [m][k] or [k][m], b [n][k] or [k][n].
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/ops/device.h"
#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"
#include "tests/ops/manifest.h"

namespace quern::test {
namespace {

struct Order {
  const char* name;
  bool a, b;  // stored [k][m], [k][n]
};
constexpr Order kOrders[] = {{"nt", false, false}, {"nn", false, true}, {"tn", true, true}, {"tt", true, false}};
constexpr Order kOthers[] = {kOrders[1], kOrders[2], kOrders[3]};  // than the one that other tests go through

GemmCase in(const Order& order, GemmCase c) {
  c.transposed_a = order.a, c.transposed_b = order.b;
  return c;
}

void add(std::vector<GemmCase>* all, const std::string& prefix, GemmCase c, int m, int n, int k) {
  c = of_shape(std::move(c), m, n, k);
  c.name = prefix + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  all->push_back(std::move(c));
}

std::vector<GemmCase> kinds() {
  std::vector<GemmCase> all;
  for (const Order& order : kOrders) {
    for (std::size_t i = 2; i < gemm_kinds().size(); ++i) {
      const GemmKind& kind = gemm_kinds()[i];
      const GemmCase c = in(order, kind.common);
      const std::string name = std::string(order.name) + "_" + kind.name;
      // Any k where it is no line's extent.
      add(&all, name, c, 8, 40, order.a && order.b ? 77 : 144);
      add(&all, name, c, 304, 264, 80);
      if (kind.common.a.kind() == Element::f16) add(&all, name, c, 24, 264, 80);
      GemmCase padded = of_shape(c, 304, 264, 80);
      padded.padding = 32;
      padded.offset = 48;
      padded.out_padding = 5;
      padded.name = name + "_padded";
      all.push_back(padded);
    }
  }
  return all;
}
QUERN_GEMM_CASES(Orders, kinds());

// Rows, columns and terms that fill no tile and no k block. What lies side by side comes by eights; the rest is any.
std::vector<GemmCase> shapes() {
  std::vector<GemmCase> all;
  for (const Order& order : kOthers) {
    const bool any_k = order.a && order.b;
    const GemmKind& kind = gemm_kinds()[any_k ? 2 : 3];
    const GemmCase c = in(order, kind.common);
    const std::string name = std::string("order_") + order.name + "_" + kind.name;
    const auto rows = [&](int m) { return order.a ? (m + 7) / 8 * 8 : m; };
    const auto terms = [&](int k) { return any_k ? k + 3 : k; };
    for (const int m : {1, 17, 33, 65, 121}) add(&all, name, c, rows(m), m % 3 == 0 ? 24 : 264, terms(528));
    for (const int n : {8, 72}) {
      for (const int k : {8, 64, 2064}) add(&all, name, c, rows(29), n, terms(k));
    }
    for (const int n : {8, 40, 136}) {
      for (const int k : {8, 64, 144}) add(&all, name, c, rows(201), n, terms(k));
    }
    for (const int k : {16, 200, 400}) add(&all, name, c, rows(301), 520, terms(k));
    add(&all, name, c, rows(129), 24, terms(7184));
  }
  return all;
}
QUERN_GEMM_CASES(OrderShapes, shapes());

// What is copied otherwise, in each order; what follows the sums, and what else makes calls differ. Of few rows and of
// many.
std::vector<GemmCase> ways() {
  std::vector<GemmCase> all;
  const auto add_to = [&](const std::vector<Order>& orders, const std::string& name,
                          const std::function<void(GemmCase&)>& change) {
    for (const Order& order : orders) {
      for (const int m : {24, 104, 312}) {
        GemmCase c = of_shape(in(order, gemm_of(Element::bf16)), m, 392, 272);
        c.name = "order_" + std::string(order.name) + "_" + name + "_" + std::to_string(m);
        change(c);
        all.push_back(std::move(c));
      }
    }
  };
  const auto in_each = [&](const std::string& name, const std::function<void(GemmCase&)>& change) {
    add_to({kOthers[0], kOthers[1], kOthers[2]}, name, change);
  };
  const auto each = [&](const std::string& name, const std::function<void(GemmCase&)>& change) {
    add_to({kOthers[1]}, name, change);
  };
  in_each("gate", [](GemmCase& c) { c.gate = true, c.n = 400; });
  in_each("gate_wide", [](GemmCase& c) { c.gate = true, c.n = 1040, c.k = 144; });
  in_each("batched", [](GemmCase& c) { c.batch = 3, c.n = 136; });
  each("bias_c_gelu", [](GemmCase& c) {
    c.bias = Element::bf16, c.c = Element::f32, c.activation = QUERN_ACTIVATION_GELU;
    c.padding = 16, c.offset = 16, c.out_padding = 3;
  });
  each("c_is_out", [](GemmCase& c) { c.c = Element::bf16, c.c_is_out = true; });
  each("out_scale", [](GemmCase& c) { c.out = Element::e4m3, c.out_scale = true; });
  each("operands", [](GemmCase& c) {
    c.out = Element::f32;
    c.expression = "acc*row0+tensor1";
    c.formula = [](const Terms& t) { return t.acc * t.x[0] + t.x[1]; };
    c.operands = {{EpilogueOperand::row, Element::f32}, {EpilogueOperand::tensor, Element::bf16}};
  });
  each("invariant", [](GemmCase& c) { c.flags = QUERN_CALL_BATCH_INVARIANT; });
  each("constant_b", [](GemmCase& c) { c.flags = std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_GEMM_CONSTANT_B; });
  each("one_sm", [](GemmCase& c) { c.max_sms = 1; });
  return all;
}
QUERN_GEMM_CASES(OrderWays, ways());

// What no tensor map describes, as one matrix stands for many or lines are not whole copies of 16 bytes, goes by the
// kernel that every target has.
std::vector<GemmCase> portable() {
  std::vector<GemmCase> all;
  for (const Order& order : kOthers) {
    for (const int m : {8, 40, 304}) {
      GemmCase shared = in(order, gemm_of(Element::f16));
      shared.batch = 3, shared.shared_b = true;
      add(&all, std::string("order_") + order.name + "_shared_b", shared, m, 264, 144);
      GemmCase unaligned = in(order, gemm_of(Element::bf16));
      unaligned.alignment = unaligned.offset = unaligned.padding = 4;
      add(&all, std::string("order_") + order.name + "_aligned_to_4", unaligned, m + 2, 78, 142);
    }
  }
  return all;
}
QUERN_GEMM_CASES(OrdersAnywhere, portable());

std::vector<GemmCase> batches() {
  std::vector<GemmCase> all;
  for (const Order& order : kOrders) {
    GemmCase c = in(order, gemm_of(Element::f16));
    c.batch = 3;
    add(&all, std::string("batched_") + order.name, c, 8, 40, 144);
  }
  GemmList list(gemm_of(Element::f16));
  list.add("batched_padded", [](GemmCase& c) { c.batch = 2, c.padding = 16, c.out_padding = 3, c.m = 17; });
  list.add("batched_one", [](GemmCase& c) { c.batch = 1; });
  list.add("batched_many", [](GemmCase& c) { c.batch = 40, c.m = 1, c.n = 8, c.k = 16; });
  list.add("batched_shared_b", [](GemmCase& c) { c.batch = 3, c.shared_b = true, c.m = 70, c.n = 264; });
  list.add("batched_split", [](GemmCase& c) { c.batch = 2, c.m = 1, c.n = 24, c.k = 7184; });
  list.add("batched_f32", [](GemmCase& c) { c.a = c.b = c.out = Element::f32, c.batch = 3, c.m = 140; });
  all.insert(all.end(), list.cases().begin(), list.cases().end());
  return all;
}
QUERN_GEMM_CASES(Batches, batches());

// Each of Hopper's variants takes each order: rows and columns of which the model makes the most of one variant's
// tiles, however many multiprocessors there are.
TEST(GemmOrders, EachFormTakesEach) {
  auto device = sized<quern_device_info>();
  ASSERT_EQ(quern_device(context(), &device, nullptr), QUERN_OK);
  if (std::strcmp(device.target, "sm_90a") != 0 && std::strcmp(device.target, "host") != 0)
    GTEST_SKIP() << device.target << " has no warpgroups";
  const struct {
    const char* variant;
    int m, width;
  } variants[] = {{"swap_ab_16", 16, 32},           {"swap_ab_32", 32, 32},           {"swap_ab_64", 64, 32},
                  {"swap_ab_128", 128, 32},         {"persistent_128x128", 248, 128}, {"persistent_128x176", 248, 176},
                  {"persistent_128x192", 248, 192}, {"persistent_128x256", 248, 256}};
  for (const Order& order : kOrders) {
    for (const auto& [variant, m, width] : variants) {
      // Rows few enough for tiles of few columns, which are tested by themselves.
      if (m <= 128 && !order.a && !order.b) continue;
      // Its columns are no whole spans, by which b comes where it is stored the other way round.
      if (width == 176 && order.b) continue;
      SCOPED_TRACE(std::string(order.name) + " as " + variant);
      // Two tiles one below the other fill the device with as many of these columns.
      const int n = width * static_cast<int>(device.sm_count / 2) - 8;
      const Context fresh = make_context();
      GemmProblem problem(of_shape(in(order, gemm_of(order.a ? Element::f16 : Element::bf16)), m, n, 136),
                          Random("variants"));
      ASSERT_NO_FATAL_FAILURE(problem.run(fresh.get()));
      problem.check();
      const std::vector<std::string> taken = manifest_of(fresh.get());
      ASSERT_EQ(taken.size(), 1u);
      // Which tiles are taken for more rows depends on the device; tests/hopper has each of them in each order.
      if (m <= 128) {
        EXPECT_NE(taken[0].find(std::string(" variant=") + variant + " "), std::string::npos) << taken[0];
      }
      EXPECT_NE(taken[0].find(order.a ? "order_a=km" : "order_a=mk"), std::string::npos) << taken[0];
      EXPECT_NE(taken[0].find(order.b ? "order_b=kn" : "order_b=nk"), std::string::npos) << taken[0];
    }
  }
}

}  // namespace
}  // namespace quern::test
