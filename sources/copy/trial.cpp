// Random calls of copy for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/formula.h"
#include "sources/verify/spaced.h"

namespace quern::ops::copy {
namespace {

using namespace verify;

constexpr std::int64_t kInner[] = {4096, 64, 40, 1024, 8, 100, 520};

std::string refusal(const Given& given) {
  return given.flag("wide") ? "no trial is made of tensors of more than 2^31 elements" : "";
}

void make(const Given& given, int which, Trial& trial) {
  const std::string form = given.text("form", "rows");
  const bool transposes = form != "rows";
  const std::int64_t rank = given.integer("rank", 1), parts = given.integer("parts", 1);
  // A part that ends within a vector, and rows at odd distances, ask for narrower accesses.
  const std::int64_t width = given.integer("width"), inner = kInner[which] / 8 * 8 + (width < 8 ? width : 0);
  std::vector<std::int64_t> extents = extents_of(rank, inner);
  // The longest rows are too much for small tiles on any device, the shorter ones few enough.
  if (transposes) extents[extents.size() - 2] = form == "tiles" ? 33 : 152 + given.integer("from_width", 1);
  quern_copy_args args{};
  std::vector<const Field*> from;
  std::vector<Field*> to;
  std::vector<const DLTensor*> inputs, outputs;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::vector<std::int64_t> in = spaced(extents, transposes ? "across" : "each"), out = spaced(extents, "each");
    from.push_back(&trial.given(given.dtype("from"), {span(extents, in)}).view(extents, in));
    to.push_back(&trial.result(given.dtype("to"), {span(extents, out)}).view(extents, out));
    inputs.push_back(from.back()->tensor()), outputs.push_back(to.back()->tensor());
  }
  trial.later([=] {
    for (std::size_t part = 0; part < from.size(); ++part) {
      to[part]->unknown();
      Places places(extents);
      for (std::int64_t i = 0; i < places.count; ++i, places.next()) {
        to[part]->truth[static_cast<std::size_t>(places.offset(to[part]->strides))] =
            as_stored(from[part]->get(places.offset(from[part]->strides)), to[part]->dtype);
      }
    }
  });
  args.inputs = trial.keep(inputs).data(), args.outputs = trial.keep(outputs).data();
  args.input_count = args.output_count = static_cast<std::uint32_t>(parts);
  args.alignment = static_cast<std::int32_t>(
      std::min<std::int64_t>(16, width * bytes_of(transposes ? given.dtype("to") : given.dtype("from"))));
  trial.what = "innermost extent " + std::to_string(inner);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kInner)), refusal};

}  // namespace quern::ops::copy
