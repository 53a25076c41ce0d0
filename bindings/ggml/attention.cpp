// ggml_flash_attn_ext: by quern_attention where the mask says of each key only whether it is seen, as language models'
// masks do, else by products and a soft-max, which add whatever numbers it has.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops.h"

namespace quern::ggml {
namespace {

constexpr std::int64_t kWidestHead = 256, kMaskBits = 8;

// As ggml has them in op_params.
struct Numbers {
  float scale, max_bias, cap;
  explicit Numbers(const ggml_tensor* node)
      : scale(float_parameter(node, 0)), max_bias(float_parameter(node, 1)), cap(float_parameter(node, 2)) {}
};

bool is_supported(const ggml_tensor* node) {
  const ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *mask = node->src[3],
                    *sinks = node->src[4];
  if (node->type != GGML_TYPE_F32 || q->type != GGML_TYPE_F32 || !has_type(k, {GGML_TYPE_F16, GGML_TYPE_BF16}))
    return false;
  if (v->type != k->type || sinks != nullptr || !is_even(q) || !is_even(k) || !is_even(v)) return false;
  if (k->nb[0] != 2 || v->nb[0] != 2 || q->ne[2] % k->ne[2] != 0 || k->ne[2] != v->ne[2]) return false;
  if (q->ne[0] % 8 != 0 || v->ne[0] % 8 != 0 || q->ne[3] % k->ne[3] != 0 || !ggml_is_contiguous(node)) return false;
  if (mask == nullptr) return float_parameter(node, 1) == 0;
  // Products read pairs of 16 bits.
  if (k->ne[1] % 2 != 0) return false;
  return mask->type == GGML_TYPE_F16 && is_even(mask) && mask->nb[0] == 2 &&
         (mask->ne[2] == 1 || mask->ne[2] == q->ne[2]) && (mask->ne[3] == 1 || mask->ne[3] == q->ne[3]);
}

// The heads of one sequence as [tokens, heads, d].
View tokens_of(const View& whole, std::int64_t sequence) { return whole.at(sequence).turned({1, 0, 2}); }

// Whether all that a mask adds is 0 or minus infinity; read back from the device, once a graph.
bool is_binary(Run& run, const View& mask) {
  const View other = run.scratch(kF32, {mask.count()});
  View shaped = other;
  shaped.shape = mask.shape;
  shaped.strides = {mask.shape[1], 1};
  run.pointwise("select(tensor0 == 0, 0, select(tensor0 < -60000, 0, 1))", {mask}, shaped);
  const View most = run.scratch(kF32, {1});
  quern_reduce_args args = {};
  args.x = run.tensor(other);
  args.out = run.tensor(most);
  args.reduction = QUERN_REDUCE_MAX;
  QUERN_LAUNCH(run, reduce, args);
  float found = 0;
  run.memory().get(&found, most.data, sizeof found);
  return found == 0;
}

// The mask of one sequence as quern_attention's bits.
const Run::Mask& bits_of(Run& run, const ggml_tensor* tensor, std::int64_t sequence, std::int64_t tokens) {
  const View all = view_of(tensor);
  View mask = all.at(all.shape[0] == 1 ? 0 : sequence).at(0);
  mask.shape[0] = tokens;  // rows beyond are padding
  const Run::Origin origin = {tensor, mask};
  for (const Run::Mask& known : run.masks()) {
    if (known.of == origin) return known;
  }
  Run::Mask made = {origin, {}, {}, {}, false};
  const std::int64_t keys = mask.shape[1];
  made.is_binary = keys % kMaskBits == 0 && is_binary(run, mask);
  if (made.is_binary) {
    made.bits = run.scratch(kU8, {tokens, keys / kMaskBits});
    std::vector<View> bits;
    for (std::int64_t bit = 0; bit < kMaskBits; ++bit) {
      View every = mask;
      every.data = static_cast<char*>(mask.data) + bit * 2;
      every.shape[1] = keys / kMaskBits;
      every.strides[1] = kMaskBits;
      bits.push_back(every);
    }
    run.pointwise(
        "select(tensor0 == 0, 1, 0) + select(tensor1 == 0, 2, 0) + select(tensor2 == 0, 4, 0) + "
        "select(tensor3 == 0, 8, 0) + select(tensor4 == 0, 16, 0) + select(tensor5 == 0, 32, 0) + "
        "select(tensor6 == 0, 64, 0) + select(tensor7 == 0, 128, 0)",
        bits, made.bits);
    made.bits.shape = {made.bits.count()};
    made.bits.strides = {1};
    made.indptr = run.numbers({0, static_cast<std::int32_t>(made.bits.count())});
    made.keys = run.numbers({static_cast<std::int32_t>(keys)});
    run.keep_scratch();
  }
  run.masks().push_back(made);
  return run.masks().back();
}

void by_attention(Run& run, const View& q, const View& k, const View& v, const Run::Mask* mask, const View& out,
                  const Numbers& numbers) {
  const std::int64_t tokens = q.shape[0], keys = k.shape[0];
  const View near_q = run.scratch(k.type, q.shape), near_out = run.scratch(k.type, out.shape);
  run.copy(q, near_q);
  const View lengths = run.numbers({static_cast<std::int32_t>(keys)});
  quern_attention_args args = {};
  args.q = run.tensor(near_q);
  args.k = run.tensor(k);
  args.v = run.tensor(v);
  args.out = run.tensor(near_out);
  args.lengths = run.tensor(lengths);
  args.cu_kv = run.tensor(run.numbers({0, static_cast<std::int32_t>(keys)}));
  args.cu_q = run.tensor(run.numbers({0, static_cast<std::int32_t>(tokens)}));
  if (mask != nullptr) {
    args.mask = run.tensor(mask->bits);
    args.mask_indptr = run.tensor(mask->indptr);
    args.mask_keys = run.tensor(mask->keys);
  }
  args.max_q_len = static_cast<std::int32_t>(tokens);
  args.max_kv_len = static_cast<std::int32_t>(keys);
  args.scale = numbers.scale;
  args.logit_cap = numbers.cap;
  QUERN_LAUNCH(run, attention, args);
  run.copy(near_out, out);
}

// Each head's factor of what its mask adds.
View slopes_of(Run& run, std::int64_t heads, float max_bias) {
  const auto power =
      static_cast<float>(std::int64_t{1} << static_cast<int>(std::floor(std::log2(static_cast<double>(heads)))));
  const float first = std::exp2(-max_bias / power), second = std::exp2(-max_bias / 2 / power);
  std::vector<float> values;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto place = static_cast<float>(h);
    values.push_back(place < power ? std::pow(first, place + 1) : std::pow(second, 2 * (place - power) + 1));
  }
  const View slopes = run.factors(values);
  return {slopes.data, kF32, {heads, 1, 1}, {1, 1, 1}};
}

// out = softmax(cap(q k^T) + mask) v, head by head of the cache, whose queries are one batch.
void by_products(Run& run, const View& q, const View& k, const View& v, const ggml_tensor* mask, std::int64_t sequence,
                 const View& out, const Numbers& numbers) {
  const std::int64_t tokens = q.shape[0], heads = q.shape[1], d = q.shape[2], keys = k.shape[0],
                     group = heads / k.shape[1];
  const View near_q = run.scratch(k.type, {heads, tokens, d}), scores = run.scratch(kF32, {heads, tokens, keys});
  run.copy(q.turned({1, 0, 2}), near_q);
  // Heads `first` to `first + group` of what has the heads in front.
  const auto some = [&](View whole, std::int64_t first) {
    whole.data = whole.at(first).data;
    whole.shape[0] = group;
    return whole;
  };
  const auto shared = [&](View one) {
    one.shape.insert(one.shape.begin(), group);
    one.strides.insert(one.strides.begin(), 0);
    return one;
  };
  const View k_heads = k.turned({1, 0, 2}), v_heads = v.turned({1, 2, 0}), out_heads = out.turned({1, 0, 2});
  const auto product = [&](const View& a, const View& b, const View& to) {
    quern_gemm_args args = {};
    args.a = run.tensor(a);
    args.b = run.tensor(b);
    args.out = run.tensor(to);
    QUERN_LAUNCH(run, gemm, args);
  };
  for (std::int64_t h = 0; h < k.shape[1]; ++h) {
    product(some(near_q, h * group), shared(k_heads.at(h)), some(scores, h * group));
  }
  const bool capped = numbers.cap != 0;
  const float scale = capped ? numbers.scale / numbers.cap : numbers.scale;
  std::vector<View> operands = {scores};
  std::vector<float> scalars = {scale};
  if (capped) scalars.push_back(numbers.cap);
  std::string formula = capped ? "scalar1 * tanh(tensor0 * scalar0)" : "tensor0 * scalar0";
  if (mask != nullptr) {
    View added = view_of(mask);
    added = added.at(added.shape[0] == 1 ? 0 : sequence);
    added.shape[1] = tokens;
    operands.push_back(added);
    formula += " + tensor1";
    if (numbers.max_bias > 0) {
      operands.push_back(slopes_of(run, heads, numbers.max_bias));
      formula += " * tensor2";
    }
  }
  run.pointwise(formula.c_str(), operands, scores, scalars);
  View rows = scores;
  rows.shape = {heads * tokens, keys};
  rows.strides = {keys, 1};
  quern_softmax_args args = {};
  args.logits = run.tensor(rows);
  args.out = run.tensor(rows);
  QUERN_LAUNCH(run, softmax, args);
  const View weights = run.scratch(k.type, scores.shape);
  run.copy(scores, weights);
  for (std::int64_t h = 0; h < k.shape[1]; ++h) {
    product(some(weights, h * group), shared(v_heads.at(h)), some(out_heads, h * group));
  }
}

void run_it(Run& run, const ggml_tensor* node) {
  const ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *mask = node->src[3];
  const Numbers numbers(node);
  const bool narrow = q->ne[0] <= kWidestHead && v->ne[0] <= kWidestHead && numbers.max_bias == 0;
  const std::int64_t shared = q->ne[3] / k->ne[3];
  for (std::int64_t s = 0; s < q->ne[3]; ++s) {
    const View near_q = tokens_of(view_of(q), s), near_k = tokens_of(view_of(k), s / shared),
               near_v = tokens_of(view_of(v), s / shared), out = view_of(node).at(s);
    const Run::Mask* bits = nullptr;
    if (narrow && mask != nullptr && mask->ne[2] == 1) {
      bits = &bits_of(run, mask, s, q->ne[1]);
      if (!bits->is_binary) bits = nullptr;
    }
    if (narrow && (mask == nullptr || bits != nullptr)) {
      by_attention(run, near_q, near_k, near_v, bits, out, numbers);
    } else {
      by_products(run, near_q, near_k, near_v, mask, s, out, numbers);
    }
  }
}

}  // namespace

extern const Op kFlashAttention = {GGML_OP_FLASH_ATTN_EXT, is_supported, run_it};

}  // namespace quern::ggml
