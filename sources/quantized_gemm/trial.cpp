// Random calls of quantized_gemm for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iterator>
#include <string>

#include "sources/ops.h"
#include "sources/quantized_gemm/plan/shape.h"
#include "sources/verify/product.h"

namespace quern::ops::quantized_gemm {
namespace {

using namespace verify;

// Few rows have as wide tiles as leave one for most multiprocessors: of b there are so many tiles, in proportion to the
// width, for the `host` target and for a GPU of some 130.
constexpr std::int64_t kTilesOnHost = -4, kTilesOnGpu = -112;
constexpr struct {
  std::int64_t m, n, k;
  bool invariant;
} kCalls[] = {{1, 300, 512, false},           {16, 256, 1024, false},         {29, 256, 512, false},
              {50, 384, 256, false},          {130, 256, 512, false},         {5, 256, 512, true},
              {29, 256, 512, true},           {130, 256, 512, true},          {3, kTilesOnHost, 256, false},
              {11, kTilesOnHost, 256, false}, {19, kTilesOnHost, 256, false}, {3, kTilesOnGpu, 256, false},
              {11, kTilesOnGpu, 256, false},  {19, kTilesOnGpu, 256, false}};

// Numbers of 8 or 4 bits, two of the latter in a byte, or of 16.
struct Numbers {
  const Field* field;
  std::string code;
  std::int64_t k;
  std::int32_t format;

  Numbers(Trial& trial, std::string of, std::int64_t lines, std::int64_t columns) : code(std::move(of)), k(columns) {
    const bool four = code == "int4" || code == "uint4" || code == "e2m1";
    format = code == "int4"    ? QUERN_QUANTIZED_INT4
             : code == "uint4" ? QUERN_QUANTIZED_UINT4
             : code == "e2m1"  ? QUERN_QUANTIZED_E2M1
                               : QUERN_QUANTIZED_AS_TENSOR;
    const Dtype dtype = code == "f16"    ? Dtype::f16
                        : code == "bf16" ? Dtype::bf16
                        : code == "e4m3" ? Dtype::e4m3
                        : code == "int8" ? Dtype::i8
                                         : Dtype::u8;
    Field& made = trial.given(dtype, {lines, four ? columns / 2 : columns});
    field = &made;
    if (dtype == Dtype::u8 || dtype == Dtype::i8) {
      for (unsigned char& byte : made.bytes) byte = static_cast<unsigned char>(trial.below(256));
    }
  }
  double get(std::int64_t line, std::int64_t i) const {
    if (format == QUERN_QUANTIZED_AS_TENSOR) return field->get(line * k + i);
    const int byte = field->bytes[static_cast<std::size_t>((line * k + i) / 2)],
              bits = byte >> (i % 2 != 0 ? 4 : 0) & 15;
    if (format == QUERN_QUANTIZED_INT4) return bits < 8 ? bits : bits - 16;
    if (format == QUERN_QUANTIZED_UINT4) return bits;
    constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return bits < 8 ? kMagnitudes[bits] : -kMagnitudes[bits - 8];
  }
};

// Scales of each line, or of each line and group.
struct Scales {
  const Field* field = nullptr;
  bool exponents = false;
  std::int64_t groups = 1, group = 1;

  Scales(Trial& trial, const std::string& kind, bool in_groups, std::int64_t size, std::int64_t lines, std::int64_t k)
      : exponents(kind == "ue8m0"), groups(in_groups ? k / size : 1), group(in_groups ? size : k) {
    if (kind == "none") return;
    const Dtype dtype = kind == "f16"     ? Dtype::f16
                        : kind == "bf16"  ? Dtype::bf16
                        : kind == "e4m3"  ? Dtype::e4m3
                        : kind == "ue8m0" ? Dtype::u8
                                          : Dtype::f32;
    field =
        exponents ? &trial.uniform(dtype, {lines, groups}, 124, 129) : &trial.uniform(dtype, {lines, groups}, 0.5, 1.5);
  }
  double get(std::int64_t line, std::int64_t i) const {
    if (field == nullptr) return 1;
    const double stored = field->get(line * groups + i / group);
    return exponents ? std::exp2(stored - 127) : stored;
  }
  const DLTensor* tensor() const { return field != nullptr ? field->tensor() : nullptr; }
  std::int32_t type() const { return exponents ? QUERN_QUANTIZED_SCALE_UE8M0 : QUERN_QUANTIZED_SCALE_AS_TENSOR; }
};

void make(const Given& given, int which, Trial& trial) {
  const auto [m, lines, k, invariant] = kCalls[which];
  const std::int64_t n = lines < 0 ? -lines * given.integer("columns", 128) : lines;
  const std::int64_t group = given.integer("group", 0);
  const Numbers a(trial, given.text("a", "bf16"), m, k), b(trial, given.text("b"), n, k);
  const Scales scale_a(trial, given.text("scale_a", "none"), given.flag("groups_a"), group, m, k),
      scale_b(trial, given.text("scale_b", "none"), given.flag("groups_b"), group, n, k);
  const bool is_unsigned = b.code == "uint4" || b.code == "uint8";
  const std::int64_t zero_groups = given.flag("groups_b") ? k / group : 1, zero_group = k / zero_groups;
  const Field* zeros =
      given.flag("zeros") ? &trial.uniform(Dtype::u8, {n, zero_groups}, 0, b.code == "uint4" ? 17 : 256) : nullptr;
  const Epilogue epilogue(given, trial, m, n);
  // In groups of 16 numbers are rounded to 16 bits once they are scaled.
  Field& out = trial.result(given.dtype("out", Dtype::bf16), {m, epilogue.columns()},
                            epilogue.slack(group == 16 ? 0x1p-7 : 0x1p-13));
  trial.later([=, &out, &trial, k = k] {
    const auto sum = [&](std::int64_t row, std::int64_t column) {
      double of = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        double zero = 0;
        if (is_unsigned)
          zero = zeros != nullptr ? zeros->get(column * zero_groups + i / zero_group) : (b.code == "uint4" ? 8 : 128);
        of += scale_a.get(row, i) * a.get(row, i) * scale_b.get(column, i) * (b.get(column, i) - zero);
      }
      return of;
    };
    epilogue.fill(out, sum, trial.random());
  });
  quern_quantized_gemm_args args{};
  args.a = a.field->tensor(), args.b = b.field->tensor(), args.out = out.tensor();
  args.a_format = a.format, args.b_format = b.format;
  args.scale_a = scale_a.tensor(), args.scale_b = scale_b.tensor();
  args.scale_a_type = scale_a.type(), args.scale_b_type = scale_b.type();
  if (zeros != nullptr) args.zero_b = zeros->tensor();
  args.epilogue = epilogue.asked();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  if (invariant) args.flags |= QUERN_CALL_BATCH_INVARIANT;
  trial.what = "m " + std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k);
  // Of many rows a trial has too few for the call to choose every width of tiles.
  const Variant variant = variant_named(given.text("variant")).value_or(Variant::rows16);
  const auto columns = static_cast<int>(given.integer("columns", 128));
  trial.call_by(
      [=](const Runtime& runtime, const quern_quantized_gemm_args& its) {
        return workspace_as(runtime, its, variant, columns);
      },
      [=](const Runtime& runtime, const quern_quantized_gemm_args& its) { run_as(runtime, its, variant, columns); },
      args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kCalls))};

}  // namespace quern::ops::quantized_gemm
