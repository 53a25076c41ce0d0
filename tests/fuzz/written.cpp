// What people and engines write: manifests, configurations, formulas, names, and sources as the scanner reads them.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "bindings/cli/failure.h"
#include "bindings/cli/model_config.h"
#include "jit/directives.h"
#include "jit/error.h"
#include "jit/target.h"
#include "sources/expression/tree.h"
#include "sources/manifest.h"
#include "sources/needs.h"
#include "sources/op.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

// ---- manifests

void run_manifest(std::string_view input) {
  for (const char* name : {"host", "sm_90a"}) {
    const jit::Target target = jit::Target::parse(name);
    try {
      const auto line = ops::parse_line(input);
      if (!line) return;
      // Interned for good: not a million of them.
      if (std::string_view(line->op->name) == "kernel") return;
      const jit::Spec spec = ops::to_spec(*line, line->target.value_or(target));
      // What was understood is written down, and read back as the same.
      const std::string again = ops::to_line(spec);
      const auto reread = ops::parse_line(again);
      if (!reread || !(ops::to_spec(*reread, *reread->target) == spec)) std::abort();
      static_cast<void>(ops::describe(spec));
    } catch (const Error&) {
    }
  }
}

std::vector<std::string> manifest_seeds() {
  quern_model model{};
  model.size = sizeof(model);
  model.flags = QUERN_MODEL_GATED_MLP | QUERN_MODEL_SINKS;
  model.heads = 32, model.kv_heads = 8, model.head_dim = 128, model.hidden_size = 4096, model.layers = 2;
  model.intermediate_size = 14336, model.vocab_size = 32000, model.max_positions = 8192, model.page_size = 16;
  std::vector<std::string> seeds = {"# a comment", "merge_state * dtype=f16"};
  for (const ops::Op& op : ops::all()) {
    std::vector<jit::Spec> specs;
    for (const char* name : {"host", "sm_90a"}) op.list(model, jit::limits_of(jit::Target::parse(name)), &specs);
    for (std::size_t i = 0; i < specs.size(); i += specs.size() / 3 + 1) seeds.push_back(ops::to_line(specs[i]));
  }
  return seeds;
}

// ---- config.json, and what it asks of every op

void run_config(std::string_view input) {
  try {
    const cli::ModelConfig read = cli::read_model_config(input, "config.json", {});
    for (const char* name : {"host", "sm_90a"}) {
      const jit::TargetInfo target = jit::limits_of(jit::Target::parse(name));
      for (const ops::Op& op : ops::all()) {
        try {
          std::vector<jit::Spec> specs;
          op.list(read.model, target, &specs);
          if (specs.size() > 100'000) std::abort();
        } catch (const Error&) {
        }
      }
    }
  } catch (const cli::Failure&) {
  }
}

std::string nested_objects(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += "{\"a\":";
  return text + "0" + std::string(static_cast<std::size_t>(depth), '}');
}

std::vector<std::string> config_seeds() {
  return {
      R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,)"
      R"("num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"max_position_embeddings":8192,)"
      R"("torch_dtype":"bfloat16","hidden_act":"silu","rope_theta":500000.0})",
      R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,)"
      R"("num_attention_heads":128,"num_key_value_heads":128,"vocab_size":129280,"max_position_embeddings":163840,)"
      R"("kv_lora_rank":512,"q_lora_rank":1536,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,)"
      R"("n_routed_experts":256,"num_experts_per_tok":8,"moe_intermediate_size":2048,"n_shared_experts":1,)"
      R"("quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]},"hidden_act":"silu"})",
      R"({"text_config":{"model_type":"qwen3","num_hidden_layers":2,"num_attention_heads":2,"head_dim":64}})",
      R"({"model_type":"llama","hidden_size":1e30,"rope_theta":-1e300,"vocab_size":-4,"num_hidden_layers":-0.5})",
      "[[[[]]]]",
      // As deep as a text may be, and deeper.
      std::string(200, '[') + std::string(200, ']'),
      std::string(100'000, '['),
      "{\"a\":" + nested_objects(199) + "}",
      "{\"a\":" + nested_objects(10'000) + "}",
  };
}

// ---- formulas, names, escapes, sources

void run_texts(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  try {
    switch (input[0] & 3) {
      case 0: {
        const ops::expression::Tree tree = ops::expression::parse(text);
        const std::string canonical = ops::expression::canonical(tree);
        if (ops::expression::canonical(ops::expression::parse(canonical)) != canonical) std::abort();
        static_cast<void>(ops::expression::code(tree));
        break;
      }
      case 1: {
        const jit::Target target = jit::Target::parse(text);
        if (!(jit::Target::parse(target.name()) == target)) std::abort();
        break;
      }
      case 2:
        if (ops::percent_decode(ops::percent_encode(text)) != text) std::abort();
        static_cast<void>(ops::percent_decode(text));
        break;
      default: {
        const jit::Directives found = jit::find_directives(text);
        std::size_t end = 0;
        for (const jit::Directive& each : found.list) {
          if (each.begin < end || each.end < each.begin || each.end > text.size()) std::abort();
          end = each.kind == jit::Directive::Kind::probe ? end : each.end;
        }
        std::size_t which = 0;
        static_cast<void>(jit::find_pasted_condition({&found}, &which));
      }
    }
  } catch (const Error&) {
  }
}

std::vector<std::string> texts_seeds() {
  return {
      std::string(1, '\0') + "select(acc > 0.5, silu(gate) * up + row1, clamp(acc, -1e-3, 2)) / (scalar0 + col3)",
      std::string(1, '\1') + "gfx90a:sramecc+:xnack-",
      std::string(1, '\2') + "a%20b%3D%25",
      std::string(1, '\3') +
          "#include \"a.h\"\n#define X(a) a##_b /* c */\n#if X(1) \\\n  && 2 // d\n#else\n#endif\n"
          "const char* s = R\"x(#include <y>)x\" \"\\\"\";\n#pragma once\n%:include <z>\n",
  };
}

}  // namespace

const Target manifest{"manifest", run_manifest, manifest_seeds};
const Target config{"config", run_config, config_seeds};
const Target texts{"texts", run_texts, texts_seeds};

}  // namespace quern::fuzz
