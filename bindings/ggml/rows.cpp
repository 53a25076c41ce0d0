// What ggml does by rows: norms, soft-max, rope, rows of tables.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops.h"

namespace quern::ggml {
namespace {

// Rows at one distance, of which the numbers lie side by side: [rows, n] of what has four dimensions.
bool are_rows(const ggml_tensor* tensor) {
  const std::size_t size = type_of(tensor).bits / 8;
  if (size == 0 || tensor->nb[0] != size || !is_even(tensor)) return false;
  // All dimensions above the first run through without a gap of their own.
  return (tensor->ne[2] == 1 || tensor->nb[2] == tensor->nb[1] * static_cast<std::size_t>(tensor->ne[1])) &&
         (tensor->ne[3] == 1 ||
          tensor->nb[3] == tensor->nb[1] * static_cast<std::size_t>(tensor->ne[1] * tensor->ne[2]));
}
View rows_of(const ggml_tensor* tensor) {
  const View whole = view_of(tensor);
  return {whole.data, whole.type, {ggml_nrows(tensor), whole.shape[3]}, {whole.strides[2], 1}};
}

constexpr std::int64_t kLongestRow = 65536, kWidestHead = 1024;

bool is_norm_supported(const ggml_tensor* node) {
  const ggml_tensor* x = node->src[0];
  return node->type == GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && are_rows(x) && are_rows(node) &&
         x->ne[0] <= kLongestRow;
}
void run_rms_norm(Run& run, const ggml_tensor* node) {
  quern_rmsnorm_args args = {};
  args.x = run.tensor(rows_of(node->src[0]));
  args.out = run.tensor(rows_of(node));
  args.eps = float_parameter(node, 0);
  QUERN_LAUNCH(run, rmsnorm, args);
}
void run_norm(Run& run, const ggml_tensor* node) {
  quern_norm_args args = {};
  args.x = run.tensor(rows_of(node->src[0]));
  args.out = run.tensor(rows_of(node));
  args.kind = QUERN_NORM_LAYER;
  args.eps = float_parameter(node, 0);
  QUERN_LAUNCH(run, norm, args);
}

bool is_group_norm_supported(const ggml_tensor* node) {
  const ggml_tensor* x = node->src[0];
  return node->type == GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && ggml_is_contiguous(x) && ggml_is_contiguous(node) &&
         x->ne[2] % node->op_params[0] == 0;
}
void run_group_norm(Run& run, const ggml_tensor* node) {
  const auto channels = [](const ggml_tensor* tensor) {
    const std::int64_t places = tensor->ne[0] * tensor->ne[1];
    return View{tensor->data, kF32, {tensor->ne[3], tensor->ne[2], places}, {places * tensor->ne[2], places, 1}};
  };
  quern_norm_args args = {};
  args.x = run.tensor(channels(node->src[0]));
  args.out = run.tensor(channels(node));
  args.kind = QUERN_NORM_GROUP;
  args.groups = node->op_params[0];
  args.eps = float_parameter(node, 1);
  QUERN_LAUNCH(run, norm, args);
}

// softmax(x * scale + mask), the mask the same for several heads; biases that grow with the place and sinks are left.
bool is_soft_max_supported(const ggml_tensor* node) {
  const ggml_tensor *x = node->src[0], *mask = node->src[1];
  if (node->type != GGML_TYPE_F32 || x->type != GGML_TYPE_F32 || !are_rows(x) || !ggml_is_contiguous(node))
    return false;
  if (node->src[2] != nullptr || float_parameter(node, 1) != 0) return false;
  return mask == nullptr ||
         (has_type(mask, {GGML_TYPE_F32, GGML_TYPE_F16}) && is_even(mask) &&
          (mask->ne[2] == 1 || mask->ne[2] == x->ne[2]) && (mask->ne[3] == 1 || mask->ne[3] == x->ne[3]));
}
void run_soft_max(Run& run, const ggml_tensor* node) {
  const float scale = float_parameter(node, 0);
  View logits = rows_of(node->src[0]);
  if (const ggml_tensor* mask = node->src[1]) {
    View some = view_of(mask);
    some.shape[2] = node->ne[1];  // rows beyond the queries are padding
    run.pointwise("tensor0 * scalar0 + tensor1", {view_of(node->src[0]), some}, view_of(node), {scale});
    logits = rows_of(node);
  } else if (scale != 1.0F) {
    run.pointwise("tensor0 * scalar0", {view_of(node->src[0])}, view_of(node), {scale});
    logits = rows_of(node);
  }
  quern_softmax_args args = {};
  args.logits = run.tensor(logits);
  args.out = run.tensor(rows_of(node));
  QUERN_LAUNCH(run, softmax, args);
}

enum RopeParameter { kDimensions = 1, kMode = 2, kBase = 5, kFrequencyScale = 6, kExtrapolation = 7, kAttention = 8 };

// Pairs side by side and NeoX's, with factors of the frequencies too; YaRN and several positions a token are left.
bool is_rope_supported(const ggml_tensor* node) {
  const ggml_tensor* x = node->src[0];
  const int mode = node->op_params[kMode];
  return has_type(x, {GGML_TYPE_F32, GGML_TYPE_F16}) && node->type == x->type && is_even(x) && is_even(node) &&
         x->nb[0] == type_of(x).bits / 8U && node->nb[0] == x->nb[0] &&
         (node->src[2] == nullptr || node->src[2]->type == GGML_TYPE_F32) &&
         (mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX) && float_parameter(node, kExtrapolation) == 0 &&
         node->op_params[kDimensions] % 2 == 0 && node->op_params[kDimensions] <= x->ne[0] && x->ne[0] % 8 == 0 &&
         x->ne[0] <= kWidestHead && node->src[1]->ne[0] == x->ne[2];
}
// Cosines and sines of a graph's positions, each frequency divided by its factor (Llama 3.1's): quern_rope has no such
// list, but takes a table. They are the same in all layers.
const Run::Angles& angles_of(Run& run, const ggml_tensor* node) {
  const ggml_tensor *positions = node->src[1], *factors = node->src[2];
  const Run::Angles wanted = {
      {positions, view_of(positions)},
      {factors, view_of(factors)},
      {float_parameter(node, kBase), float_parameter(node, kFrequencyScale), float_parameter(node, kAttention)},
      node->op_params[kDimensions],
      {},
      {}};
  for (const Run::Angles& known : run.angles()) {
    if (known.positions == wanted.positions && known.factors == wanted.factors && known.numbers == wanted.numbers &&
        known.dimensions == wanted.dimensions) {
      return known;
    }
  }
  const std::int64_t tokens = positions->ne[0], pairs = wanted.dimensions / 2;
  Run::Angles made = wanted;
  made.table = run.scratch(kF32, {tokens, wanted.dimensions});
  made.places = run.scratch(kI32, {tokens});
  const View at = {positions->data, type_of(positions), {tokens, 1}, {1, 1}};
  const View by = {factors->data, kF32, {pairs}, {1}};
  const auto [base, frequency, attention] = wanted.numbers;
  const std::vector<float> scalars = {-std::log2(base) / static_cast<float>(pairs), frequency, attention};
  View half = made.table;
  half.shape[1] = pairs;
  run.pointwise("cos(tensor0 * (exp2(index1 * scalar0) / tensor1) * scalar1) * scalar2", {at, by}, half, scalars);
  half.data = static_cast<char*>(half.data) + pairs * static_cast<std::int64_t>(sizeof(float));
  run.pointwise("sin(tensor0 * (exp2(index1 * scalar0) / tensor1) * scalar1) * scalar2", {at, by}, half, scalars);
  run.pointwise("index0", {}, made.places);
  run.keep_scratch();
  run.angles().push_back(made);
  return run.angles().back();
}

void run_rope(Run& run, const ggml_tensor* node) {
  const View x = view_of(node->src[0]), out = view_of(node), positions = view_of(node->src[1]);
  quern_rope_options options = {};
  options.size = sizeof options;
  options.flags = node->op_params[kMode] == GGML_ROPE_TYPE_NORMAL ? QUERN_ROPE_INTERLEAVED : 0;
  options.rotary_dim = node->op_params[kDimensions];
  options.theta = static_cast<double>(float_parameter(node, kBase));
  const float frequency = float_parameter(node, kFrequencyScale);
  const Run::Angles* angles = node->src[2] == nullptr ? nullptr : &angles_of(run, node);
  // A table has it in its numbers already.
  if (angles == nullptr) options.attention_factor = static_cast<double>(float_parameter(node, kAttention));
  if (angles == nullptr && frequency != 1.0F) {
    options.scaling = QUERN_ROPE_LINEAR;
    options.factor = 1 / static_cast<double>(frequency);
  }
  for (std::int64_t batch = 0; batch < x.shape[0]; ++batch) {
    quern_rope_args args = {};
    args.q = run.tensor(x.at(batch));
    args.q_out = run.tensor(out.at(batch));
    args.positions = run.tensor(angles == nullptr ? positions.at(0).at(0).at(0) : angles->places);
    options.table = angles == nullptr ? nullptr : run.tensor(angles->table);
    args.rope = &options;
    QUERN_LAUNCH(run, rope, args);
  }
}

// Rows that begin and end at whole words, as quern_gather and quern_scatter move them.
bool are_words(const ggml_tensor* tensor) {
  if (!is_even(tensor) || tensor->nb[0] != type_of(tensor).bits / 8U) return false;
  if (static_cast<std::size_t>(tensor->ne[0]) * tensor->nb[0] % 4 != 0) return false;
  return tensor->nb[1] % 4 == 0 && tensor->nb[2] % 4 == 0 && tensor->nb[3] % 4 == 0;
}
bool are_ids(const ggml_tensor* ids) { return has_type(ids, {GGML_TYPE_I32, GGML_TYPE_I64}) && is_even(ids); }

// Rows of each of a table's matrices by ids of its own.
bool is_get_rows_supported(const ggml_tensor* node) {
  const ggml_tensor* table = node->src[0];
  return node->type == GGML_TYPE_F32 && has_type(table, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) &&
         are_words(table) && are_words(node) && are_ids(node->src[1]);
}
void run_get_rows(Run& run, const ggml_tensor* node) {
  const View table = view_of(node->src[0]), ids = view_of(node->src[1]), out = view_of(node);
  for (std::int64_t i3 = 0; i3 < ids.shape[1]; ++i3) {
    for (std::int64_t i2 = 0; i2 < ids.shape[2]; ++i2) {
      quern_gather_args args = {};
      args.table = run.tensor(table.at(i3).at(i2));
      args.ids = run.tensor(ids.at(0).at(i3).at(i2));
      args.out = run.tensor(out.at(i3).at(i2));
      QUERN_LAUNCH(run, gather, args);
    }
  }
}

// Rows put to places of a table, a KV cache's slots: no place twice. Ids are the same for several matrices.
bool is_set_rows_supported(const ggml_tensor* node) {
  const ggml_tensor* rows = node->src[0];
  return has_type(node, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) && rows->type == GGML_TYPE_F32 &&
         are_words(rows) && are_words(node) && are_ids(node->src[1]);
}
void run_set_rows(Run& run, const ggml_tensor* node) {
  const View rows = view_of(node->src[0]), ids = view_of(node->src[1]), out = view_of(node);
  for (std::int64_t i3 = 0; i3 < rows.shape[0]; ++i3) {
    for (std::int64_t i2 = 0; i2 < rows.shape[1]; ++i2) {
      quern_scatter_args args = {};
      args.x = run.tensor(rows.at(i3).at(i2));
      args.ids = run.tensor(ids.at(0).at(i3 % ids.shape[1]).at(i2 % ids.shape[2]));
      args.out = run.tensor(out.at(i3).at(i2));
      args.flags = QUERN_SCATTER_UNIQUE;
      QUERN_LAUNCH(run, scatter, args);
    }
  }
}

}  // namespace

extern const Op kRmsNorm = {GGML_OP_RMS_NORM, is_norm_supported, run_rms_norm};
extern const Op kNorm = {GGML_OP_NORM, is_norm_supported, run_norm};
extern const Op kGroupNorm = {GGML_OP_GROUP_NORM, is_group_norm_supported, run_group_norm};
extern const Op kSoftMax = {GGML_OP_SOFT_MAX, is_soft_max_supported, run_soft_max};
extern const Op kRope = {GGML_OP_ROPE, is_rope_supported, run_rope};
extern const Op kGetRows = {GGML_OP_GET_ROWS, is_get_rows_supported, run_get_rows};
extern const Op kSetRows = {GGML_OP_SET_ROWS, is_set_rows_supported, run_set_rows};

}  // namespace quern::ggml
