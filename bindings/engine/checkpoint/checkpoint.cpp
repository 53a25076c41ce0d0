// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/checkpoint/checkpoint.h"

#include <stdexcept>

namespace quern::engine {
namespace {

std::string shown(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path) {
  return path.ends_with(".gguf") ? open_gguf(path) : open_folder(path);
}

void check_shape(const std::string& name, const std::vector<std::int64_t>& found,
                 const std::vector<std::int64_t>& wanted) {
  if (found == wanted) return;
  throw std::runtime_error(name + " has the shape " + shown(found) + "; by the model's sizes it is " + shown(wanted));
}

}  // namespace quern::engine
