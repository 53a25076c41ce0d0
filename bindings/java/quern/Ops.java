// The ops: each a class whose methods are the fields of quern_OP_args in quern.h, documented there. Made of
// quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
package quern;

import java.util.List;
import quern.Quern.Expression;
import quern.Quern.Op;
import quern.Quern.Struct;
import quern.Quern.Tensor;

public final class Ops {
  private Ops() {}

  /** quern_epilogue. */
  public static final class Epilogue extends Struct<Epilogue> {
    public Epilogue() {
      super(72);
    }

    public Epilogue flags(int value) {
      return integer(4, value);
    }

    public Epilogue activation(int value) {
      return integer(8, value);
    }

    public Epilogue bias(Tensor value) {
      return tensor(24, value);
    }

    public Epilogue c(Tensor value) {
      return tensor(32, value);
    }

    public Epilogue expression(Expression value) {
      return expression(40, value);
    }

    public Epilogue operands(List<Tensor> value) {
      return tensors(48, 12, value);
    }

    public Epilogue scalars(float[] value) {
      return numbers(56, 16, value);
    }

    public Epilogue outScale(Tensor value) {
      return tensor(64, value);
    }
  }

  /** quern_rope_options. */
  public static final class RopeOptions extends Struct<RopeOptions> {
    public RopeOptions() {
      super(88);
    }

    public RopeOptions flags(int value) {
      return integer(4, value);
    }

    public RopeOptions scaling(int value) {
      return integer(8, value);
    }

    public RopeOptions rotaryDim(int value) {
      return integer(12, value);
    }

    public RopeOptions theta(double value) {
      return wideNumber(16, value);
    }

    public RopeOptions factor(double value) {
      return wideNumber(24, value);
    }

    public RopeOptions attentionFactor(double value) {
      return wideNumber(32, value);
    }

    public RopeOptions lowFreqFactor(double value) {
      return wideNumber(40, value);
    }

    public RopeOptions highFreqFactor(double value) {
      return wideNumber(48, value);
    }

    public RopeOptions betaFast(double value) {
      return wideNumber(56, value);
    }

    public RopeOptions betaSlow(double value) {
      return wideNumber(64, value);
    }

    public RopeOptions originalPositions(int value) {
      return integer(72, value);
    }

    public RopeOptions table(Tensor value) {
      return tensor(80, value);
    }
  }

  /** quern_attention_args. */
  public static final class Attention extends Op<Attention> {
    public Attention() {
      super("attention", 240);
    }

    public Attention flags(int value) {
      return integer(4, value);
    }

    public Attention alignment(int value) {
      return integer(32, value);
    }

    public Attention maxSms(int value) {
      return integer(36, value);
    }

    public Attention q(Tensor value) {
      return tensor(40, value);
    }

    public Attention k(Tensor value) {
      return tensor(48, value);
    }

    public Attention v(Tensor value) {
      return tensor(56, value);
    }

    public Attention out(Tensor value) {
      return tensor(64, value);
    }

    public Attention lse(Tensor value) {
      return tensor(72, value);
    }

    public Attention lengths(Tensor value) {
      return tensor(80, value);
    }

    public Attention cuQ(Tensor value) {
      return tensor(88, value);
    }

    public Attention pageTable(Tensor value) {
      return tensor(96, value);
    }

    public Attention pageIndptr(Tensor value) {
      return tensor(104, value);
    }

    public Attention pageIndices(Tensor value) {
      return tensor(112, value);
    }

    public Attention cuKv(Tensor value) {
      return tensor(120, value);
    }

    public Attention alibiSlopes(Tensor value) {
      return tensor(128, value);
    }

    public Attention sinks(Tensor value) {
      return tensor(136, value);
    }

    public Attention maxQLen(int value) {
      return integer(144, value);
    }

    public Attention maxKvLen(int value) {
      return integer(148, value);
    }

    public Attention windowLeft(int value) {
      return integer(152, value);
    }

    public Attention windowRight(int value) {
      return integer(156, value);
    }

    public Attention scale(float value) {
      return number(160, value);
    }

    public Attention logitCap(float value) {
      return number(164, value);
    }

    public Attention qScale(Tensor value) {
      return tensor(168, value);
    }

    public Attention kScale(Tensor value) {
      return tensor(176, value);
    }

    public Attention vScale(Tensor value) {
      return tensor(184, value);
    }

    public Attention mask(Tensor value) {
      return tensor(192, value);
    }

    public Attention maskIndptr(Tensor value) {
      return tensor(200, value);
    }

    public Attention maskKeys(Tensor value) {
      return tensor(208, value);
    }

    public Attention qType(int value) {
      return integer(216, value);
    }

    public Attention kvType(int value) {
      return integer(220, value);
    }

    public Attention outScale(Tensor value) {
      return tensor(224, value);
    }

    public Attention outType(int value) {
      return integer(232, value);
    }
  }

  /** quern_merge_state_args. */
  public static final class MergeState extends Op<MergeState> {
    public MergeState() {
      super("merge_state", 88);
    }

    public MergeState flags(int value) {
      return integer(4, value);
    }

    public MergeState alignment(int value) {
      return integer(32, value);
    }

    public MergeState maxSms(int value) {
      return integer(36, value);
    }

    public MergeState outA(Tensor value) {
      return tensor(40, value);
    }

    public MergeState lseA(Tensor value) {
      return tensor(48, value);
    }

    public MergeState outB(Tensor value) {
      return tensor(56, value);
    }

    public MergeState lseB(Tensor value) {
      return tensor(64, value);
    }

    public MergeState out(Tensor value) {
      return tensor(72, value);
    }

    public MergeState lse(Tensor value) {
      return tensor(80, value);
    }
  }

  /** quern_fp8_gemm_args. */
  public static final class Fp8Gemm extends Op<Fp8Gemm> {
    public Fp8Gemm() {
      super("fp8_gemm", 96);
    }

    public Fp8Gemm flags(int value) {
      return integer(4, value);
    }

    public Fp8Gemm alignment(int value) {
      return integer(32, value);
    }

    public Fp8Gemm maxSms(int value) {
      return integer(36, value);
    }

    public Fp8Gemm a(Tensor value) {
      return tensor(40, value);
    }

    public Fp8Gemm b(Tensor value) {
      return tensor(48, value);
    }

    public Fp8Gemm scaleA(Tensor value) {
      return tensor(56, value);
    }

    public Fp8Gemm scaleB(Tensor value) {
      return tensor(64, value);
    }

    public Fp8Gemm out(Tensor value) {
      return tensor(72, value);
    }

    public Fp8Gemm epilogue(Epilogue value) {
      return part(80, value);
    }

    public Fp8Gemm aType(int value) {
      return integer(88, value);
    }

    public Fp8Gemm bType(int value) {
      return integer(92, value);
    }
  }

  /** quern_grouped_fp8_gemm_args. */
  public static final class GroupedFp8Gemm extends Op<GroupedFp8Gemm> {
    public GroupedFp8Gemm() {
      super("grouped_fp8_gemm", 136);
    }

    public GroupedFp8Gemm flags(int value) {
      return integer(4, value);
    }

    public GroupedFp8Gemm alignment(int value) {
      return integer(32, value);
    }

    public GroupedFp8Gemm maxSms(int value) {
      return integer(36, value);
    }

    public GroupedFp8Gemm a(Tensor value) {
      return tensor(40, value);
    }

    public GroupedFp8Gemm b(Tensor value) {
      return tensor(48, value);
    }

    public GroupedFp8Gemm scaleA(Tensor value) {
      return tensor(56, value);
    }

    public GroupedFp8Gemm scaleB(Tensor value) {
      return tensor(64, value);
    }

    public GroupedFp8Gemm out(Tensor value) {
      return tensor(72, value);
    }

    public GroupedFp8Gemm offsets(Tensor value) {
      return tensor(80, value);
    }

    public GroupedFp8Gemm counts(Tensor value) {
      return tensor(88, value);
    }

    public GroupedFp8Gemm indices(Tensor value) {
      return tensor(96, value);
    }

    public GroupedFp8Gemm status(Tensor value) {
      return tensor(104, value);
    }

    public GroupedFp8Gemm epilogue(Epilogue value) {
      return part(112, value);
    }

    public GroupedFp8Gemm aType(int value) {
      return integer(120, value);
    }

