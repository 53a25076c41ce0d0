// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <sstream>

namespace quern::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int32_t kPoison = -1431655766;  // 0xaaaaaaaa
constexpr unsigned char kPoisonByte = 0xaa;

// The order of choices and of groups: the larger first, NaN behind all, the lower index on ties.
bool before(double a, double b, std::int64_t index_a, std::int64_t index_b) {
  if (std::isnan(a) != std::isnan(b)) return std::isnan(b);
  if (!std::isnan(a) && a != b) return a > b;
  return index_a < index_b;
}

template <class T>
std::vector<T> read_all(const Buffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  buffer.read(values.data(), buffer.size());
  return values;
}

// Differs, by more than rounding can make or take.
bool apart(std::vector<double> values, double margin) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  std::sort(values.begin(), values.end());
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double gap = values[i] - values[i - 1];
    if (gap != 0.0 && gap < margin * std::max(1.0, std::fabs(values[i]))) return false;
  }
  return true;
}

}  // namespace

std::string RoutingCase::text() const {
  std::ostringstream s;
  s << dtype.name() << " " << tokens << "x" << experts << " top " << top_k << ", groups " << groups << " top "
    << top_groups << (sigmoid ? ", sigmoid" : ", softmax") << (bias ? ", bias" : "")
    << (renormalize ? ", renormalised" : "") << ", scale " << scale << ", experts from " << first_expert << ", "
    << local() << " of them, max_sms " << max_sms << "; QUERN_TEST_SEED=" << run_seed();
  return s.str();
}

RoutingCase deepseek(std::int64_t tokens) {
  RoutingCase c;
  c.tokens = tokens;
  c.experts = 256;
  c.top_k = 8;
  c.groups = 8;
  c.top_groups = 4;
  c.sigmoid = c.renormalize = c.bias = true;
  c.scale = 2.5f;
  return c;
}

bool same_bits(const Routed& a, const Routed& b) {
  return a.weights.size() == b.weights.size() &&
         std::memcmp(a.weights.data(), b.weights.data(), a.weights.size() * 4) == 0 && a.ids == b.ids &&
         a.offsets == b.offsets && a.indices == b.indices && a.positions == b.positions && a.counts == b.counts;
}

Routing::Routing(const RoutingCase& c, Random random)
    : args(sized<quern_moe_route_args>()),
      c_(c),
      logits_(static_cast<std::size_t>(c.tokens * c.experts)),
      bias_(static_cast<std::size_t>(c.experts)),
      logit_buffer_(static_cast<std::size_t>(c.tokens * (c.experts + c.padding)) * c.dtype.bytes()),
      bias_buffer_(bias_.size() * 4),
      weight_buffer_(static_cast<std::size_t>(c.tokens * (c.top_k + c.padding)) * 4),
      id_buffer_(weight_buffer_.size()),
      offset_buffer_(static_cast<std::size_t>(c.local() + 1) * 4),
      index_buffer_(static_cast<std::size_t>(c.tokens * c.top_k) * 4),
      position_buffer_(weight_buffer_.size()),
      count_buffer_(static_cast<std::size_t>(c.local()) * 4) {
  for (float& b : bias_) b = static_cast<float>((c.experts > 300 ? 1.0 : 0.3) * random.normal());
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    do draw(t, random);
    while (c.bias && !separated(t));
  }
  const std::int64_t row = c.top_k + c.padding;
  logits.set(c.dtype.type(), {c.tokens, c.experts}, {c.experts + c.padding, 1});
  bias.set(kFloat32, {c.experts});
  weights.set(kFloat32, {c.tokens, c.top_k}, {row, 1});
  ids.set(kInt32, {c.tokens, c.top_k}, {row, 1});
  positions.set(kInt32, {c.tokens, c.top_k}, {row, 1});
  offsets.set(kInt32, {c.local() + 1});
  indices.set(kInt32, {c.tokens * c.top_k});
  counts.set(kInt32, {c.local()});
  logits.place(logit_buffer_.data()), bias.place(bias_buffer_.data()), weights.place(weight_buffer_.data());
  ids.place(id_buffer_.data()), offsets.place(offset_buffer_.data()), indices.place(index_buffer_.data());
  positions.place(position_buffer_.data()), counts.place(count_buffer_.data());
  args.logits = logits.get(), args.weights = weights.get(), args.ids = ids.get();
  if (c.bias) args.bias = bias.get();
  args.offsets = offsets.get(), args.indices = indices.get(), args.positions = positions.get(),
  args.counts = counts.get();
  args.flags =
      (c.sigmoid ? std::uint32_t{QUERN_MOE_SIGMOID} : 0u) | (c.renormalize ? std::uint32_t{QUERN_MOE_RENORMALIZE} : 0u);
  args.top_k = c.top_k, args.groups = c.groups, args.top_groups = c.top_groups, args.scale = c.scale;
  args.first_expert = c.first_expert, args.local_experts = c.local_experts, args.max_sms = c.max_sms;
}

