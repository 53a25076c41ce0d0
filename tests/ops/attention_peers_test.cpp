// The parameter grids of the peers' own suites: FlashInfer's batch decode and prefill, vLLM's paged attention. As a
// whole on a GPU; on the host a sample of it, scaled down.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"
#include "tests/ops/device.h"
#include "tests/ops/random.h"

namespace quern::test {
namespace {

std::string numbers(std::initializer_list<std::pair<const char*, int>> parts) {
  std::string name;
  for (const auto& [what, number] : parts) name += std::string(name.empty() ? "" : "_") + what + std::to_string(number);
  return name;
}

// On the host every `stride`-th case, and lengths that its speed allows.
struct Sample {
  int stride;
  int next = 0;
  bool take() { return on_cuda() || next++ % stride == 0; }
};
int scaled(int value, int most) { return on_cuda() ? value : std::min(value, most); }

std::vector<AttentionCase> flashinfer_decode() {
  Sample sample{17};
  std::vector<AttentionCase> all;
  for (const int batch : {12, 17, 128}) {
    for (const int kv : {54, 97, 512, 2048, 16384}) {
      for (const int page_size : {1, 8, 16}) {
        for (const int dim : {64, 128, 256}) {
          for (const int group : {1, 4, 7, 8}) {
            if (!sample.take()) continue;
            AttentionCase c;
            c.kv_heads = 2;
            c.group = group;
            c.dim_k = dim;
            c.page_size = page_size;
            c.indptr = true;
            c.one_query = true;
            c.most_tokens = 1 << 16;
            c.sequences = decode_of(scaled(batch, 17), scaled(kv, 200));
            c.name = "flashinfer_decode_" +
                     numbers({{"b", batch}, {"kv", kv}, {"page", page_size}, {"d", dim}, {"group", group}});
            all.push_back(c);
          }
        }
      }
    }
  }
  return all;
}
QUERN_ATTENTION_CASES(FlashInferDecode, flashinfer_decode());

std::vector<AttentionCase> flashinfer_prefill() {
  Sample sample{7};
  std::vector<AttentionCase> all;
  for (const int batch : {12, 17, 128}) {
    for (const int kv : {54, 97, 512, 2048}) {
      for (const int q : {37, 17, 127, 577}) {
        for (const int dim : {64, 128, 256}) {
          for (const int group : {1, 4, 8}) {
            if (q > kv || (q == 577 && batch == 128) || !sample.take()) continue;
            AttentionCase c;
            c.kv_heads = 2;
            c.group = group;
            c.dim_k = dim;
            c.causal = (kv + q + group) % 3 != 0;
            c.page_size = (q + batch) % 2 ? 16 : 5;
            c.layout = dim == 128 ? Layout::hnd : Layout::nhd;
            c.most_tokens = 1 << 16;
            c.sequences.assign(static_cast<std::size_t>(scaled(batch, 3)), Lengths{scaled(q, 40), scaled(kv, 100)});
            c.name =
                "flashinfer_prefill_" + numbers({{"b", batch}, {"kv", kv}, {"q", q}, {"d", dim}, {"group", group}});
            all.push_back(c);
          }
        }
      }
    }
  }
  return all;
}
QUERN_ATTENTION_CASES(FlashInferPrefill, flashinfer_prefill());

std::vector<AttentionCase> vllm() {
  struct Heads {
    int q, kv;
  };
  Sample sample{5};
  std::vector<AttentionCase> all;
  for (const Heads& heads : std::initializer_list<Heads>{{32, 8}, {40, 40}, {64, 8}}) {
    for (const int block : {16, 32}) {
      for (const int dim : {64, 80, 128, 192, 256}) {
        for (const Format format : {Format::f16, Format::bf16}) {
          for (const bool alibi : {false, true}) {
            if (!sample.take()) continue;
            AttentionCase c;
            c.kv_heads = heads.kv;
            c.group = heads.q / heads.kv;
            c.dim_k = dim;
            c.page_size = block;
            c.format = format;
            c.alibi = alibi;
            c.one_query = true;
            c.most_tokens = 1 << 14;
            c.name = "vllm_" + numbers({{"heads", heads.q}, {"kv", heads.kv}, {"block", block}, {"d", dim}}) + "_" +
                     name_of(format) + (alibi ? "_alibi" : "");
            Random random("lengths of " + c.name);
            for (int i = 0; i < scaled(7, 3); ++i) c.sequences.push_back({1, random.between(1, scaled(8192, 100))});
            all.push_back(c);
          }
        }
      }
    }
  }
  return all;
}
QUERN_ATTENTION_CASES(Vllm, vllm());

}  // namespace
}  // namespace quern::test