    public GroupedFp8Gemm bType(int value) {
      return integer(124, value);
    }

    public GroupedFp8Gemm expectedRows(int value) {
      return integer(128, value);
    }
  }

  /** quern_gemm_args. */
  public static final class Gemm extends Op<Gemm> {
    public Gemm() {
      super("gemm", 72);
    }

    public Gemm flags(int value) {
      return integer(4, value);
    }

    public Gemm alignment(int value) {
      return integer(32, value);
    }

    public Gemm maxSms(int value) {
      return integer(36, value);
    }

    public Gemm a(Tensor value) {
      return tensor(40, value);
    }

    public Gemm b(Tensor value) {
      return tensor(48, value);
    }

    public Gemm out(Tensor value) {
      return tensor(56, value);
    }

    public Gemm epilogue(Epilogue value) {
      return part(64, value);
    }
  }

  /** quern_quantize_args. */
  public static final class Quantize extends Op<Quantize> {
    public Quantize() {
      super("quantize", 120);
    }

    public Quantize flags(int value) {
      return integer(4, value);
    }

    public Quantize alignment(int value) {
      return integer(32, value);
    }

    public Quantize maxSms(int value) {
      return integer(36, value);
    }

    public Quantize x(Tensor value) {
      return tensor(40, value);
    }

    public Quantize out(Tensor value) {
      return tensor(48, value);
    }

    public Quantize scale(Tensor value) {
      return tensor(56, value);
    }

    public Quantize residual(Tensor value) {
      return tensor(64, value);
    }

    public Quantize residualOut(Tensor value) {
      return tensor(72, value);
    }

    public Quantize weight(Tensor value) {
      return tensor(80, value);
    }

    public Quantize bias(Tensor value) {
      return tensor(88, value);
    }

    public Quantize dense(Tensor value) {
      return tensor(96, value);
    }

    public Quantize front(int value) {
      return integer(104, value);
    }

    public Quantize scaleKind(int value) {
      return integer(108, value);
    }

    public Quantize type(int value) {
      return integer(112, value);
    }

    public Quantize eps(float value) {
      return number(116, value);
    }
  }

  /** quern_dequantize_args. */
  public static final class Dequantize extends Op<Dequantize> {
    public Dequantize() {
      super("dequantize", 72);
    }

    public Dequantize flags(int value) {
      return integer(4, value);
    }

    public Dequantize alignment(int value) {
      return integer(32, value);
    }

    public Dequantize maxSms(int value) {
      return integer(36, value);
    }

    public Dequantize x(Tensor value) {
      return tensor(40, value);
    }

    public Dequantize scale(Tensor value) {
      return tensor(48, value);
    }

    public Dequantize out(Tensor value) {
      return tensor(56, value);
    }

    public Dequantize scaleKind(int value) {
      return integer(64, value);
    }

    public Dequantize type(int value) {
      return integer(68, value);
    }
  }

  /** quern_moe_route_args. */
  public static final class MoeRoute extends Op<MoeRoute> {
    public MoeRoute() {
      super("moe_route", 128);
    }

    public MoeRoute flags(int value) {
      return integer(4, value);
    }

    public MoeRoute alignment(int value) {
      return integer(32, value);
    }

    public MoeRoute maxSms(int value) {
      return integer(36, value);
    }

    public MoeRoute logits(Tensor value) {
      return tensor(40, value);
    }

    public MoeRoute bias(Tensor value) {
      return tensor(48, value);
    }

    public MoeRoute weights(Tensor value) {
      return tensor(56, value);
    }

    public MoeRoute ids(Tensor value) {
      return tensor(64, value);
    }

    public MoeRoute offsets(Tensor value) {
      return tensor(72, value);
    }

    public MoeRoute indices(Tensor value) {
      return tensor(80, value);
    }

    public MoeRoute positions(Tensor value) {
      return tensor(88, value);
    }

    public MoeRoute counts(Tensor value) {
      return tensor(96, value);
    }

    public MoeRoute topK(int value) {
      return integer(104, value);
    }

    public MoeRoute groups(int value) {
      return integer(108, value);
    }

    public MoeRoute topGroups(int value) {
      return integer(112, value);
    }

    public MoeRoute firstExpert(int value) {
      return integer(116, value);
    }

    public MoeRoute localExperts(int value) {
      return integer(120, value);
    }

    public MoeRoute scale(float value) {
      return number(124, value);
    }
  }

  /** quern_moe_combine_args. */
  public static final class MoeCombine extends Op<MoeCombine> {
    public MoeCombine() {
      super("moe_combine", 80);
    }

    public MoeCombine flags(int value) {
      return integer(4, value);
    }

    public MoeCombine alignment(int value) {
      return integer(32, value);
    }

    public MoeCombine maxSms(int value) {
      return integer(36, value);
    }

    public MoeCombine x(Tensor value) {
      return tensor(40, value);
    }

    public MoeCombine positions(Tensor value) {
      return tensor(48, value);
    }

    public MoeCombine weights(Tensor value) {
      return tensor(56, value);
    }

    public MoeCombine add(Tensor value) {
      return tensor(64, value);
    }

    public MoeCombine out(Tensor value) {
      return tensor(72, value);
    }
  }

  /** quern_merge_states_args. */
  public static final class MergeStates extends Op<MergeStates> {
    public MergeStates() {
      super("merge_states", 72);
    }

    public MergeStates flags(int value) {
      return integer(4, value);
    }

    public MergeStates alignment(int value) {
      return integer(32, value);
    }

    public MergeStates maxSms(int value) {
      return integer(36, value);
    }

    public MergeStates parts(Tensor value) {
      return tensor(40, value);
    }

    public MergeStates partLses(Tensor value) {
      return tensor(48, value);
    }

    public MergeStates out(Tensor value) {
      return tensor(56, value);
    }

    public MergeStates lse(Tensor value) {
      return tensor(64, value);
    }
  }

  /** quern_rope_args. */
  public static final class Rope extends Op<Rope> {
    public Rope() {
      super("rope", 88);
    }

    public Rope flags(int value) {
      return integer(4, value);
    }

    public Rope alignment(int value) {
      return integer(32, value);
    }

    public Rope maxSms(int value) {
      return integer(36, value);
    }

    public Rope q(Tensor value) {
      return tensor(40, value);
    }

    public Rope k(Tensor value) {
      return tensor(48, value);
    }

    public Rope qOut(Tensor value) {
      return tensor(56, value);
    }

    public Rope kOut(Tensor value) {
      return tensor(64, value);
    }

    public Rope positions(Tensor value) {
      return tensor(72, value);
    }

    public Rope rope(RopeOptions value) {
      return part(80, value);
    }
  }

  /** quern_kv_append_args. */
  public static final class KvAppend extends Op<KvAppend> {
    public KvAppend() {
      super("kv_append", 208);
    }

    public KvAppend flags(int value) {
      return integer(4, value);
    }

    public KvAppend alignment(int value) {
      return integer(32, value);
    }

    public KvAppend maxSms(int value) {
      return integer(36, value);
    }

    public KvAppend k(Tensor value) {
      return tensor(40, value);
    }

    public KvAppend v(Tensor value) {
      return tensor(48, value);
    }

    public KvAppend kCache(Tensor value) {
      return tensor(56, value);
    }

    public KvAppend vCache(Tensor value) {
      return tensor(64, value);
    }

    public KvAppend kScale(Tensor value) {
      return tensor(72, value);
    }

    public KvAppend vScale(Tensor value) {
      return tensor(80, value);
    }

    public KvAppend slots(Tensor value) {
      return tensor(88, value);
    }

    public KvAppend pageTable(Tensor value) {
      return tensor(96, value);
    }

    public KvAppend pageIndptr(Tensor value) {
      return tensor(104, value);
    }

    public KvAppend pageIndices(Tensor value) {
      return tensor(112, value);
    }

    public KvAppend cuQ(Tensor value) {
      return tensor(120, value);
    }

    public KvAppend lengths(Tensor value) {
      return tensor(128, value);
    }

    public KvAppend positions(Tensor value) {
      return tensor(136, value);
    }

    public KvAppend q(Tensor value) {
      return tensor(144, value);
    }

    public KvAppend qOut(Tensor value) {
      return tensor(152, value);
    }

    public KvAppend qScale(Tensor value) {
      return tensor(160, value);
    }

