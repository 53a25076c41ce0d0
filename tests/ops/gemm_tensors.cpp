// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_tensors.h"

#include <stdexcept>
#include <string>

#include "tests/ops/device.h"

namespace quern::test {
namespace {

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Which dimensions a tensor has, and how they lie in memory.
struct Layout {
  bool leads = false, has_rows = true, has_columns = true;
  bool rows_inside = false;   // stored [columns][rows]
  std::int64_t padding = 0;   // elements behind each line
  std::int64_t pitch = 0;     // elements from line to line; 0: as long as they are
  std::int64_t offset = 0;    // bytes
  bool stands_still = false;  // a group stride of 0
};

void set(GemmTensor& t, Element element, std::int64_t groups, std::int64_t rows, std::int64_t columns,
         const Layout& l) {
  t.element = element;
  t.groups = groups, t.rows = rows, t.columns = columns;
  t.begin = l.offset / static_cast<std::int64_t>(element.bytes());
  std::int64_t pitch = 0, lines = 1;
  if (l.has_rows && l.has_columns) {
    lines = l.rows_inside ? columns : rows;
    pitch = l.pitch > 0 ? l.pitch : (l.rows_inside ? rows : columns) + l.padding;
    t.row = l.rows_inside ? 1 : pitch;
    t.column = l.rows_inside ? pitch : 1;
  } else {
    pitch = l.has_rows ? rows : l.has_columns ? columns : 1;
    t.row = l.has_rows ? 1 : 0;
    t.column = l.has_columns ? 1 : 0;
  }
  t.group = l.leads && !l.stands_still ? std::max<std::int64_t>(lines * pitch, 1) : 0;
  t.elements = t.begin + (l.leads && !l.stands_still ? groups : 1) * lines * pitch + 1;

  DLTensor& d = t.box.tensor;
  d = DLTensor{};
  d.device = dl_device();
  d.dtype = element.type();
  d.byte_offset = static_cast<std::uint64_t>(l.offset);
  const auto dimension = [&](std::int64_t extent, std::int64_t stride) {
    t.box.shape[d.ndim] = extent;
    t.box.strides[d.ndim++] = stride;
  };
  if (l.leads) dimension(groups, t.group);
  if (l.has_rows) dimension(rows, t.row);
  if (l.has_columns) dimension(columns, t.column);
  if (d.ndim == 0) dimension(1, 1);
  d.shape = t.box.shape;
  // Without strides where there is nothing to say.
  const bool compact = !l.rows_inside && l.padding == 0 && l.pitch == 0 && !l.stands_still;
  d.strides = compact ? nullptr : t.box.strides;
}

}  // namespace

GemmTensors::GemmTensors(const GemmCase& given) : product_(given.product) {
  set_operands(given);
  if (given.is_fp8()) set_scales(given);
  set_epilogue(given);
  set_args(given);
}

void GemmTensors::set_operands(const GemmCase& given) {
  const auto padding_of = [&](Element e) { return given.padding / static_cast<std::int64_t>(e.bytes()); };
  set(a, given.a, given.groups(), given.rows_of_a(), given.k,
      {.leads = given.leads(),
       .rows_inside = given.transposed_a,
       .padding = padding_of(given.a),
       .offset = given.offset});
  set(b, given.b, given.weights(), given.n, given.k,
      {.leads = given.leads() || given.grouped(),
       .rows_inside = given.transposed_b,
       .padding = padding_of(given.b),
       .offset = given.offset,
       .stands_still = given.shared_b});
  set(out, given.out, given.groups(), given.m, given.columns(),
      {.leads = given.leads(), .padding = given.out_padding, .offset = given.offset});
  offsets.set(kInt32, {given.experts() + 1});
  counts.set(kInt32, {given.experts()});
  indices.set(kInt32, {given.m});
  status.set(kInt32, {1});
}

void GemmTensors::set_scales(const GemmCase& given) {
  const std::int64_t k_blocks = div_up(given.k, 128), rows = given.rows_of_a();
  switch (given.scale_a) {
    case Scaling::tensor:
      set(scale_a, Element::f32, 1, 1, 1, {.has_rows = false, .has_columns = false});
      break;
    case Scaling::lines:
      set(scale_a, Element::f32, given.groups(), rows, 1, {.leads = given.leads(), .has_columns = false});
      break;
    case Scaling::blocks:
      set(scale_a, Element::f32, given.groups(), rows, k_blocks,
          {.leads = given.leads(),
           .rows_inside = !given.scales_by_row,
           .pitch = given.scales_by_row ? 0 : (rows + 3) / 4 * 4});
      break;
  }
  switch (given.scale_b) {
    case Scaling::tensor:
      set(scale_b, Element::f32, given.weights(), 1, 1,
          {.leads = given.grouped(), .has_rows = false, .has_columns = false});
      break;
    case Scaling::lines:
      set(scale_b, Element::f32, given.weights(), given.n, 1, {.leads = given.grouped(), .has_columns = false});
      break;
    case Scaling::blocks:
      set(scale_b, Element::f32, given.weights(), div_up(given.n, 128), k_blocks, {.leads = given.grouped()});
      break;
  }
}

void GemmTensors::set_epilogue(const GemmCase& given) {
  const std::int64_t groups = given.groups(), m = given.m;
  // Column vectors are of the weights: an expert's, or a batch's.
  if (given.bias)
    set(bias, *given.bias, given.weights(), 1, given.n,
        {.leads = given.bias_leads, .has_rows = false, .offset = given.offset});
  if (given.c_is_out) {
    set(c, given.out, groups, m, given.columns(),
        {.leads = given.leads(), .padding = given.out_padding, .offset = given.offset});
  } else if (given.c) {
    set(c, *given.c, groups, m, given.n,
        {.leads = given.leads(), .padding = given.out_padding, .offset = given.offset});
  }
  for (std::size_t i = 0; i < given.operands.size(); ++i) {
    const EpilogueOperand& o = given.operands[i];
    if (o.kind == EpilogueOperand::unused) continue;
    const bool column = o.kind == EpilogueOperand::column;
    set(operands[i], o.element, column ? given.weights() : groups, m, given.columns(),
        {.leads = column ? o.leads : given.leads(),
         .has_rows = !column,
         .has_columns = o.kind != EpilogueOperand::row,
         .padding = given.out_padding,
         .offset = given.offset});
    operand_list[i] = operands[i].box.get();
  }
  if (given.out_scale) {
    set(out_scale, Element::f32, groups, m, div_up(given.columns(), 128),
        {.leads = given.leads(), .rows_inside = true, .pitch = (m + 3) / 4 * 4});
  }
  epilogue = sized<quern_epilogue>();
  if (given.gate) epilogue.flags |= QUERN_EPILOGUE_GATE;
  if (given.power_of_two) epilogue.flags |= QUERN_EPILOGUE_POWER_OF_TWO;
  epilogue.activation = given.activation;
  epilogue.bias = bias.used() ? bias.box.get() : nullptr;
  epilogue.c = c.used() ? c.box.get() : nullptr;
  epilogue.out_scale = out_scale.used() ? out_scale.box.get() : nullptr;
  formula_ = given.expression;
  if (formula_.empty()) return;
  epilogue.operand_count = static_cast<std::uint32_t>(given.operands.size());
  epilogue.operands = operand_list;
  epilogue.scalar_count = static_cast<std::uint32_t>(given.scalars.size());
  epilogue.scalars = given.scalars.data();
}

void GemmTensors::set_args(const GemmCase& given) {
  const bool plain = !given.gate && given.activation == QUERN_ACTIVATION_DEFAULT && !bias.used() && !c.used() &&
                     !out_scale.used() && given.expression.empty();
  const auto common = [&](auto& args) {
    args.size = sizeof(args);
    args.flags = given.flags;
    args.alignment = given.alignment;
    args.max_sms = given.max_sms;
    args.a = a.box.get(), args.b = b.box.get(), args.out = out.box.get();
    args.epilogue = plain ? nullptr : &epilogue;
  };
  const auto scales = [&](auto& args) { args.scale_a = scale_a.box.get(), args.scale_b = scale_b.box.get(); };
  switch (given.product) {
    case Product::gemm:
      common(gemm);
      if (given.tf32) gemm.flags |= QUERN_GEMM_TF32;
      break;
    case Product::fp8:
      common(fp8), scales(fp8);
      break;
    case Product::contiguous:
      common(grouped), scales(grouped);
      grouped.offsets = offsets.get();
      grouped.expected_rows = given.expected_rows;
      grouped.indices = given.gathered ? indices.get() : nullptr;
      grouped.status = status.get();
      break;
    case Product::masked:
      common(grouped), scales(grouped);
      grouped.counts = counts.get();
      grouped.expected_rows = given.expected_rows;
      grouped.status = status.get();
      break;
  }
}

// An expression belongs to a context.
void GemmTensors::bind(quern_context* context) {
  if (formula_.empty()) return;
  auto error = sized<quern_error>();
  if (quern_expression_create(context, formula_.c_str(), &epilogue.expression, &error) != QUERN_OK) {
    throw std::runtime_error(error.text);
  }
}

std::int32_t GemmTensors::workspace_of(quern_context* context, std::uint64_t* bytes, quern_error* error) {
  bind(context);
  switch (product_) {
    case Product::gemm:
      return quern_gemm_workspace(context, &gemm, bytes, error);
    case Product::fp8:
      return quern_fp8_gemm_workspace(context, &fp8, bytes, error);
    default:
      return quern_grouped_fp8_gemm_workspace(context, &grouped, bytes, error);
  }
}

std::int32_t GemmTensors::prepare(quern_context* context, quern_error* error) {
  bind(context);
  switch (product_) {
    case Product::gemm:
      return quern_gemm_prepare(context, &gemm, error);
    case Product::fp8:
      return quern_fp8_gemm_prepare(context, &fp8, error);
    default:
      return quern_grouped_fp8_gemm_prepare(context, &grouped, error);
  }
}

std::int32_t GemmTensors::run(quern_context* context, quern_error* error) {
  bind(context);
  switch (product_) {
    case Product::gemm:
      return quern_gemm(context, &gemm, error);
    case Product::fp8:
      return quern_fp8_gemm(context, &fp8, error);
    default:
      return quern_grouped_fp8_gemm(context, &grouped, error);
  }
}

}  // namespace quern::test
