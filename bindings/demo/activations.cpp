// Reading attention.safetensors: tensors are named seqS.layerL.{q,k,v,out,lse}.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/activations.h"

#include <stdexcept>

#include "bindings/demo/safetensors.h"

namespace quern::demo {
namespace {

constexpr int kLayers[] = {0, 3};
constexpr int kSequences = 3;
constexpr float kScale = 0.125F;  // 1/sqrt(64)

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "[" : ", ") + std::to_string(extent);
  return text + "]";
}

void expect_shape(const Safetensors& file, const std::string& name, std::string_view dtype,
                  const std::vector<std::int64_t>& expected) {
  const std::vector<std::int64_t> shape = file.find(name, dtype).shape;
  if (shape == expected) return;
  throw std::runtime_error(name + " is " + shape_text(shape) + ", expected " + shape_text(expected));
}

}  // namespace

Activations read_activations(const std::string& path) {
  const Safetensors file(path);
  Activations all;
  all.scale = kScale;
  const std::vector<std::int64_t> q = file.find("seq0.layer0.q", "BF16").shape;
  const std::vector<std::int64_t> k = file.find("seq0.layer0.k", "BF16").shape;
  if (q.size() != 3 || k.size() != 3) throw std::runtime_error(path + ": q and k must have three dimensions");
  all.heads = q[1];
  all.kv_heads = k[1];
  all.dim = q[2];
  for (const int index : kLayers) {
    Layer& layer = all.layers.emplace_back();
    layer.index = index;
    for (int s = 0; s < kSequences; ++s) {
      const std::string name = "seq" + std::to_string(s) + ".layer" + std::to_string(index) + ".";
      Sequence& sequence = layer.sequences.emplace_back();
      sequence.tokens = file.find(name + "q", "BF16").shape.at(0);
      expect_shape(file, name + "q", "BF16", {sequence.tokens, all.heads, all.dim});
      expect_shape(file, name + "k", "BF16", {sequence.tokens, all.kv_heads, all.dim});
      expect_shape(file, name + "v", "BF16", {sequence.tokens, all.kv_heads, all.dim});
      expect_shape(file, name + "out", "F32", {sequence.tokens, all.heads, all.dim});
      expect_shape(file, name + "lse", "F32", {sequence.tokens, all.heads});
      sequence.q = file.read<std::uint16_t>(name + "q", "BF16");
      sequence.k = file.read<std::uint16_t>(name + "k", "BF16");
      sequence.v = file.read<std::uint16_t>(name + "v", "BF16");
      sequence.out = file.read<float>(name + "out", "F32");
      sequence.lse = file.read<float>(name + "lse", "F32");
    }
  }
  return all;
}

}  // namespace quern::demo