    public KvAppend qWeight(Tensor value) {
      return tensor(168, value);
    }

    public KvAppend kWeight(Tensor value) {
      return tensor(176, value);
    }

    public KvAppend rope(RopeOptions value) {
      return part(184, value);
    }

    public KvAppend eps(float value) {
      return number(192, value);
    }

    public KvAppend qType(int value) {
      return integer(196, value);
    }

    public KvAppend kvType(int value) {
      return integer(200, value);
    }
  }

  /** quern_kv_copy_pages_args. */
  public static final class KvCopyPages extends Op<KvCopyPages> {
    public KvCopyPages() {
      super("kv_copy_pages", 120);
    }

    public KvCopyPages flags(int value) {
      return integer(4, value);
    }

    public KvCopyPages alignment(int value) {
      return integer(32, value);
    }

    public KvCopyPages maxSms(int value) {
      return integer(36, value);
    }

    public KvCopyPages k(Tensor value) {
      return tensor(40, value);
    }

    public KvCopyPages v(Tensor value) {
      return tensor(48, value);
    }

    public KvCopyPages kTo(Tensor value) {
      return tensor(56, value);
    }

    public KvCopyPages vTo(Tensor value) {
      return tensor(64, value);
    }

    public KvCopyPages kScale(Tensor value) {
      return tensor(72, value);
    }

    public KvCopyPages vScale(Tensor value) {
      return tensor(80, value);
    }

    public KvCopyPages kScaleTo(Tensor value) {
      return tensor(88, value);
    }

    public KvCopyPages vScaleTo(Tensor value) {
      return tensor(96, value);
    }

    public KvCopyPages sources(Tensor value) {
      return tensor(104, value);
    }

    public KvCopyPages destinations(Tensor value) {
      return tensor(112, value);
    }
  }

  /** quern_mla_decode_args. */
  public static final class MlaDecode extends Op<MlaDecode> {
    public MlaDecode() {
      super("mla_decode", 192);
    }

    public MlaDecode flags(int value) {
      return integer(4, value);
    }

    public MlaDecode alignment(int value) {
      return integer(32, value);
    }

    public MlaDecode maxSms(int value) {
      return integer(36, value);
    }

    public MlaDecode q(Tensor value) {
      return tensor(40, value);
    }

    public MlaDecode qRope(Tensor value) {
      return tensor(48, value);
    }

    public MlaDecode cache(Tensor value) {
      return tensor(56, value);
    }

    public MlaDecode cacheRope(Tensor value) {
      return tensor(64, value);
    }

    public MlaDecode cacheScale(Tensor value) {
      return tensor(72, value);
    }

    public MlaDecode out(Tensor value) {
      return tensor(80, value);
    }

    public MlaDecode lse(Tensor value) {
      return tensor(88, value);
    }

    public MlaDecode lengths(Tensor value) {
      return tensor(96, value);
    }

    public MlaDecode cuQ(Tensor value) {
      return tensor(104, value);
    }

    public MlaDecode pageTable(Tensor value) {
      return tensor(112, value);
    }

    public MlaDecode pageIndptr(Tensor value) {
      return tensor(120, value);
    }

    public MlaDecode pageIndices(Tensor value) {
      return tensor(128, value);
    }

    public MlaDecode indices(Tensor value) {
      return tensor(136, value);
    }

    public MlaDecode sinks(Tensor value) {
      return tensor(144, value);
    }

    public MlaDecode status(Tensor value) {
      return tensor(152, value);
    }

    public MlaDecode maxQLen(int value) {
      return integer(160, value);
    }

    public MlaDecode maxKvLen(int value) {
      return integer(164, value);
    }

    public MlaDecode windowLeft(int value) {
      return integer(168, value);
    }

    public MlaDecode windowRight(int value) {
      return integer(172, value);
    }

    public MlaDecode cacheType(int value) {
      return integer(176, value);
    }

    public MlaDecode scale(float value) {
      return number(180, value);
    }

    public MlaDecode logitCap(float value) {
      return number(184, value);
    }
  }

  /** quern_rmsnorm_args. */
  public static final class Rmsnorm extends Op<Rmsnorm> {
    public Rmsnorm() {
      super("rmsnorm", 88);
    }

    public Rmsnorm flags(int value) {
      return integer(4, value);
    }

    public Rmsnorm alignment(int value) {
      return integer(32, value);
    }

    public Rmsnorm maxSms(int value) {
      return integer(36, value);
    }

    public Rmsnorm x(Tensor value) {
      return tensor(40, value);
    }

    public Rmsnorm residual(Tensor value) {
      return tensor(48, value);
    }

    public Rmsnorm weight(Tensor value) {
      return tensor(56, value);
    }

    public Rmsnorm out(Tensor value) {
      return tensor(64, value);
    }

    public Rmsnorm residualOut(Tensor value) {
      return tensor(72, value);
    }

    public Rmsnorm eps(float value) {
      return number(80, value);
    }
  }

  /** quern_sample_args. */
  public static final class Sample extends Op<Sample> {
    public Sample() {
      super("sample", 376);
    }

    public Sample flags(int value) {
      return integer(4, value);
    }

    public Sample alignment(int value) {
      return integer(32, value);
    }

    public Sample maxSms(int value) {
      return integer(36, value);
    }

    public Sample logits(Tensor value) {
      return tensor(40, value);
    }

    public Sample rows(Tensor value) {
      return tensor(48, value);
    }

    public Sample ids(Tensor value) {
      return tensor(56, value);
    }

    public Sample logprobs(Tensor value) {
      return tensor(64, value);
    }

    public Sample topIds(Tensor value) {
      return tensor(72, value);
    }

    public Sample topLogprobs(Tensor value) {
      return tensor(80, value);
    }

    public Sample status(Tensor value) {
      return tensor(88, value);
    }

    public Sample seeds(Tensor value) {
      return tensor(96, value);
    }

    public Sample offsets(Tensor value) {
      return tensor(104, value);
    }

    public Sample temperatures(Tensor value) {
      return tensor(112, value);
    }

    public Sample topKs(Tensor value) {
      return tensor(120, value);
    }

    public Sample topPs(Tensor value) {
      return tensor(128, value);
    }

    public Sample minPs(Tensor value) {
      return tensor(136, value);
    }

    public Sample typicalPs(Tensor value) {
      return tensor(144, value);
    }

    public Sample nSigmas(Tensor value) {
      return tensor(152, value);
    }

    public Sample xtcProbabilities(Tensor value) {
      return tensor(160, value);
    }

    public Sample xtcThresholds(Tensor value) {
      return tensor(168, value);
    }

    public Sample dynamicRanges(Tensor value) {
      return tensor(176, value);
    }

    public Sample dynamicExponents(Tensor value) {
      return tensor(184, value);
    }

    public Sample repetitions(Tensor value) {
      return tensor(192, value);
    }

    public Sample presences(Tensor value) {
      return tensor(200, value);
    }

    public Sample frequencies(Tensor value) {
      return tensor(208, value);
    }

    public Sample promptMask(Tensor value) {
      return tensor(216, value);
    }

    public Sample promptTokens(Tensor value) {
      return tensor(224, value);
    }

    public Sample promptLengths(Tensor value) {
      return tensor(232, value);
    }

    public Sample outputCounts(Tensor value) {
      return tensor(240, value);
    }

    public Sample outputTokens(Tensor value) {
      return tensor(248, value);
    }

    public Sample outputLengths(Tensor value) {
      return tensor(256, value);
    }

    public Sample biasOffsets(Tensor value) {
      return tensor(264, value);
    }

    public Sample biasIds(Tensor value) {
      return tensor(272, value);
    }

    public Sample biasValues(Tensor value) {
      return tensor(280, value);
    }

    public Sample allowed(Tensor value) {
      return tensor(288, value);
    }

    public Sample banned(Tensor value) {
      return tensor(296, value);
    }

    public Sample seed(long value) {
      return wide(304, value);
    }

    public Sample offset(long value) {
      return wide(312, value);
    }

    public Sample temperature(float value) {
      return number(320, value);
    }

    public Sample topK(int value) {
      return integer(324, value);
    }

    public Sample topP(float value) {
      return number(328, value);
    }

    public Sample minP(float value) {
      return number(332, value);
    }

    public Sample typicalP(float value) {
      return number(336, value);
    }

    public Sample nSigma(float value) {
      return number(340, value);
    }

