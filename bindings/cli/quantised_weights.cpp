// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/quantised_weights.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bindings/cli/model_weights.h"

namespace quern::cli {
namespace {

// How a product's numbers are stored, by quantized_gemm's names.
struct Form {
  std::string a, scale_a;  // a: empty: the model's 16 bits
  std::string b, scale_b;  // scale_b: empty: as a's 16 bits
  std::int64_t group = 0;  // of k that share a scale; 0: a scale a row
  bool zeros = false;      // a zero point beside each scale
  bool experts_alone = false;
  bool operator==(const Form&) const = default;
};

Json member(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr ? Json() : *found;
}
bool is_absent_or(const Json& value, const char* text) { return value.is_null() || value == Json(text); }

// -1 is a row as a whole. Nothing where no kernel has such groups.
std::optional<std::int64_t> group_of(const Json& size) {
  for (const std::int64_t group : {16, 32, 64, 128}) {
    if (size == Json(group)) return group;
  }
  return size == Json(-1) ? std::optional<std::int64_t>(0) : std::nullopt;
}

// 4 bits with an offset, eight of them in a word; files differ in the word's order, which packing undoes.
std::optional<Form> in_words(const Json& json, bool zeros) {
  const std::optional<std::int64_t> group = group_of(member(json, "group_size"));
  if (!(member(json, "bits") == Json(4)) || !group) return {};
  return Form{.a = "", .scale_a = "", .b = "uint4", .scale_b = "", .group = *group, .zeros = zeros};
}

const Form kNvfp4{.a = "", .scale_a = "", .b = "e2m1", .scale_b = "e4m3", .group = 16};

// One group of compressed-tensors; `packing` is the file's or the group's own.
std::optional<Form> of_group(const Json& group, const Json& packing) {
  const Json weights = member(group, "weights"), inputs = member(group, "input_activations");
  const Json bits = member(weights, "num_bits"), type = member(weights, "type"), strategy = member(weights, "strategy");
  const bool symmetric = member(weights, "symmetric") == Json(true);
  if (type == Json("float") && bits == Json(4) && member(weights, "group_size") == Json(16)) return kNvfp4;
  if (!(type == Json("int"))) return {};
  const bool of_rows = strategy == Json("channel") || strategy == Json("tensor");
  if (bits == Json(4) && inputs.is_null() && packing == Json("pack-quantized")) {
    const std::optional<std::int64_t> size = group_of(of_rows                     ? Json(-1)
                                                      : strategy == Json("group") ? member(weights, "group_size")
                                                                                  : Json());
    if (!size) return {};
    return Form{.a = "", .scale_a = "", .b = "uint4", .scale_b = "", .group = *size, .zeros = !symmetric};
  }
  const bool bytes = bits == Json(8) && member(inputs, "num_bits") == Json(8) && member(inputs, "type") == Json("int");
  if (!bytes || !symmetric || !(member(inputs, "symmetric") == Json(true)) || !of_rows) return {};
  return Form{.a = "int8", .scale_a = "f32", .b = "int8", .scale_b = "f32"};
}

std::optional<Form> of_groups(const Json& json) {
  const Json groups = member(json, "config_groups");
  if (!groups.is_object() || groups.members().empty()) return {};
  std::optional<Form> all;
  for (const Json::Member& each : groups.members()) {
    const Json own = member(each.value, "format");
    const std::optional<Form> form = of_group(each.value, own.is_null() ? member(json, "format") : own);
    if (!form || (all && !(*all == *form))) return {};
    all = form;
  }
  return all;
}

std::optional<Form> form_of(const Json& json) {
  const Json method = member(json, "quant_method");
  // What "gemv" and "marlin" have laid out anew no function of ours takes back.
  if (method == Json("awq") && is_absent_or(member(json, "version"), "gemm"))
    return in_words(json, member(json, "zero_point") == Json(true));
  const Json layout = member(json, "checkpoint_format");
  if (method == Json("gptq") && (is_absent_or(layout, "gptq") || layout == Json("gptq_v2")))
    return in_words(json, !(member(json, "sym") == Json(true)));
  if (method == Json("compressed-tensors")) return of_groups(json);
  if (method == Json("modelopt") && member(json, "quant_algo") == Json("NVFP4")) return kNvfp4;
  if (method == Json("mxfp4"))
    return Form{.a = "", .scale_a = "", .b = "e2m1", .scale_b = "ue8m0", .group = 32, .experts_alone = true};
  return {};
}

// A line for each number of rows that has a kernel of its own, and of few rows for each width of tiles: which one a
// layer takes hangs on the device, too. Where a target has no room for one it is the next.
void add_lines(const Form& form, const std::string& constants, std::string& manifest) {
  std::vector<std::string> variants = {"rows64", "rows128", "warpgroups"};
  if (form.a == "int8" && form.b == "int8") {
    variants.pop_back();
    for (const char* columns : {"64", "128", "176", "192", "256"})
      variants.push_back(std::string("integers columns=") + columns);
  }
  for (const char* few : {"few8", "few16", "few32"}) {
    for (const char* columns : {"32", "64", "128", "256"}) variants.push_back(std::string(few) + " columns=" + columns);
  }
  for (const std::string& variant : variants) manifest += "quantized_gemm * variant=" + variant + constants + '\n';
}

void add_products(const Form& form, const quern_model& model, std::string& manifest) {
  const std::string dtype = dtype_name(model.dtype);
  std::string constants = " a=" + (form.a.empty() ? dtype : form.a) + " b=" + form.b;
  if (!form.scale_a.empty()) constants += " scale_a=" + form.scale_a;
  constants += " scale_b=" + (form.scale_b.empty() ? dtype : form.scale_b);
  if (form.group != 0) constants += " group=" + std::to_string(form.group) + " groups_b=1";
  if (form.zeros) constants += " zeros=1";
  constants += " out=" + dtype;
  const std::string activation = model.activation == QUERN_ACTIVATION_NONE ? "" : activation_name(model.activation);
  const bool bias = (model.flags & QUERN_MODEL_BIAS) != 0;
  add_lines(form, constants, manifest);
  if (bias) add_lines(form, constants + " epilogue=acc+col2 operand2=" + dtype, manifest);
  if (activation.empty()) return;
  if ((model.flags & QUERN_MODEL_GATED_MLP) != 0) {
    add_lines(form, constants + " gate=1 epilogue=" + activation + "(gate)*up", manifest);
  } else if (bias) {
    add_lines(form, constants + " epilogue=" + activation + "(acc+col2) operand2=" + dtype, manifest);
  }
}

// Rows are copied 16 bytes at a time and have whole groups.
std::int64_t whole_of(const Form& form) { return std::max<std::int64_t>(form.group, form.b == "int8" ? 16 : 32); }

// Rows whose K no kernel of the list takes. One group that is all of K counts as a scale a row, which is another
// kernel.
std::set<std::int64_t> odd_rows(const Form& form, const quern_model& model) {
  const std::int64_t ranks = std::max<std::int64_t>(model.tensor_parallel, 1), hidden = model.hidden_size;
  const std::int64_t head = model.v_head_dim != 0 ? model.v_head_dim : model.head_dim;
  std::array<std::int64_t, 3> lengths = {hidden, model.heads / ranks * head, 0};
  if (model.experts == 0 || model.shared_experts != 0) lengths[2] = model.intermediate_size / ranks;
  std::set<std::int64_t> odd;
  for (const std::int64_t k : lengths) {
    if (k % whole_of(form) != 0 || (k != 0 && k == form.group)) odd.insert(k);
  }
  return odd;
}

std::string name_of(const Form& form, const std::string& dtype) {
  std::string name = form.b + " with scales of " + (form.scale_b.empty() ? dtype : form.scale_b);
  name += form.group == 0 ? " a row" : " in groups of " + std::to_string(form.group);
  return form.zeros ? name + " and zero points" : name;
}

}  // namespace

bool read_quantised(const Json& quantisation, ModelConfig& config) {
  const std::optional<Form> form = form_of(quantisation);
  const quern_model& model = config.model;
  if (!form || (form->experts_alone && model.experts == 0)) return false;
  const std::string stored = name_of(*form, dtype_name(model.dtype));
  config.notes.push_back(form->experts_alone ? "experts' weights are " + stored + ", all others of 16 bits"
                                             : "layers' weights are " + stored +
                                                   " (quantized_gemm); kernels for those of 16 bits are listed, too");
  if (model.experts != 0) {
    config.unserved.push_back("products of " + std::to_string(model.experts) + " experts with weights of " + stored +
                              ": no op here does it yet");
  }
  if (form->experts_alone) return true;
  add_products(*form, model, config.manifest);
  if (form->a == "int8") {
    config.unserved.push_back(
        "activations of int8: quantize makes them, by kernels that a model's list does not name; allowed: lines of a "
        "manifest, out=int8 scale=token");
  }
  for (const std::int64_t k : odd_rows(*form, model)) {
    config.unserved.push_back("a product with K = " + std::to_string(k) + ": kernels are listed for rows " +
                              (form->group != 0 ? "of two and more whole groups " : "") +
                              "that are aligned to 16 bytes; allowed: multiples of " + std::to_string(whole_of(*form)));
  }
  return true;
}

}  // namespace quern::cli
