// What is here and what is missing.
// SPDX-License-Identifier: Apache-2.0
#include "capi/context.h"
#include "capi/findings.h"
#include "capi/list.h"

namespace quern::capi {
namespace {

FindingRow driver_finding(const jit::DriverFound& driver) {
  if (!driver.found) return {QUERN_NOT_FOUND, driver.kind + " driver", driver.text, driver.hint};
  std::string text = driver.path;
  if (!driver.version.empty()) text += (text.empty() ? "version " : ", version ") + driver.version;
  for (const std::string& device : driver.devices) text += "\n" + device;
  return {QUERN_OK, driver.kind + " driver", text, driver.hint};
}

FindingRow compiler_finding(const jit::CompilerFound& compiler) {
  if (!compiler.found) return {QUERN_NOT_FOUND, compiler.kind, compiler.text, compiler.hint};
  std::string text = compiler.path;
  if (!compiler.build.empty()) text += ", " + compiler.build;
  if (!compiler.targets.empty()) text += ", targets " + compiler.targets;
  return {QUERN_OK, compiler.kind, text, compiler.hint};
}

FindingRow device_finding(const jit::DeviceInfo& device) {
  return {QUERN_OK, "device",
          device.name + ", " + device.limits.target.name() + ", " + std::to_string(device.sm_count) + " SMs, " +
              size_text(device.limits.shared_per_block) + " of shared memory a block, " + size_text(device.l2_bytes) +
              " of L2",
          ""};
}

}  // namespace
}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

extern "C" int32_t quern_failures(quern_context* context, quern_list** findings, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    quern_list*& out = out_parameter(findings, "findings");
    std::vector<FindingRow> rows;
    for (jit::CompileFailure& failure : alive.engine->failures())
      rows.push_back({failure.status, cache::to_hex(failure.key), std::move(failure.text), std::move(failure.name)});
    out = make_list(std::move(rows)).release();
    return QUERN_OK;
  });
}

extern "C" int32_t quern_doctor(quern_context* context, quern_list** findings, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    quern_list*& out = out_parameter(findings, "findings");
    std::vector<FindingRow> rows;
    if (alive.driver != nullptr) rows.push_back(device_finding(alive.driver->device()));
    for (const jit::DriverFound& driver : jit::find_drivers(alive.options.search_dirs)) {
      rows.push_back(driver_finding(driver));
    }
    for (const jit::CompilerFound& compiler : alive.service->compilers().doctor())
      rows.push_back(compiler_finding(compiler));
    const jit::Listening listening(alive.notice);
    rows.push_back(cache_finding(alive.service->store().stats()));
    out = make_list(std::move(rows)).release();
    return QUERN_OK;
  });
}
