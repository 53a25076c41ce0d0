// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/call.h"
#include "bindings/engine/view.h"
#include "bindings/engine/weights/weights.h"

namespace quern::engine {

Placer::Placer(quern_context* context, const quern_device_info& device, bool fp8)
    : context_(context), device_(device), fp8_(fp8), memory_(demo::memory_of(device)) {}

void* Placer::plain(std::span<const std::uint16_t> bf16) {
  void* const placed = memory_->allocate(bf16.size_bytes());
  memory_->upload(placed, bf16.data(), bf16.size_bytes());
  return placed;
}

Matrix Placer::matrix(std::span<const std::uint16_t> bf16, std::int64_t rows, std::int64_t columns) {
  if (!fp8_) return {plain(bf16), nullptr};
  const DLDevice device{static_cast<DLDeviceType>(device_.device_type), device_.device_id};
  const std::int64_t down = (rows + 127) / 128, across = (columns + 127) / 128;
  const Matrix placed{memory_->allocate(bf16.size()),
                      memory_->allocate(static_cast<std::size_t>(down * across) * sizeof(float))};
  const std::unique_ptr<demo::Memory> passing = demo::memory_of(device_);  // the bf16 numbers' is given back
  void* const from = passing->allocate(bf16.size_bytes());
  passing->upload(from, bf16.data(), bf16.size_bytes());
  auto args = demo::sized<quern_quantize_args>();
  const View x(from, device, kBf16, {rows, columns}), out(placed.data, device, kE4m3, {rows, columns}),
      scale(placed.scales, device, kF32, {down, across});
  args.x = x, args.out = out, args.scale = scale;
  args.scale_kind = QUERN_SCALE_BLOCK;
  demo::call(
      [&](quern_error* error) { return quern_quantize_workspace(context_, &args, &args.workspace_size, error); });
  if (args.workspace_size > 0) args.workspace = passing->allocate(static_cast<std::size_t>(args.workspace_size));
  demo::call([&](quern_error* error) { return quern_quantize(context_, &args, error); });
  passing->synchronise();
  return placed;
}

}  // namespace quern::engine