    public Sample xtcProbability(float value) {
      return number(344, value);
    }

    public Sample xtcThreshold(float value) {
      return number(348, value);
    }

    public Sample dynamicRange(float value) {
      return number(352, value);
    }

    public Sample dynamicExponent(float value) {
      return number(356, value);
    }

    public Sample repetition(float value) {
      return number(360, value);
    }

    public Sample presence(float value) {
      return number(364, value);
    }

    public Sample frequency(float value) {
      return number(368, value);
    }

    public Sample maxBias(int value) {
      return integer(372, value);
    }
  }

  /** quern_gather_args. */
  public static final class Gather extends Op<Gather> {
    public Gather() {
      super("gather", 88);
    }

    public Gather flags(int value) {
      return integer(4, value);
    }

    public Gather alignment(int value) {
      return integer(32, value);
    }

    public Gather maxSms(int value) {
      return integer(36, value);
    }

    public Gather table(Tensor value) {
      return tensor(40, value);
    }

    public Gather ids(Tensor value) {
      return tensor(48, value);
    }

    public Gather out(Tensor value) {
      return tensor(56, value);
    }

    public Gather first(long value) {
      return wide(64, value);
    }

    public Gather padding(long value) {
      return wide(72, value);
    }

    public Gather scale(float value) {
      return number(80, value);
    }
  }

  /** quern_mla_append_args. */
  public static final class MlaAppend extends Op<MlaAppend> {
    public MlaAppend() {
      super("mla_append", 208);
    }

    public MlaAppend flags(int value) {
      return integer(4, value);
    }

    public MlaAppend alignment(int value) {
      return integer(32, value);
    }

    public MlaAppend maxSms(int value) {
      return integer(36, value);
    }

    public MlaAppend kv(Tensor value) {
      return tensor(40, value);
    }

    public MlaAppend kRope(Tensor value) {
      return tensor(48, value);
    }

    public MlaAppend weight(Tensor value) {
      return tensor(56, value);
    }

    public MlaAppend cache(Tensor value) {
      return tensor(64, value);
    }

    public MlaAppend cacheRope(Tensor value) {
      return tensor(72, value);
    }

    public MlaAppend cacheScale(Tensor value) {
      return tensor(80, value);
    }

    public MlaAppend slots(Tensor value) {
      return tensor(88, value);
    }

    public MlaAppend pageTable(Tensor value) {
      return tensor(96, value);
    }

    public MlaAppend pageIndptr(Tensor value) {
      return tensor(104, value);
    }

    public MlaAppend pageIndices(Tensor value) {
      return tensor(112, value);
    }

    public MlaAppend cuQ(Tensor value) {
      return tensor(120, value);
    }

    public MlaAppend lengths(Tensor value) {
      return tensor(128, value);
    }

    public MlaAppend positions(Tensor value) {
      return tensor(136, value);
    }

    public MlaAppend qRope(Tensor value) {
      return tensor(144, value);
    }

    public MlaAppend qRopeOut(Tensor value) {
      return tensor(152, value);
    }

    public MlaAppend kvOut(Tensor value) {
      return tensor(160, value);
    }

    public MlaAppend kRopeOut(Tensor value) {
      return tensor(168, value);
    }

    public MlaAppend status(Tensor value) {
      return tensor(176, value);
    }

    public MlaAppend rope(RopeOptions value) {
      return part(184, value);
    }

    public MlaAppend eps(float value) {
      return number(192, value);
    }

    public MlaAppend dRope(int value) {
      return integer(196, value);
    }

    public MlaAppend cacheType(int value) {
      return integer(200, value);
    }
  }

  /** quern_index_scores_args. */
  public static final class IndexScores extends Op<IndexScores> {
    public IndexScores() {
      super("index_scores", 152);
    }

    public IndexScores flags(int value) {
      return integer(4, value);
    }

    public IndexScores alignment(int value) {
      return integer(32, value);
    }

    public IndexScores maxSms(int value) {
      return integer(36, value);
    }

    public IndexScores q(Tensor value) {
      return tensor(40, value);
    }

    public IndexScores qScale(Tensor value) {
      return tensor(48, value);
    }

    public IndexScores weights(Tensor value) {
      return tensor(56, value);
    }

    public IndexScores k(Tensor value) {
      return tensor(64, value);
    }

    public IndexScores kScale(Tensor value) {
      return tensor(72, value);
    }

    public IndexScores out(Tensor value) {
      return tensor(80, value);
    }

    public IndexScores lengths(Tensor value) {
      return tensor(88, value);
    }

    public IndexScores cuQ(Tensor value) {
      return tensor(96, value);
    }

    public IndexScores pageTable(Tensor value) {
      return tensor(104, value);
    }

    public IndexScores pageIndptr(Tensor value) {
      return tensor(112, value);
    }

    public IndexScores pageIndices(Tensor value) {
      return tensor(120, value);
    }

    public IndexScores cuKv(Tensor value) {
      return tensor(128, value);
    }

    public IndexScores status(Tensor value) {
      return tensor(136, value);
    }

    public IndexScores maxQLen(int value) {
      return integer(144, value);
    }

    public IndexScores qType(int value) {
      return integer(148, value);
    }
  }

  /** quern_softmax_args. */
  public static final class Softmax extends Op<Softmax> {
    public Softmax() {
      super("softmax", 80);
    }

    public Softmax flags(int value) {
      return integer(4, value);
    }

    public Softmax alignment(int value) {
      return integer(32, value);
    }

    public Softmax maxSms(int value) {
      return integer(36, value);
    }

    public Softmax logits(Tensor value) {
      return tensor(40, value);
    }

    public Softmax temperatures(Tensor value) {
      return tensor(48, value);
    }

    public Softmax out(Tensor value) {
      return tensor(56, value);
    }

    public Softmax status(Tensor value) {
      return tensor(64, value);
    }

    public Softmax temperature(float value) {
      return number(72, value);
    }
  }

  /** quern_argmax_args. */
  public static final class Argmax extends Op<Argmax> {
    public Argmax() {
      super("argmax", 64);
    }

    public Argmax flags(int value) {
      return integer(4, value);
    }

    public Argmax alignment(int value) {
      return integer(32, value);
    }

    public Argmax maxSms(int value) {
      return integer(36, value);
    }

    public Argmax logits(Tensor value) {
      return tensor(40, value);
    }

    public Argmax ids(Tensor value) {
      return tensor(48, value);
    }

    public Argmax values(Tensor value) {
      return tensor(56, value);
    }
  }

  /** quern_top_k_args. */
  public static final class TopK extends Op<TopK> {
    public TopK() {
      super("top_k", 72);
    }

    public TopK flags(int value) {
      return integer(4, value);
    }

    public TopK alignment(int value) {
      return integer(32, value);
    }

    public TopK maxSms(int value) {
      return integer(36, value);
    }

    public TopK x(Tensor value) {
      return tensor(40, value);
    }

    public TopK lengths(Tensor value) {
      return tensor(48, value);
    }

    public TopK ids(Tensor value) {
      return tensor(56, value);
    }

    public TopK values(Tensor value) {
      return tensor(64, value);
    }
  }

  /** quern_renormalise_args. */
  public static final class Renormalise extends Op<Renormalise> {
    public Renormalise() {
      super("renormalise", 104);
    }

    public Renormalise flags(int value) {
      return integer(4, value);
    }

    public Renormalise alignment(int value) {
      return integer(32, value);
    }

    public Renormalise maxSms(int value) {
      return integer(36, value);
    }

    public Renormalise probs(Tensor value) {
      return tensor(40, value);
    }

    public Renormalise out(Tensor value) {
      return tensor(48, value);
    }

    public Renormalise status(Tensor value) {
      return tensor(56, value);
    }

    public Renormalise topKs(Tensor value) {
      return tensor(64, value);
    }

    public Renormalise topPs(Tensor value) {
      return tensor(72, value);
    }

    public Renormalise minPs(Tensor value) {
      return tensor(80, value);
    }

    public Renormalise topK(int value) {
      return integer(88, value);
    }

    public Renormalise topP(float value) {
      return number(92, value);
    }

    public Renormalise minP(float value) {
      return number(96, value);
    }
  }

  /** quern_verify_draft_args. */
  public static final class VerifyDraft extends Op<VerifyDraft> {
    public VerifyDraft() {
      super("verify_draft", 328);
    }