void Routing::draw(std::int64_t token, Random& random) {
  for (std::int64_t e = 0; e < c_.experts; ++e) set_logit(token, e, 1.5 * random.normal());
}

void Routing::set_logit(std::int64_t token, std::int64_t expert, double value) {
  logits_[at(token, expert)] = c_.dtype.rounded(value);
}

void Routing::upload() {
  std::vector<unsigned char> rows(logit_buffer_.size(), 0xff);
  for (std::int64_t t = 0; t < c_.tokens; ++t) {
    for (std::int64_t e = 0; e < c_.experts; ++e)
      c_.dtype.store(&rows[static_cast<std::size_t>(t * (c_.experts + c_.padding) + e) * c_.dtype.bytes()],
                     logit(t, e));
  }
  logit_buffer_.write(rows);
  bias_buffer_.write(bias_);
}

void Routing::poison() {
  for (Buffer* b : {&weight_buffer_, &id_buffer_, &offset_buffer_, &index_buffer_, &position_buffer_, &count_buffer_})
    b->fill(kPoisonByte);
}

void Routing::run(quern_context* context) {
  upload();
  poison();
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_moe_route_workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
  if (workspace_.size() < bytes) workspace_ = Buffer(bytes, 0);
  args.workspace = workspace_.data();
  args.workspace_size = bytes;
  ASSERT_EQ(quern_moe_route_prepare(context, &args, &error), QUERN_OK) << error.text;
  synchronize();
  call(context);
  synchronize();
}

void Routing::call(quern_context* context, void* stream) {
  auto error = sized<quern_error>();
  quern_moe_route_args now = args;
  now.flags |= QUERN_CALL_CACHED_ONLY;
  now.stream = stream;
  ASSERT_EQ(quern_moe_route(context, &now, &error), QUERN_OK) << error.text;
}

Routed Routing::read() const {
  return {read_all<float>(weight_buffer_),          read_all<std::int32_t>(id_buffer_),
          read_all<std::int32_t>(offset_buffer_),   read_all<std::int32_t>(index_buffer_),
          read_all<std::int32_t>(position_buffer_), read_all<std::int32_t>(count_buffer_)};
}

std::vector<Routing::Choice> Routing::choices(std::int64_t token) const {
  double max = -kInfinity, sum = 0.0;
  for (std::int64_t e = 0; e < c_.experts; ++e) max = std::fmax(max, logit(token, e));
  const auto weight = [&](double l) { return l == max ? 1.0 : std::exp(l - max); };
  for (std::int64_t e = 0; e < c_.experts; ++e) {
    if (!std::isnan(logit(token, e))) sum += weight(logit(token, e));
  }
  std::vector<Choice> all;
  for (std::int64_t e = 0; e < c_.experts; ++e) {
    const double l = logit(token, e);
    double score = 0;
    if (c_.sigmoid) {
      score = 1.0 / (1.0 + std::exp(-l));
    } else if (max > -kInfinity || std::isnan(l)) {
      score = weight(l) / sum;
    }
    // Without a bias the scores' order is that of the logits.
    all.push_back({c_.bias ? score + bias_[static_cast<std::size_t>(e)] : l, score, static_cast<std::int32_t>(e)});
  }
  return all;
}

double Routing::worth(const std::vector<Choice>& choices, int group) const {
  const auto size = static_cast<std::ptrdiff_t>(c_.experts / c_.groups);
  std::vector<Choice> members(choices.begin() + group * size, choices.begin() + (group + 1) * size);
  std::sort(members.begin(), members.end(),
            [](const Choice& a, const Choice& b) { return before(a.value, b.value, a.id, b.id); });
  return c_.bias && size > 1 ? members[0].value + members[1].value : members[0].value;
}

std::vector<Routing::Choice> Routing::chosen(std::int64_t token) const {
  std::vector<Choice> all = choices(token);
  if (c_.groups > 1) {
    const std::int64_t size = c_.experts / c_.groups;
    std::vector<std::pair<double, int>> groups;
    for (int g = 0; g < c_.groups; ++g) groups.emplace_back(worth(all, g), g);
    std::sort(groups.begin(), groups.end(),
              [](const auto& a, const auto& b) { return before(a.first, b.first, a.second, b.second); });
    std::vector<bool> taken(static_cast<std::size_t>(c_.groups), false);
    for (int g = 0; g < (c_.top_groups != 0 ? c_.top_groups : c_.groups); ++g)
      taken[static_cast<std::size_t>(groups[static_cast<std::size_t>(g)].second)] = true;
    std::erase_if(all, [&](const Choice& choice) { return !taken[static_cast<std::size_t>(choice.id / size)]; });
  }
  std::sort(all.begin(), all.end(),
            [](const Choice& a, const Choice& b) { return before(a.value, b.value, a.id, b.id); });
  all.resize(static_cast<std::size_t>(c_.top_k));
  return all;
}

