// What a call of each op needs when a user says no more than "rmsnorm rows=64 n=8192": shapes as large models have
// them, index tensors that say something sensible, and what the work is counted as. problem.h tells the language.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/recipes.h"

#include <array>

#include "bindings/cli/failure.h"

namespace quern::cli {
namespace {

struct Recipe {
  std::string_view op, text;
};

constexpr auto kRecipes = std::to_array<Recipe>({
    {"attention", R"(
      dtype=bf16 kv_dtype=dtype batch=16 queries=1 kv=4096 heads=32 group=4 dim_k=128 dim_v=dim_k page_size=16
      tokens=batch*queries kv_heads=heads/group columns=ceil(kv/page_size) pages=batch*columns
      q=dtype[tokens,heads,dim_k] k=kv_dtype[pages,page_size,kv_heads,dim_k] v=kv_dtype[pages,page_size,kv_heads,dim_v]
      out=dtype[tokens,heads,dim_v] lse=f32[tokens,heads]:off lengths=int32[batch]:value(kv)
      cu_q=int32[batch+1]:steps(queries):if(queries>1) page_table=int32[batch,columns]:shuffled
      sinks=f32[heads]:off alibi_slopes=f32[heads]:positive:off max_q_len=queries max_kv_len=kv
      flags=attention_causal
      seen=queries*kv-if(has(flags,attention_causal),queries*(queries-1)/2,0)
      flops=2*batch*heads*(dim_k+dim_v)*seen rate=dtype)"},
    {"merge_state", R"(
      dtype=bf16 rows=1024 heads=32 dim=128 out_a=dtype[rows,heads,dim] lse_a=f32[rows,heads]
      out_b=dtype[rows,heads,dim] lse_b=f32[rows,heads] out=dtype[rows,heads,dim] lse=f32[rows,heads])"},
    {"merge_states", R"(
      dtype=bf16 count=4 rows=1024 heads=32 dim=128 parts=dtype[count,rows,heads,dim] part_lses=f32[count,rows,heads]
      out=dtype[rows,heads,dim] lse=f32[rows,heads])"},
    {"fp8_gemm", R"(
      m=64 n=7168 k=2048 scales=blocks gate=0 columns=if(gate,n/2,n) a=e4m3[m,k] b=e4m3[n,k]
      scale_a=f32[m,ceil(k/128)]:positive:transposed:if(is(scales,blocks)) scale_a=f32[m]:positive
      scale_b=f32[ceil(n/128),ceil(k/128)]:positive:if(is(scales,blocks)) scale_b=f32[n]:positive
      out=bf16[m,columns] bias=f32[n]:off epilogue_flags=gate flops=2*m*n*k rate=e4m3)"},
    {"grouped_fp8_gemm", R"(
      experts=64 m=1024 n=4096 k=2048 scales=blocks gate=0 columns=if(gate,n/2,n) a=e4m3[m,k] b=e4m3[experts,n,k]
      scale_a=f32[m,ceil(k/128)]:positive:transposed:if(is(scales,blocks)) scale_a=f32[m]:positive
      scale_b=f32[experts,ceil(n/128),ceil(k/128)]:positive:if(is(scales,blocks)) scale_b=f32[experts,n]:positive
      out=bf16[m,columns] offsets=int32[experts+1]:shares(m) epilogue_flags=gate flops=2*m*n*k rate=e4m3)"},
    {"quantized_gemm", R"(
      dtype=bf16 m=16 n=14336 k=4096 group=128 gate=0 columns=if(gate,n/2,n) a=dtype[m,k] b=uint8[n,k/2]
      scale_b=f16[n,k/group]:positive b_format=quantized_int4 out=bf16[m,columns] bias=f32[n]:off epilogue_flags=gate
      flops=2*m*n*k rate=bf16)"},
    {"gemm", R"(
      dtype=bf16 batch=1 m=64 n=4096 k=4096 gate=0 columns=if(gate,n/2,n)
      a=dtype[m,k]:if(batch==1) b=dtype[n,k]:if(batch==1) out=dtype[m,columns]:if(batch==1)
      a=dtype[batch,m,k] b=dtype[batch,n,k] out=dtype[batch,m,columns]
      bias=f32[n]:off c=dtype[m,columns]:off epilogue_flags=gate flops=2*batch*m*n*k rate=dtype)"},
    {"quantize", R"(
      rows=1024 n=4096 front=none scale=group norms=(front==front_rmsnorm)|(front==front_layernorm)
      halves=if(front>=front_silu_mul,2,1) x=bf16[rows,n*halves]
      out=e4m3[rows,n]
      scale_kind=if(is(scale,static),1,if(is(scale,tensor),2,if(is(scale,token),3,if(is(scale,group),4,5))))
      scale=f32[1]:positive:if(scale_kind<=2) scale=f32[rows]:if(scale_kind==3)
      scale=f32[rows,ceil(n/128)]:transposed:if(scale_kind==4) scale=f32[ceil(rows/128),ceil(n/128)]
      residual=bf16[rows,n]:off residual_out=bf16[rows,n]:off
      weight=bf16[n]:if(norms) bias=bf16[n]:if(front==front_layernorm) eps=1e-6)"},
    {"dequantize", R"(
      rows=1024 n=4096 scale=group x=e4m3[rows,n] out=bf16[rows,n]
      scale_kind=if(is(scale,static),1,if(is(scale,tensor),2,if(is(scale,token),3,if(is(scale,group),4,5))))
      scale=f32[1]:positive:if(scale_kind<=2) scale=f32[rows]:positive:if(scale_kind==3)
      scale=f32[rows,ceil(n/128)]:positive:transposed:if(scale_kind==4)
      scale=f32[ceil(rows/128),ceil(n/128)]:positive)"},
    {"moe_route", R"(
      dtype=f32 tokens=1024 experts=256 top_k=8 groups=8 top_groups=4 logits=dtype[tokens,experts]
      bias=f32[experts]:off weights=f32[tokens,top_k] ids=int32[tokens,top_k] offsets=int32[experts+1]
      indices=int32[tokens*top_k] positions=int32[tokens,top_k] flags=moe_sigmoid|moe_renormalize)"},
    {"moe_combine", R"(
      dtype=bf16 tokens=1024 top_k=8 n=7168 x=dtype[tokens*top_k,n] positions=int32[tokens,top_k]:shuffled
      weights=f32[tokens,top_k]:positive add=dtype[tokens,n]:off out=dtype[tokens,n])"},
    {"rope", R"(
      dtype=bf16 tokens=1024 heads=32 kv_heads=8 dim=128 q=dtype[tokens,heads,dim] k=dtype[tokens,kv_heads,dim]
      positions=int32[tokens]:steps(1) theta=500000
      bytes=2*size(dtype)*tokens*(heads+kv_heads)*dim+4*tokens)"},
    {"kv_append", R"(
      dtype=bf16 cache=dtype tokens=64 heads=32 kv_heads=8 dim=128 page_size=16 pages=tokens
      k=dtype[tokens,kv_heads,dim] v=dtype[tokens,kv_heads,dim] k_cache=cache[pages,page_size,kv_heads,dim]
      v_cache=cache[pages,page_size,kv_heads,dim] slots=int64[tokens]:steps(page_size)
      positions=int32[tokens]:value(4095) q=dtype[tokens,heads,dim] theta=500000
      bytes=size(dtype)*tokens*dim*(2*heads+2*kv_heads)+size(cache)*2*tokens*kv_heads*dim+12*tokens)"},
    {"kv_copy_pages", R"(
      dtype=bf16 pairs=256 pages=2*pairs page_size=16 kv_heads=8 dim=128 k=dtype[pages,page_size,kv_heads,dim]
      v=dtype[pages,page_size,kv_heads,dim] sources=int32[pairs]:steps(1) destinations=int32[pairs]:steps(1,pairs)
      bytes=4*pairs*page_size*kv_heads*dim*size(dtype))"},
    {"mla_decode", R"(
      dtype=bf16 batch=64 queries=1 kv=4096 heads=128 d_latent=512 d_rope=64 page_size=64 tokens=batch*queries
      columns=ceil(kv/page_size) pages=batch*columns q=dtype[tokens,heads,d_latent+d_rope]
      cache=dtype[pages,page_size,d_latent+d_rope] cache_scale=f32[1]:positive:off
      out=dtype[tokens,heads,d_latent] lse=f32[tokens,heads]:off lengths=int32[batch]:value(kv)
      cu_q=int32[batch+1]:steps(queries):if(queries>1) page_table=int32[batch,columns]:shuffled
      max_q_len=queries max_kv_len=kv flags=mla_causal scale=0.072
      flops=2*batch*heads*(2*d_latent+d_rope)*(queries*kv-queries*(queries-1)/2) rate=dtype)"},
    {"rmsnorm", R"(
      dtype=bf16 rows=1024 n=4096 x=dtype[rows,n] residual=dtype[rows,n]:off weight=dtype[n] out=dtype[rows,n]
      residual_out=dtype[rows,n]:off eps=1e-6)"},
    {"sample", R"(
      dtype=bf16 batch=64 vocab=128256 logits=dtype[batch,vocab] ids=int32[batch] temperature=0.8 top_k=50 top_p=0.95
      flags=sample_temperature|sample_top_p seed=1)"},
    {"gather", R"(
      dtype=bf16 vocab=128256 count=1024 n=4096 table=dtype[vocab,n] ids=int32[count]:below(vocab) out=dtype[count,n]
      bytes=2*count*n*size(dtype)+4*count)"},
    {"mla_append", R"(
      dtype=bf16 tokens=64 heads=128 d_latent=512 d_rope=64 page_size=64 pages=tokens kv=dtype[tokens,d_latent+d_rope]
      weight=dtype[d_latent] cache=dtype[pages,page_size,d_latent+d_rope] cache_scale=f32[1]:positive:off
      slots=int64[tokens]:steps(page_size) positions=int32[tokens]:value(4095) q_rope=dtype[tokens,heads,d_rope]
      theta=10000 rope_flags=rope_interleaved eps=1e-6
      bytes=2*size(dtype)*tokens*(d_latent+d_rope+heads*d_rope)+12*tokens)"},
    {"index_scores", R"(
      dtype=e4m3 batch=16 queries=1 kv=8192 heads=64 dim=128 page_size=64 tokens=batch*queries
      columns=ceil(kv/page_size) pages=batch*columns q=dtype[tokens,heads,dim] weights=f32[tokens,heads]
      k=dtype[pages,page_size,dim] k_scale=f32[pages,page_size]:positive out=f32[tokens,kv]
      lengths=int32[batch]:value(kv)
      cu_q=int32[batch+1]:steps(queries):if(queries>1) page_table=int32[batch,columns]:shuffled max_q_len=queries
      flags=index_scores_causal flops=2*batch*heads*dim*(queries*kv-queries*(queries-1)/2) rate=dtype)"},
    {"softmax", R"(dtype=bf16 rows=64 vocab=128256 logits=dtype[rows,vocab] out=dtype[rows,vocab])"},
    {"argmax", R"(dtype=bf16 rows=64 vocab=128256 logits=dtype[rows,vocab] ids=int32[rows])"},
    {"top_k", R"(
      dtype=f32 rows=64 n=128256 k=64 x=dtype[rows,n] ids=int32[rows,k] values=dtype[rows,k] flags=top_k_sorted)"},
    {"renormalise", R"(
      rows=64 vocab=128256 probs=f32[rows,vocab]:probabilities out=f32[rows,vocab] top_k=50 top_p=0.95
      flags=renormalise_top_p)"},
    {"verify_draft", R"(
      batch=16 n=5 vocab=128256 target=f32[batch,n+1,vocab]:probabilities draft=f32[batch,n,vocab]:probabilities
      draft_ids=int32[batch,n]:below(vocab) accepted=int32[batch] ids=int32[batch,n+1] seed=1)"},
    {"pointwise", R"(
      dtype=bf16 rows=1024 n=4096 operands=dtype[rows,n];dtype[rows,n] expression=tensor0+tensor1 out=dtype[rows,n])"},
    {"copy", R"(dtype=bf16 rows=1024 n=4096 inputs=dtype[rows,n] outputs=dtype[rows,n])"},
    {"norm", R"(
      dtype=bf16 rows=1024 n=4096 kind=norm_layer x=dtype[rows,n] residual=dtype[rows,n]:off weight=dtype[n]
      bias=dtype[n]:if(kind==norm_layer) out=dtype[rows,n] residual_out=dtype[rows,n]:off eps=1e-6)"},
    {"norm_backward", R"(
      dtype=bf16 rows=1024 n=4096 kind=norm_layer dout=dtype[rows,n] x=dtype[rows,n] weight=dtype[n]
      add=dtype[rows,n]:off dx=dtype[rows,n] dweight=f32[n] dbias=f32[n]:if(kind==norm_layer) eps=1e-6)"},
    {"reduce", R"(dtype=bf16 rows=1024 n=4096 x=dtype[rows,n] out=f32[rows] axes=2 reduction=reduce_sum)"},
    {"scatter", R"(
      dtype=bf16 rows=1024 count=rows n=4096 x=dtype[count,n] ids=int32[count]:shuffled out=dtype[rows,n]
      flags=scatter_unique bytes=2*count*n*size(dtype)+4*count)"},
    {"histogram", R"(
      dtype=f32 rows=16 n=1048576 bins=256 x=dtype[rows,n] counts=int32[rows,bins] low=-4 high=4)"},
    {"sort", R"(dtype=f32 rows=64 n=4096 keys=dtype[rows,n] keys_out=dtype[rows,n] values_out=int32[rows,n])"},
    {"conv1d", R"(
      dtype=bf16 batch=4 queries=512 channels=4096 taps=4 tokens=batch*queries x=dtype[tokens,channels]
      weight=dtype[channels,taps] bias=dtype[channels] offsets=int32[batch+1]:steps(queries)
      state=dtype[batch,taps-1,channels] out=dtype[tokens,channels] flags=conv1d_silu)"},
    {"conv2d", R"(
      dtype=bf16 batch=8 channels=64 outs=64 height=56 width=56 kernel=3 x=dtype[batch,channels,height,width]
      weight=dtype[outs,channels,kernel,kernel] bias=dtype[outs]
      out=dtype[batch,outs,height-kernel+1,width-kernel+1]
      flops=2*batch*outs*channels*kernel*kernel*(height-kernel+1)*(width-kernel+1) rate=dtype)"},
    {"fft", R"(dtype=f32 rows=4096 n=1024 x=dtype[rows,n,2] out=dtype[rows,n,2])"},
    {"nms", R"(
      images=16 n=4096 most=300 boxes=f32[images,n,4]:boxes scores=f32[images,n] ids=int32[images,most]
      counts=int32[images] iou_threshold=0.5)"},
});

}  // namespace

std::string_view recipe_of(std::string_view op) {
  for (const Recipe& recipe : kRecipes) {
    if (recipe.op == op) return recipe.text;
  }
  throw Failure(QUERN_INTERNAL, "no recipe for " + std::string(op));
}

}  // namespace quern::cli