    public VerifyDraft flags(int value) {
      return integer(4, value);
    }

    public VerifyDraft alignment(int value) {
      return integer(32, value);
    }

    public VerifyDraft maxSms(int value) {
      return integer(36, value);
    }

    public VerifyDraft target(Tensor value) {
      return tensor(40, value);
    }

    public VerifyDraft draft(Tensor value) {
      return tensor(48, value);
    }

    public VerifyDraft draftIds(Tensor value) {
      return tensor(56, value);
    }

    public VerifyDraft parents(Tensor value) {
      return tensor(64, value);
    }

    public VerifyDraft lengths(Tensor value) {
      return tensor(72, value);
    }

    public VerifyDraft accepted(Tensor value) {
      return tensor(80, value);
    }

    public VerifyDraft ids(Tensor value) {
      return tensor(88, value);
    }

    public VerifyDraft path(Tensor value) {
      return tensor(96, value);
    }

    public VerifyDraft status(Tensor value) {
      return tensor(104, value);
    }

    public VerifyDraft seeds(Tensor value) {
      return tensor(112, value);
    }

    public VerifyDraft offsets(Tensor value) {
      return tensor(120, value);
    }

    public VerifyDraft temperatures(Tensor value) {
      return tensor(128, value);
    }

    public VerifyDraft topKs(Tensor value) {
      return tensor(136, value);
    }

    public VerifyDraft topPs(Tensor value) {
      return tensor(144, value);
    }

    public VerifyDraft minPs(Tensor value) {
      return tensor(152, value);
    }

    public VerifyDraft seed(long value) {
      return wide(160, value);
    }

    public VerifyDraft offset(long value) {
      return wide(168, value);
    }

    public VerifyDraft temperature(float value) {
      return number(176, value);
    }

    public VerifyDraft topK(int value) {
      return integer(180, value);
    }

    public VerifyDraft topP(float value) {
      return number(184, value);
    }

    public VerifyDraft minP(float value) {
      return number(188, value);
    }

    public VerifyDraft logprobs(Tensor value) {
      return tensor(192, value);
    }

    public VerifyDraft repetitions(Tensor value) {
      return tensor(200, value);
    }

    public VerifyDraft presences(Tensor value) {
      return tensor(208, value);
    }

    public VerifyDraft frequencies(Tensor value) {
      return tensor(216, value);
    }

    public VerifyDraft promptMask(Tensor value) {
      return tensor(224, value);
    }

    public VerifyDraft promptTokens(Tensor value) {
      return tensor(232, value);
    }

    public VerifyDraft promptLengths(Tensor value) {
      return tensor(240, value);
    }

    public VerifyDraft outputCounts(Tensor value) {
      return tensor(248, value);
    }

    public VerifyDraft outputTokens(Tensor value) {
      return tensor(256, value);
    }

    public VerifyDraft outputLengths(Tensor value) {
      return tensor(264, value);
    }

    public VerifyDraft biasOffsets(Tensor value) {
      return tensor(272, value);
    }

    public VerifyDraft biasIds(Tensor value) {
      return tensor(280, value);
    }

    public VerifyDraft biasValues(Tensor value) {
      return tensor(288, value);
    }

    public VerifyDraft allowed(Tensor value) {
      return tensor(296, value);
    }

    public VerifyDraft banned(Tensor value) {
      return tensor(304, value);
    }

    public VerifyDraft repetition(float value) {
      return number(312, value);
    }

    public VerifyDraft presence(float value) {
      return number(316, value);
    }

    public VerifyDraft frequency(float value) {
      return number(320, value);
    }

    public VerifyDraft maxBias(int value) {
      return integer(324, value);
    }
  }

  /** quern_pointwise_args. */
  public static final class Pointwise extends Op<Pointwise> {
    public Pointwise() {
      super("pointwise", 128);
    }

    public Pointwise flags(int value) {
      return integer(4, value);
    }

    public Pointwise alignment(int value) {
      return integer(32, value);
    }

    public Pointwise maxSms(int value) {
      return integer(36, value);
    }

    public Pointwise operands(List<Tensor> value) {
      return tensors(40, 120, value);
    }

    public Pointwise out(Tensor value) {
      return tensor(48, value);
    }

    public Pointwise out1(Tensor value) {
      return tensor(56, value);
    }

    public Pointwise out2(Tensor value) {
      return tensor(64, value);
    }

    public Pointwise out3(Tensor value) {
      return tensor(72, value);
    }

    public Pointwise expression(Expression value) {
      return expression(80, value);
    }

    public Pointwise expression1(Expression value) {
      return expression(88, value);
    }

    public Pointwise expression2(Expression value) {
      return expression(96, value);
    }

    public Pointwise expression3(Expression value) {
      return expression(104, value);
    }

    public Pointwise scalars(float[] value) {
      return numbers(112, 124, value);
    }
  }

  /** quern_copy_args. */
  public static final class Copy extends Op<Copy> {
    public Copy() {
      super("copy", 72);
    }

    public Copy flags(int value) {
      return integer(4, value);
    }

    public Copy alignment(int value) {
      return integer(32, value);
    }

    public Copy maxSms(int value) {
      return integer(36, value);
    }

    public Copy inputs(List<Tensor> value) {
      return tensors(40, 56, value);
    }

    public Copy outputs(List<Tensor> value) {
      return tensors(48, 60, value);
    }

    public Copy fill(double value) {
      return wideNumber(64, value);
    }
  }

  /** quern_norm_args. */
  public static final class Norm extends Op<Norm> {
    public Norm() {
      super("norm", 144);
    }

    public Norm flags(int value) {
      return integer(4, value);
    }

    public Norm alignment(int value) {
      return integer(32, value);
    }

    public Norm maxSms(int value) {
      return integer(36, value);
    }

    public Norm x(Tensor value) {
      return tensor(40, value);
    }

    public Norm residual(Tensor value) {
      return tensor(48, value);
    }

    public Norm weight(Tensor value) {
      return tensor(56, value);
    }

    public Norm bias(Tensor value) {
      return tensor(64, value);
    }

    public Norm scale(Tensor value) {
      return tensor(72, value);
    }

    public Norm shift(Tensor value) {
      return tensor(80, value);
    }

    public Norm out(Tensor value) {
      return tensor(88, value);
    }

    public Norm residualOut(Tensor value) {
      return tensor(96, value);
    }

    public Norm outScale(Tensor value) {
      return tensor(104, value);
    }

    public Norm dense(Tensor value) {
      return tensor(112, value);
    }

    public Norm kind(int value) {
      return integer(120, value);
    }

    public Norm groups(int value) {
      return integer(124, value);
    }

    public Norm scaleKind(int value) {
      return integer(128, value);
    }

    public Norm type(int value) {
      return integer(132, value);
    }

    public Norm eps(float value) {
      return number(136, value);
    }
  }

  /** quern_norm_backward_args. */
  public static final class NormBackward extends Op<NormBackward> {
    public NormBackward() {
      super("norm_backward", 104);
    }

    public NormBackward flags(int value) {
      return integer(4, value);
    }

    public NormBackward alignment(int value) {
      return integer(32, value);
    }

    public NormBackward maxSms(int value) {
      return integer(36, value);
    }

    public NormBackward dout(Tensor value) {
      return tensor(40, value);
    }

    public NormBackward x(Tensor value) {
      return tensor(48, value);
    }

    public NormBackward weight(Tensor value) {
      return tensor(56, value);
    }

    public NormBackward add(Tensor value) {
      return tensor(64, value);
    }

    public NormBackward dx(Tensor value) {
      return tensor(72, value);
    }

    public NormBackward dweight(Tensor value) {
      return tensor(80, value);
    }

    public NormBackward dbias(Tensor value) {
      return tensor(88, value);
    }

    public NormBackward kind(int value) {
      return integer(96, value);
    }

    public NormBackward eps(float value) {
      return number(100, value);
    }
  }

  /** quern_reduce_args. */
  public static final class Reduce extends Op<Reduce> {
    public Reduce() {
      super("reduce", 168);
    }

    public Reduce flags(int value) {
      return integer(4, value);
    }

    public Reduce alignment(int value) {
      return integer(32, value);
    }

    public Reduce maxSms(int value) {
      return integer(36, value);
    }

    public Reduce x(Tensor value) {
      return tensor(40, value);
    }