bool Routing::separated(std::int64_t token) const {
  const std::vector<Choice> all = choices(token);
  std::vector<double> values, worths;
  for (const Choice& choice : all) values.push_back(choice.value);
  for (int g = 0; g < c_.groups; ++g) worths.push_back(worth(all, g));
  return apart(values, 1e-6) && apart(worths, 2e-6);
}

void Routing::check_weights(std::int64_t token, const std::vector<Choice>& best, const float* given) const {
  double sum = 0.0, far = 0.0;
  for (const Choice& choice : best) {
    sum += choice.score;
    if (choice.score > 0.0) far = std::max(far, std::fabs(std::log(choice.score)));
  }
  double factor = c_.scale == 0.0f ? 1.0 : double{c_.scale};
  if (c_.renormalize && sum != 0.0) factor /= sum;
  for (std::size_t j = 0; j < best.size(); ++j) {
    const double exact = best[j].score * factor;
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(given[j])) << "token " << token << ", choice " << j;
    } else {
      // An exponential's argument is rounded: its relative error grows with it. Below 2^-126 targets may flush to zero.
      EXPECT_LE(std::fabs(given[j] - exact), std::fabs(exact) * (1.2e-6 + 2.4e-7 * far) + 0x1p-125 * std::fabs(factor))
          << "token " << token << ", choice " << j << ": " << given[j] << ", exactly " << exact;
    }
  }
}

void Routing::check(const Routed& given) const {
  SCOPED_TRACE(c_.text());
  const std::int64_t row = c_.top_k + c_.padding;
  std::vector<std::int32_t> want_ids(given.ids.size(), kPoison), want_positions(given.positions.size(), kPoison);
  std::vector<std::int32_t> want_indices(given.indices.size(), kPoison);
  std::vector<std::vector<std::int64_t>> rows(
      static_cast<std::size_t>(c_.local()));  // of each expert: where the choices lie
  for (std::int64_t t = 0; t < c_.tokens; ++t) {
    const std::vector<Choice> best = chosen(t);
    check_weights(t, best, &given.weights[static_cast<std::size_t>(t * row)]);
    for (int j = 0; j < c_.top_k; ++j) {
      const std::int64_t at = t * row + j, expert = best[static_cast<std::size_t>(j)].id - c_.first_expert;
      want_ids[static_cast<std::size_t>(at)] = best[static_cast<std::size_t>(j)].id;
      want_positions[static_cast<std::size_t>(at)] = -1;
      if (expert >= 0 && expert < c_.local()) rows[static_cast<std::size_t>(expert)].push_back(at);
    }
    for (std::int64_t j = c_.top_k; j < row; ++j) {
      std::int32_t bits = 0;
      std::memcpy(&bits, &given.weights[static_cast<std::size_t>(t * row + j)], 4);
      EXPECT_EQ(bits, kPoison) << "written behind the weights of token " << t;
    }
  }
  std::vector<std::int32_t> want_offsets = {0}, want_counts;
  std::int32_t next = 0;
  for (const std::vector<std::int64_t>& of_expert : rows) {
    for (const std::int64_t at : of_expert) {
      want_positions[static_cast<std::size_t>(at)] = next;
      want_indices[static_cast<std::size_t>(next++)] = static_cast<std::int32_t>(at / row);
    }
    want_counts.push_back(static_cast<std::int32_t>(of_expert.size()));
    want_offsets.push_back(next);
  }
  EXPECT_EQ(given.ids, want_ids);
  const auto expect = [](const void* tensor, const std::vector<std::int32_t>& is, std::vector<std::int32_t> want,
                         const char* name) {
    if (tensor == nullptr) std::fill(want.begin(), want.end(), kPoison);
    EXPECT_EQ(is, want) << name;
  };
  expect(args.offsets, given.offsets, want_offsets, "offsets");
  expect(args.counts, given.counts, want_counts, "counts");
  expect(args.indices, given.indices, want_indices, "indices");
  expect(args.positions, given.positions, want_positions, "positions");
}

void Routing::expect_counters_zero() const {
  const std::vector<unsigned char> bytes = workspace_.read();
  constexpr std::size_t kCounterBytes = 256 * 1024;
  ASSERT_GE(bytes.size(), kCounterBytes);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.begin() + kCounterBytes, [](unsigned char b) { return b == 0; }));
}

}  // namespace quern::test
