// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/golden.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "bindings/json/json.h"

namespace quern::test {
namespace {

std::vector<std::int32_t> integers(const Json& array) {
  std::vector<std::int32_t> all;
  for (const Json& each : array.items()) all.push_back(static_cast<std::int32_t>(each.whole()));
  return all;
}
std::vector<double> numbers(const Json& array) {
  std::vector<double> all;
  for (const Json& each : array.items()) all.push_back(each.number());
  return all;
}

Json read_json(const std::string& name) {
  std::ifstream file(kModel + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error(kModel + "/" + name + " is missing");
  return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace

Golden read_golden() {
  const Json json = read_json("golden.json"), greedy = read_json("greedy.json");
  Golden golden;
  for (const Json& each : json.at("cases").items()) {
    GoldenCase c;
    c.prompt = each.at("prompt").string();
    c.ids = integers(each.at("ids"));
    for (const Json& position : each.at("top5_ids").items()) c.top_ids.push_back(integers(position));
    for (const Json& position : each.at("top5_logits").items()) c.top_logits.push_back(numbers(position));
    c.logsumexp = numbers(each.at("logsumexp"));
    c.greedy = integers(greedy.items().at(golden.cases.size()));
    golden.cases.push_back(std::move(c));
  }
  for (const Json& each : json.at("eval_tokens").items()) golden.sequences.push_back(integers(each));
  golden.sequence_nll = numbers(json.at("eval_nll_per_sequence"));
  golden.nll = json.at("eval_nll").number();
  return golden;
}

demo::Context engine_context(std::int32_t gpu) {
  const char* device = std::getenv("QUERN_TEST_DEVICE");
  auto options = demo::sized<quern_context_options>();
  options.device_type = kDLCPU;
  if (device != nullptr && std::string(device) == "cuda") options.device_type = kDLCUDA, options.device_id = gpu;
  options.cache_path = std::getenv("QUERN_TEST_CACHE");
  if (gpu == 0) return demo::make_context(options);
  quern_context* context = nullptr;
  quern_context_create(&options, &context, nullptr);
  return demo::Context(context);
}

quern_device_info device_of(quern_context* context) {
  auto device = demo::sized<quern_device_info>();
  demo::call([&](quern_error* error) { return quern_device(context, &device, error); });
  return device;
}

}  // namespace quern::test