    public Reduce y(Tensor value) {
      return tensor(48, value);
    }

    public Reduce before(Expression value) {
      return expression(56, value);
    }

    public Reduce out(Tensor value) {
      return tensor(64, value);
    }

    public Reduce out1(Tensor value) {
      return tensor(72, value);
    }

    public Reduce out2(Tensor value) {
      return tensor(80, value);
    }

    public Reduce out3(Tensor value) {
      return tensor(88, value);
    }

    public Reduce after(Expression value) {
      return expression(96, value);
    }

    public Reduce after1(Expression value) {
      return expression(104, value);
    }

    public Reduce after2(Expression value) {
      return expression(112, value);
    }

    public Reduce after3(Expression value) {
      return expression(120, value);
    }

    public Reduce scalars(float[] value) {
      return numbers(128, 136, value);
    }

    public Reduce axes(int value) {
      return integer(140, value);
    }

    public Reduce reduction(int value) {
      return integer(144, value);
    }

    public Reduce reduction1(int value) {
      return integer(148, value);
    }

    public Reduce reduction2(int value) {
      return integer(152, value);
    }

    public Reduce reduction3(int value) {
      return integer(156, value);
    }

    public Reduce type(int value) {
      return integer(160, value);
    }
  }

  /** quern_scatter_args. */
  public static final class Scatter extends Op<Scatter> {
    public Scatter() {
      super("scatter", 88);
    }

    public Scatter flags(int value) {
      return integer(4, value);
    }

    public Scatter alignment(int value) {
      return integer(32, value);
    }

    public Scatter maxSms(int value) {
      return integer(36, value);
    }

    public Scatter x(Tensor value) {
      return tensor(40, value);
    }

    public Scatter ids(Tensor value) {
      return tensor(48, value);
    }

    public Scatter out(Tensor value) {
      return tensor(56, value);
    }

    public Scatter first(long value) {
      return wide(64, value);
    }

    public Scatter padding(long value) {
      return wide(72, value);
    }

    public Scatter scale(float value) {
      return number(80, value);
    }
  }

  /** quern_histogram_args. */
  public static final class Histogram extends Op<Histogram> {
    public Histogram() {
      super("histogram", 72);
    }

    public Histogram flags(int value) {
      return integer(4, value);
    }

    public Histogram alignment(int value) {
      return integer(32, value);
    }

    public Histogram maxSms(int value) {
      return integer(36, value);
    }

    public Histogram x(Tensor value) {
      return tensor(40, value);
    }

    public Histogram counts(Tensor value) {
      return tensor(48, value);
    }

    public Histogram first(long value) {
      return wide(56, value);
    }

    public Histogram low(float value) {
      return number(64, value);
    }

    public Histogram high(float value) {
      return number(68, value);
    }
  }

  /** quern_sort_args. */
  public static final class Sort extends Op<Sort> {
    public Sort() {
      super("sort", 88);
    }

    public Sort flags(int value) {
      return integer(4, value);
    }

    public Sort alignment(int value) {
      return integer(32, value);
    }

    public Sort maxSms(int value) {
      return integer(36, value);
    }

    public Sort keys(Tensor value) {
      return tensor(40, value);
    }

    public Sort values(Tensor value) {
      return tensor(48, value);
    }

    public Sort offsets(Tensor value) {
      return tensor(56, value);
    }

    public Sort keysOut(Tensor value) {
      return tensor(64, value);
    }

    public Sort valuesOut(Tensor value) {
      return tensor(72, value);
    }

    public Sort maxSegment(long value) {
      return wide(80, value);
    }
  }

  /** quern_conv1d_args. */
  public static final class Conv1d extends Op<Conv1d> {
    public Conv1d() {
      super("conv1d", 128);
    }

    public Conv1d flags(int value) {
      return integer(4, value);
    }

    public Conv1d alignment(int value) {
      return integer(32, value);
    }

    public Conv1d maxSms(int value) {
      return integer(36, value);
    }

    public Conv1d x(Tensor value) {
      return tensor(40, value);
    }

    public Conv1d weight(Tensor value) {
      return tensor(48, value);
    }

    public Conv1d bias(Tensor value) {
      return tensor(56, value);
    }

    public Conv1d offsets(Tensor value) {
      return tensor(64, value);
    }

    public Conv1d state(Tensor value) {
      return tensor(72, value);
    }

    public Conv1d stateIds(Tensor value) {
      return tensor(80, value);
    }

    public Conv1d hasState(Tensor value) {
      return tensor(88, value);
    }

    public Conv1d out(Tensor value) {
      return tensor(96, value);
    }

    public Conv1d stride(int value) {
      return integer(104, value);
    }

    public Conv1d dilation(int value) {
      return integer(108, value);
    }

    public Conv1d groups(int value) {
      return integer(112, value);
    }

    public Conv1d padBegin(int value) {
      return integer(116, value);
    }

    public Conv1d padEnd(int value) {
      return integer(120, value);
    }
  }

  /** quern_nms_args. */
  public static final class Nms extends Op<Nms> {
    public Nms() {
      super("nms", 96);
    }

    public Nms flags(int value) {
      return integer(4, value);
    }

    public Nms alignment(int value) {
      return integer(32, value);
    }

    public Nms maxSms(int value) {
      return integer(36, value);
    }

    public Nms boxes(Tensor value) {
      return tensor(40, value);
    }

    public Nms scores(Tensor value) {
      return tensor(48, value);
    }

    public Nms classes(Tensor value) {
      return tensor(56, value);
    }

    public Nms lengths(Tensor value) {
      return tensor(64, value);
    }

    public Nms ids(Tensor value) {
      return tensor(72, value);
    }

    public Nms counts(Tensor value) {
      return tensor(80, value);
    }

    public Nms iouThreshold(float value) {
      return number(88, value);
    }

    public Nms scoreThreshold(float value) {
      return number(92, value);
    }
  }

  /** quern_conv2d_args. */
  public static final class Conv2d extends Op<Conv2d> {
    public Conv2d() {
      super("conv2d", 112);
    }

    public Conv2d flags(int value) {
      return integer(4, value);
    }

    public Conv2d alignment(int value) {
      return integer(32, value);
    }

    public Conv2d maxSms(int value) {
      return integer(36, value);
    }

    public Conv2d x(Tensor value) {
      return tensor(40, value);
    }

    public Conv2d weight(Tensor value) {
      return tensor(48, value);
    }

    public Conv2d bias(Tensor value) {
      return tensor(56, value);
    }

    public Conv2d out(Tensor value) {
      return tensor(64, value);
    }

    public Conv2d strideH(int value) {
      return integer(72, value);
    }

    public Conv2d strideW(int value) {
      return integer(76, value);
    }

    public Conv2d dilationH(int value) {
      return integer(80, value);
    }

    public Conv2d dilationW(int value) {
      return integer(84, value);
    }

    public Conv2d groups(int value) {
      return integer(88, value);
    }

    public Conv2d padTop(int value) {
      return integer(92, value);
    }

    public Conv2d padBottom(int value) {
      return integer(96, value);
    }

    public Conv2d padLeft(int value) {
      return integer(100, value);
    }

    public Conv2d padRight(int value) {
      return integer(104, value);
    }

    public Conv2d activation(int value) {
      return integer(108, value);
    }
  }

  /** quern_quantized_gemm_args. */
  public static final class QuantizedGemm extends Op<QuantizedGemm> {
    public QuantizedGemm() {
      super("quantized_gemm", 128);
    }

    public QuantizedGemm flags(int value) {
      return integer(4, value);
    }

    public QuantizedGemm alignment(int value) {
      return integer(32, value);
    }

    public QuantizedGemm maxSms(int value) {
      return integer(36, value);
    }

    public QuantizedGemm a(Tensor value) {
      return tensor(40, value);
    }

    public QuantizedGemm b(Tensor value) {
      return tensor(48, value);
    }

    public QuantizedGemm scaleA(Tensor value) {
      return tensor(56, value);
    }

    public QuantizedGemm scaleB(Tensor value) {
      return tensor(64, value);
    }

    public QuantizedGemm zeroB(Tensor value) {
      return tensor(72, value);
    }

    public QuantizedGemm tensorScaleA(Tensor value) {
      return tensor(80, value);
    }

    public QuantizedGemm tensorScaleB(Tensor value) {
      return tensor(88, value);
    }

