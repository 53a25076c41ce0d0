// What the kernels of fft are specialised on: passes, threads and shared memory for a length.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/fft/fft.h"
#include "sources/fft/params.cuh"
#include "sources/ops.h"

namespace quern::ops::fft {
namespace {

constexpr std::int32_t kEach = 8;  // numbers of a thread, where there are threads enough and no radix is larger
constexpr std::int32_t kMostThreads = 1024;
constexpr std::int32_t kBlockThreads = 128;  // where teams are parts of a warp
constexpr std::int32_t kBanks = 16;          // of numbers: 8 bytes each
constexpr std::int32_t kWidestPower = 16;    // of two
constexpr std::int32_t kWidestPrime = 13;    // a larger one is a sum of as many terms

constexpr Names<Kind, 4> kKinds = {
    {{"forward", Kind::forward}, {"inverse", Kind::inverse}, {"real", Kind::real}, {"to_real", Kind::to_real}}};
constexpr Names<Result, 3> kResults = {
    {{"complex", Result::complex}, {"power", Result::power}, {"magnitude", Result::magnitude}}};
constexpr bool has_result(const Shape& s) { return s.kind != Kind::to_real; }
constexpr bool may_be_framed(const Shape& s) { return s.kind == Kind::real; }
constexpr auto kConstants =
    describe<Shape>(tag_fft, "fft", number<&Shape::n>("n", nullptr, {1, 2 * kMostNumbers}),
                    choice<&Shape::kind>("kind", nullptr, kKinds),
                    choice<&Shape::result>("result", nullptr, kResults).optional().when(has_result),
                    choice<&Shape::x>("dtype", "GIVEN", kFloatDtypes), choice<&Shape::out>("out", "MADE", kFloatDtypes),
                    flag<&Shape::window>("window", nullptr).optional().when(has_result),
                    flag<&Shape::framed>("framed", nullptr).optional().when(may_be_framed),
                    flag<&Shape::x_pairs>("x_pairs", nullptr).optional().when(may_pair_x),
                    flag<&Shape::out_pairs>("out_pairs", nullptr).optional().when(may_pair_out));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

// Radices that have no butterfly come first, as they read what lies in shared memory in any case; then the largest
// powers of two, behind which rows are moved apart in shared memory.
void factor(std::int32_t length, Plan* plan) {
  const auto add = [plan](std::int32_t radix) { plan->radices[static_cast<std::size_t>(plan->passes++)] = radix; };
  std::int32_t twos = std::countr_zero(static_cast<std::uint32_t>(length)), odd = length >> twos;
  std::array<std::int32_t, kMostPasses> primes{};
  std::size_t count = 0;
  for (std::int32_t prime = 3; odd > 1; prime += 2) {
    if (prime * prime > odd) prime = odd;
    for (; odd % prime == 0; odd /= prime) primes[count++] = prime;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (primes[i] > kWidestPrime) add(primes[i]);
  }
  // As few passes as kWidestPower allows, and these as small as that allows.
  for (std::int32_t passes = (twos + 3) / 4; passes > 0; --passes) {
    const std::int32_t bits = (twos + passes - 1) / passes;
    add(1 << bits), twos -= bits;
  }
  for (std::size_t i = count; i-- > 0;) {
    if (primes[i] <= kWidestPrime) add(primes[i]);
  }
  if (plan->passes == 0) add(1);
}

std::int32_t pitch_of(const Plan& plan, std::int32_t length) {
  std::int32_t most = length, before = 1;
  for (std::int32_t i = 0; plan.padded && i + 1 < plan.passes; ++i) {
    const std::int32_t radix = plan.radices[static_cast<std::size_t>(i)];
    const q::FftPad pad = q::fft_pad(before, radix);
    if (pad.by != 0) most = std::max(most, length + (length - 1) / pad.every * pad.by);
    before *= radix;
  }
  // Rows of teams that go through shared memory together begin in banks of their own.
  while (plan.team < kBanks && most % kBanks != plan.team) ++most;
  return most;
}

std::string radices_text(const Plan& plan) {
  std::string text;
  for (std::int32_t i = 0; i < plan.passes; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(plan.radices[static_cast<std::size_t>(i)]);
  return text;
}

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  plan_of(shape, target);
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "fft";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_fft";
  const Plan plan = plan_of(shape, jit::limits_of(unit.target));
  kConstants.define(shape, &unit);
  const std::int32_t resident = blocks_per_sm(plan);
  const auto add = [&](const char* name, std::int32_t value) {
    unit.constants.push_back({name, std::to_string(value)});
  };
  unit.constants.push_back({"RADICES", radices_text(plan)});
  add("N", shape.n), add("LENGTH", length_of(shape)), add("ORDER", shape.n);
  add("KIND", static_cast<std::int32_t>(shape.kind)), add("RESULT", static_cast<std::int32_t>(shape.result));
  add("HAS_WINDOW", shape.window), add("FRAMED", shape.framed);
  add("X_PAIRS", may_pair_x(shape) && shape.x_pairs), add("OUT_PAIRS", may_pair_out(shape) && shape.out_pairs);
  add("TEAM", plan.team), add("TEAMS", plan.teams), add("PITCH", plan.pitch), add("PADDED", plan.padded);
  add("WIDEST", kWidestPower), add("BLOCKS_PER_SM", resident);
  unit.max_shared_bytes = plan.shared_bytes();
  unit.source = embedded("fft/fft.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// What quern knows of models has no transforms.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op{"fft", unit, parse, list, constants};

// Of 65 536 registers 64 or more a thread, 80 where blocks are small enough or butterflies are of 11 or 13 numbers, and
// 96 where they are of two warps or several rows share one.
std::int32_t blocks_per_sm(const Plan& plan) {
  if (plan.teams > 1) return 5;
  const bool wide = std::ranges::any_of(plan.radices, [](std::int32_t radix) { return radix == 11 || radix == 13; });
  const std::int32_t threads = plan.threads() <= 64 ? 640 : plan.threads() <= 256 || wide ? 768 : kMostThreads;
  return std::max(threads / plan.threads(), 1);
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Plan plan_of(const Shape& shape, const jit::TargetInfo& target) {
  const std::int32_t length = length_of(shape);
  if (length > kMostNumbers)
    throw Error(QUERN_INVALID,
                "fft: n is " + std::to_string(shape.n) + "; allowed: 1 to 16384, and even ones to 32768 of real rows");
  Plan plan;
  factor(length, &plan);
  const bool wide = std::ranges::find(plan.radices, kWidestPower) != plan.radices.end();
  const std::int32_t each = wide ? 2 * kEach : kEach, wanted = (length + each - 1) / each;
  const auto warp = static_cast<std::int32_t>(target.warp_size);
  if (wanted <= 32) {
    plan.team = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(wanted)));
    plan.teams = kBlockThreads / plan.team;
  } else {
    plan.team = std::min((wanted + warp - 1) / warp * warp, kMostThreads);
  }
  plan.pitch = pitch_of(plan, length);
  if (plan.shared_bytes() > target.shared_per_block) plan.padded = false, plan.pitch = pitch_of(plan, length);
  if (plan.shared_bytes() > target.shared_per_block) {
    throw Error(QUERN_INVALID, "fft: n is " + std::to_string(shape.n) + ", whose row takes " +
                                   std::to_string(plan.shared_bytes()) + " bytes of shared memory; allowed on " +
                                   target.target.name() + ": " + std::to_string(target.shared_per_block) +
                                   ", 8 for each number of the transform");
  }
  return plan;
}

}  // namespace quern::ops::fft