    public QuantizedGemm out(Tensor value) {
      return tensor(96, value);
    }

    public QuantizedGemm epilogue(Epilogue value) {
      return part(104, value);
    }

    public QuantizedGemm aFormat(int value) {
      return integer(112, value);
    }

    public QuantizedGemm bFormat(int value) {
      return integer(116, value);
    }

    public QuantizedGemm scaleAType(int value) {
      return integer(120, value);
    }

    public QuantizedGemm scaleBType(int value) {
      return integer(124, value);
    }
  }

  /** quern_fft_args. */
  public static final class Fft extends Op<Fft> {
    public Fft() {
      super("fft", 96);
    }

    public Fft flags(int value) {
      return integer(4, value);
    }

    public Fft alignment(int value) {
      return integer(32, value);
    }

    public Fft maxSms(int value) {
      return integer(36, value);
    }

    public Fft x(Tensor value) {
      return tensor(40, value);
    }

    public Fft window(Tensor value) {
      return tensor(48, value);
    }

    public Fft out(Tensor value) {
      return tensor(56, value);
    }

    public Fft n(int value) {
      return integer(64, value);
    }

    public Fft kind(int value) {
      return integer(68, value);
    }

    public Fft result(int value) {
      return integer(72, value);
    }

    public Fft scaling(int value) {
      return integer(76, value);
    }

    public Fft hop(int value) {
      return integer(80, value);
    }

    public Fft padBegin(int value) {
      return integer(84, value);
    }

    public Fft padEnd(int value) {
      return integer(88, value);
    }

    public Fft padding(int value) {
      return integer(92, value);
    }
  }

  /** Where the fields of the structs lie that Quern.java fills and reads. */
  static final class Layout {
    static final int DLTENSOR_BYTES = 48;
    static final int DLTENSOR_DATA = 0;
    static final int DLTENSOR_DEVICE = 8;
    static final int DLTENSOR_NDIM = 16;
    static final int DLTENSOR_DTYPE = 20;
    static final int DLTENSOR_SHAPE = 24;
    static final int DLTENSOR_STRIDES = 32;
    static final int DLTENSOR_BYTE_OFFSET = 40;
    static final int ERROR_BYTES = 4096;
    static final int ERROR_SIZE = 0;
    static final int ERROR_STATUS = 4;
    static final int ERROR_NATIVE = 8;
    static final int ERROR_TEXT = 16;
    static final int SOURCE_BYTES = 32;
    static final int SOURCE_SIZE = 0;
    static final int SOURCE_RESERVED = 4;
    static final int SOURCE_NAME = 8;
    static final int SOURCE_TEXT = 16;
    static final int SOURCE_LENGTH = 24;
    static final int CONSTANT_BYTES = 24;
    static final int CONSTANT_SIZE = 0;
    static final int CONSTANT_RESERVED = 4;
    static final int CONSTANT_NAME = 8;
    static final int CONSTANT_VALUE = 16;
    static final int KERNEL_DESC_BYTES = 88;
    static final int KERNEL_DESC_SIZE = 0;
    static final int KERNEL_DESC_FLAGS = 4;
    static final int KERNEL_DESC_ENTRY = 8;
    static final int KERNEL_DESC_SOURCE = 16;
    static final int KERNEL_DESC_HEADERS = 24;
    static final int KERNEL_DESC_HEADER_COUNT = 32;
    static final int KERNEL_DESC_CONSTANTS = 40;
    static final int KERNEL_DESC_CONSTANT_COUNT = 48;
    static final int KERNEL_DESC_OPTIONS = 56;
    static final int KERNEL_DESC_OPTION_COUNT = 64;
    static final int KERNEL_DESC_TARGET = 72;
    static final int KERNEL_DESC_MAX_SHARED_BYTES = 80;
    static final int KERNEL_DESC_RESERVED = 84;
    static final int LAUNCH_BYTES = 72;
    static final int LAUNCH_SIZE = 0;
    static final int LAUNCH_FLAGS = 4;
    static final int LAUNCH_STREAM = 8;
    static final int LAUNCH_GRID_X = 16;
    static final int LAUNCH_GRID_Y = 20;
    static final int LAUNCH_GRID_Z = 24;
    static final int LAUNCH_BLOCK_X = 28;
    static final int LAUNCH_BLOCK_Y = 32;
    static final int LAUNCH_BLOCK_Z = 36;
    static final int LAUNCH_CLUSTER_X = 40;
    static final int LAUNCH_CLUSTER_Y = 44;
    static final int LAUNCH_CLUSTER_Z = 48;
    static final int LAUNCH_SHARED_BYTES = 52;
    static final int LAUNCH_ARGS = 56;
    static final int LAUNCH_ARG_COUNT = 64;

    private Layout() {}
  }

  /** The numbers of quern.h. */
  public static final class Constants {
    public static final int VERSION_MAJOR = 0;
    public static final int VERSION_MINOR = 1;
    public static final int VERSION_PATCH = 0;
    public static final int ABI_VERSION = 1;
    public static final int OK = 0;
    public static final int MISS = 1;
    public static final int PENDING = 2;
    public static final int INVALID = 3;
    public static final int UNSUPPORTED = 4;
    public static final int NOT_FOUND = 5;
    public static final int COMPILE = 6;
    public static final int DRIVER = 7;
    public static final int STICKY = 8;
    public static final int CAPTURING = 9;
    public static final int NO_MEMORY = 10;
    public static final int IO = 11;
    public static final int DAMAGED = 12;
    public static final int FORKED = 13;
    public static final int PARTIAL = 14;
    public static final int INTERNAL = 15;
    public static final int FAULT = 16;
    public static final int MISS_COMPILE = 0;
    public static final int MISS_CACHED_ONLY = 1;
    public static final int MISS_BACKGROUND = 2;
    public static final int CONTEXT_NO_CACHE = 1;
    public static final int CONTEXT_READ_ONLY_CACHE = 2;
    public static final int CONTEXT_SHARED_CACHE = 4;
    public static final int CONTEXT_NVRTC_IN_HELPER = 8;
    public static final int CONTEXT_HOST_SEED = 16;
    public static final int CONTEXT_SIGNED_ONLY = 32;
    public static final int CONTEXT_CHECKED = 64;
    public static final int EVENT_COMPILED = 1;
    public static final int EVENT_LOADED = 2;
    public static final int EVENT_FAILED = 3;
    public static final int EVENT_REJECTED = 4;
    public static final int EVENT_CACHE = 5;
    public static final int EVENT_FAULT = 6;
    public static final int LOG_ERROR = 1;
    public static final int LOG_WARNING = 2;
    public static final int LOG_INFO = 3;
    public static final int LOG_DEBUG = 4;
    public static final int MODEL_SINKS = 1;
    public static final int MODEL_MLA = 2;
    public static final int MODEL_GATED_MLP = 4;
    public static final int MODEL_BLOCK_FP8 = 8;
    public static final int MODEL_FP8 = 16;
    public static final int MODEL_BIAS = 32;
    public static final int MODEL_QK_NORM = 64;
    public static final int MODEL_ROPE_INTERLEAVED = 128;
    public static final int MODEL_NO_ROPE = 256;
    public static final int MODEL_KV_TOKEN_SCALES = 512;
    public static final int MODEL_LAYER_NORM = 1024;
    public static final int MODEL_EMBEDDING_SCALE = 2048;
    public static final int MODEL_FP8_QUERIES = 4096;
    public static final int MODEL_FP8_LOGITS = 8192;
    public static final int WARM_LIST_ONLY = 1;
    public static final int WARM_ALLOW_UNSERVED = 2;
    public static final int WARM_HIT = 1;
    public static final int WARM_COMPILED = 2;
    public static final int WARM_FAILED = 3;
    public static final int WARM_ABSENT = 4;
    public static final int WARM_UNSERVED = 5;
    public static final int TUNE_AGAIN = 1;
    public static final int TUNE_LIST_ONLY = 2;
    public static final int TUNE_MEASURED = 1;
    public static final int TUNE_KNOWN = 2;
    public static final int TUNE_FAILED = 3;
    public static final int TUNE_ABSENT = 4;
    public static final int TRIM_REBUILD = 1;
    public static final int TRIM_ALL = 2;
    public static final int CACHE_READY = 0;
    public static final int CACHE_READ_ONLY = 1;
    public static final int CACHE_OFF = 2;
    public static final int CACHE_DAMAGED = 3;
    public static final int CACHE_REFUSED = 4;
    public static final int VERIFY_AGREES = 1;
    public static final int VERIFY_DIFFERS = 2;
    public static final int VERIFY_FAILED = 3;
    public static final int VERIFY_NOT_RUN = 4;
    public static final int CALL_BATCH_INVARIANT = 1;
    public static final int CALL_PROGRAMMATIC = 2;
    public static final int CALL_CACHED_ONLY = 4;
    public static final int CALL_BACKGROUND = 8;
    public static final int ATTENTION_CAUSAL = 65536;
    public static final int ATTENTION_WINDOW_LEFT = 131072;
    public static final int ATTENTION_WINDOW_RIGHT = 262144;
    public static final int ATTENTION_CONSTANT_PAST = 524288;
    public static final int MLA_CAUSAL = 65536;
    public static final int MLA_WINDOW_LEFT = 131072;
    public static final int MLA_WINDOW_RIGHT = 262144;
    public static final int MLA_SLOTS = 524288;
    public static final int MLA_CACHE_AS_TENSOR = 0;
    public static final int MLA_CACHE_E4M3 = 1;
    public static final int MLA_CACHE_ROWS_656 = 2;
    public static final int MLA_STATUS_LENGTH = 1;
    public static final int MLA_STATUS_PAGE = 2;
    public static final int MLA_STATUS_INDEX = 4;
    public static final int MLA_STATUS_QUERIES = 8;
    public static final int ROPE_PLAIN = 0;
    public static final int ROPE_LINEAR = 1;
    public static final int ROPE_NTK = 2;
    public static final int ROPE_YARN = 3;
    public static final int ROPE_LLAMA3 = 4;
    public static final int ROPE_INTERLEAVED = 1;
    public static final int ROPE_EXACT_RAMP = 2;
    public static final int KV_APPEND_WEIGHT_PLUS_ONE = 65536;
    public static final int ACTIVATION_DEFAULT = 0;
    public static final int ACTIVATION_RELU = 1;
    public static final int ACTIVATION_GELU = 2;
    public static final int ACTIVATION_GELU_TANH = 3;
    public static final int ACTIVATION_SILU = 4;
    public static final int ACTIVATION_NONE = 5;
    public static final int EPILOGUE_GATE = 1;
    public static final int EPILOGUE_POWER_OF_TWO = 2;
    public static final int FP8_AS_TENSOR = 0;
    public static final int FP8_E4M3 = 1;
    public static final int FP8_E5M2 = 2;
    public static final int GROUP_OFFSETS = 1;
    public static final int GROUP_CAPACITY = 2;
    public static final int GROUP_INDEX = 4;
    public static final int GEMM_TF32 = 65536;
    public static final int GEMM_CONSTANT_B = 131072;
    public static final int QUANTIZED_AS_TENSOR = 0;
    public static final int QUANTIZED_E4M3 = 1;
    public static final int QUANTIZED_INT4 = 2;
    public static final int QUANTIZED_UINT4 = 3;
    public static final int QUANTIZED_E2M1 = 4;
    public static final int QUANTIZED_SCALE_AS_TENSOR = 0;
    public static final int QUANTIZED_SCALE_E4M3 = 1;
    public static final int QUANTIZED_SCALE_UE8M0 = 2;
    public static final int FRONT_NONE = 0;
    public static final int FRONT_RMSNORM = 1;
    public static final int FRONT_LAYERNORM = 2;
    public static final int FRONT_SILU_MUL = 3;
    public static final int FRONT_GELU_MUL = 4;
    public static final int FRONT_GELU_TANH_MUL = 5;
    public static final int SCALE_NONE = 0;
    public static final int SCALE_STATIC = 1;
    public static final int SCALE_TENSOR = 2;
    public static final int SCALE_TOKEN = 3;
    public static final int SCALE_GROUP = 4;
    public static final int SCALE_BLOCK = 5;
    public static final int QUANTIZE_POWER_OF_TWO = 65536;
    public static final int QUANTIZE_WEIGHT_PLUS_ONE = 131072;
    public static final int MOE_SIGMOID = 65536;
    public static final int MOE_RENORMALIZE = 131072;
    public static final int RMSNORM_WEIGHT_PLUS_ONE = 65536;
    public static final int RMSNORM_CONSTANT_WEIGHT = 131072;
    public static final int GATHER_HAS_PADDING = 65536;
    public static final int GATHER_SHARD = 131072;
    public static final int SAMPLE_TEMPERATURE = 65536;
    public static final int SAMPLE_TOP_P = 131072;
    public static final int SAMPLE_TYPICAL_P = 262144;
    public static final int SAMPLE_JOINT = 524288;
    public static final int SAMPLE_TEMPERATURE_LAST = 1048576;
    public static final int SAMPLE_LOGPROBS_FILTERED = 2097152;
    public static final int SAMPLE_EMPTY = 1;
    public static final int SAMPLE_NAN = 2;
    public static final int SAMPLE_PARAMETER = 4;
    public static final int SAMPLE_INDEX = 8;
    public static final int SAMPLE_CAPACITY = 16;
    public static final int MLA_APPEND_POWER_OF_TWO = 65536;
    public static final int INDEX_SCORES_CAUSAL = 65536;
    public static final int INDEX_SCORES_LEAVE_MASKED = 131072;
    public static final int SOFTMAX_TEMPERATURE = 65536;
    public static final int SOFTMAX_LOG = 131072;
    public static final int TOP_K_SORTED = 65536;
    public static final int RENORMALISE_TOP_P = 65536;
    public static final int RENORMALISE_JOINT = 131072;
    public static final int VERIFY_TEMPERATURE = 65536;
    public static final int VERIFY_TOP_P = 131072;
    public static final int VERIFY_JOINT = 262144;
    public static final int VERIFY_LOGITS = 524288;
    public static final int VERIFY_GREEDY = 1048576;
    public static final int VERIFY_WITHOUT_REPLACEMENT = 2097152;
    public static final int VERIFY_LOGPROBS_FILTERED = 4194304;
    public static final int NORM_LAYER = 0;
    public static final int NORM_RMS = 1;
    public static final int NORM_L2 = 2;
    public static final int NORM_GROUP = 3;
    public static final int NORM_WEIGHT_PLUS_ONE = 65536;
    public static final int NORM_SCALE_ALONE = 131072;
    public static final int NORM_POWER_OF_TWO = 262144;
    public static final int NORM_BACKWARD_WEIGHT_PLUS_ONE = 65536;
    public static final int REDUCE_SUM = 0;
    public static final int REDUCE_MEAN = 1;
    public static final int REDUCE_MAX = 2;
    public static final int REDUCE_MIN = 3;
    public static final int REDUCE_ARGMAX = 4;
    public static final int REDUCE_ARGMIN = 5;
    public static final int REDUCE_L2 = 6;
    public static final int REDUCE_DOT = 7;
    public static final int REDUCE_LOGSUMEXP = 8;
    public static final int REDUCE_ANY = 9;
    public static final int REDUCE_ALL = 10;
    public static final int REDUCE_F16_SUMS = 65536;
    public static final int SCATTER_ADD = 65536;
    public static final int SCATTER_HAS_PADDING = 131072;
    public static final int SCATTER_SHARD = 262144;
    public static final int SCATTER_UNIQUE = 524288;
    public static final int HISTOGRAM_ACCUMULATE = 65536;
    public static final int HISTOGRAM_CLAMP = 131072;
    public static final int SORT_DESCENDING = 65536;
    public static final int CONV1D_SILU = 65536;
    public static final int FFT_FORWARD = 0;
    public static final int FFT_INVERSE = 1;
    public static final int FFT_REAL = 2;
    public static final int FFT_TO_REAL = 3;
    public static final int FFT_COMPLEX = 0;
    public static final int FFT_POWER = 1;
    public static final int FFT_MAGNITUDE = 2;
    public static final int FFT_UNSCALED = 0;
    public static final int FFT_BY_N = 1;
    public static final int FFT_BY_ROOT = 2;
    public static final int FFT_ZEROS = 0;
    public static final int FFT_REFLECT = 1;
    public static final int NMS_SCORE_THRESHOLD = 65536;

    private Constants() {}
  }
}
