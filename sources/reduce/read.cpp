// Reads a call of reduce, and shares its work out.
// SPDX-License-Identifier: Apache-2.0
#include "sources/reduce/read.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/divisor.h"
#include "sources/reduce/dims.h"
#include "sources/strided.h"

namespace quern::ops::reduce {
namespace {

// Neighbouring rows that are worth their vectors.
constexpr std::int64_t kFewColumns = 16;
// Rows that are longer are cut into pieces of no fewer than so many vectors (by columns: elements), in steps of what a
// block takes at once.
constexpr std::int64_t kWholeRow = 4096, kRowPiece = 2048, kMostRowPieces = 4096, kRowStep = 1024;
constexpr std::int64_t kWholeColumn = 512, kColumnPiece = 256, kMostColumnPieces = 1024, kColumnStep = 32,
                       kLongColumn = 8192, kLongColumnPiece = 512;
constexpr int kMostAcross = 32;  // threads beside each other,
// and where so few elements are reduced, which many threads then share: 128 bytes are read at once all the same.
constexpr std::int64_t kShortColumn = 2048;
constexpr int kShortAcross = 8;
constexpr std::int64_t kManyRounds = 3;         // of blocks, that would each take a row
constexpr std::int64_t kFewElements = 16;       // of a column, that a thread goes through alone
constexpr std::int64_t kFewColumnsEach = 2048;  // for each multiprocessor, of which a thread takes fewer

constexpr const char* kOutNames[] = {"out", "out1", "out2", "out3"};
constexpr const char* kAfterNames[] = {"after", "after1", "after2", "after3"};
constexpr const char* kKindNames[] = {"reduction", "reduction1", "reduction2", "reduction3"};

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

// What `read` makes of a tensor whose strides may be negative: it is shown their lengths.
template <class Read>
Tensor read_either_way(const DLTensor& given, const char* name, Read read) {
  if (given.strides == nullptr || given.ndim > Tensor::kMaxRank) return read(given);
  constexpr std::int64_t kLongest = std::int64_t{1} << 48;
  std::array<std::int64_t, Tensor::kMaxRank> lengths{};
  for (int d = 0; d < given.ndim; ++d) {
    const std::int64_t stride = given.strides[d];
    if (stride < -kLongest || stride > kLongest) refuse_stride(name, d, stride, "-2^48 to 2^48");
    lengths[static_cast<std::size_t>(d)] = std::abs(stride);
  }
  DLTensor forwards = given;
  forwards.strides = lengths.data();
  Tensor t = read(forwards);
  for (int d = 0; d < t.rank; ++d) t.strides[d] = given.strides[d];
  return t;
}

class Reader {
 public:
  Reader(const quern_reduce_args& args, const Call& call) : args_(args), call_(call) {}

  Problem read() {
    if (args_.reserved != 0) refuse_value("reserved", std::int64_t{args_.reserved}, "0");
    read_x();
    read_kinds();
    read_formulas();
    read_y();
    for (int i = 0; i < kResults; ++i) read_out(i);
    problem_.shape.halves = (args_.flags & QUERN_REDUCE_F16_SUMS) != 0;
    problem_.sms = call_.sms;
    take_dims();
    plan();
    return problem_;
  }

 private:
  const DLTensor* out_of(int i) const {
    return i == 0 ? args_.out : i == 1 ? args_.out1 : i == 2 ? args_.out2 : args_.out3;
  }
  std::int32_t kind_of(int i) const {
    return i == 0 ? args_.reduction : i == 1 ? args_.reduction1 : i == 2 ? args_.reduction2 : args_.reduction3;
  }
  const quern_expression* after_of(int i) const {
    return i == 0 ? args_.after : i == 1 ? args_.after1 : i == 2 ? args_.after2 : args_.after3;
  }
  Reduction& kind(int i) {
    Shape& s = problem_.shape;
    return i == 0 ? s.kind : i == 1 ? s.kind1 : i == 2 ? s.kind2 : s.kind3;
  }
  Dtype& out_dtype(int i) {
    Shape& s = problem_.shape;
    return i == 0 ? s.out : i == 1 ? s.out1 : i == 2 ? s.out2 : s.out3;
  }
  const quern_expression*& after(int i) {
    Shape& s = problem_.shape;
    return i == 0 ? s.after : i == 1 ? s.after1 : i == 2 ? s.after2 : s.after3;
  }
  void*& result(int i) { return i == 0 ? problem_.params.out : problem_.params.others[i - 1]; }
  bool reduced(int d) const { return (axes_ >> d & 1) != 0; }

  Tensor read_elements(const DLTensor* given, const char* name, int rank) {
    Place place = call_.place;
    place.most_extent = kLongestExtent;  // plan() says how long a row may be
    return read_either_way(*given, name, [&](const DLTensor& forwards) {
      if (dtype_of(given->dtype) == Dtype::u8) return read_fp8(&forwards, name, rank, args_.type, "type", place);
      return ops::read(&forwards, name, rank,
                       {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::i8}, place);
    });
  }
  void read_x() {
    if (args_.x == nullptr) refuse_missing("x");
    const int rank = args_.x->ndim;
    if (rank < 1 || rank > q::kReduceDims) refuse_rank("x", rank, 1, q::kReduceDims);
    x_ = read_elements(args_.x, "x", rank);
    if (args_.axes >> rank != 0)
      refuse_value("axes", std::int64_t{args_.axes}, ("bits 0 to " + std::to_string(rank - 1)).c_str());
    axes_ = args_.axes == 0 ? (1u << rank) - 1 : args_.axes;
    problem_.shape.element = x_.dtype;
    problem_.params.x = x_.data;
  }

  void read_kinds() {
    for (int i = 0; i < kResults; ++i) {
      if (kind_of(i) < QUERN_REDUCE_SUM || kind_of(i) > QUERN_REDUCE_ALL)
        refuse_value(kKindNames[i], std::int64_t{kind_of(i)}, "enum quern_reduction");
      if (i == 0 && out_of(i) == nullptr) refuse_missing("out");
      kind(i) = out_of(i) == nullptr ? Reduction::none : static_cast<Reduction>(kind_of(i));
      if (out_of(i) == nullptr && (kind_of(i) != 0 || after_of(i) != nullptr))
        refuse(std::string(kOutNames[i]) + " is NULL; it must be given with " +
               (kind_of(i) != 0 ? kKindNames[i] : kAfterNames[i]));
      any_place_ = any_place_ || is_place(kind(i));
    }
  }

  void read_formulas() {
    Shape& shape = problem_.shape;
    if (args_.before != nullptr) {
      expect_before(*args_.before, "before");
      shape.before = args_.before;
    }
    shape.exact = x_.dtype == Dtype::i8 && shape.before == identity();
    std::uint32_t scalars = shape.before->scalars;
    for (int i = 0; i < kResults; ++i) {
      if (after_of(i) == nullptr) continue;
      expect_after(*after_of(i), kAfterNames[i]);
      if (is_place(kind(i)) || is_truth(kind(i)))
        refuse(std::string(kAfterNames[i]) + " is given; it must be NULL where " + kKindNames[i] +
               " gives places or truth values");
      after(i) = after_of(i);
      scalars |= after(i)->scalars;
    }
    if (args_.scalar_count > 8) refuse_value("scalar_count", std::int64_t{args_.scalar_count}, "0 to 8");
    if (args_.scalar_count > 0 && args_.scalars == nullptr) refuse_missing("scalars");
    if (scalars >> args_.scalar_count != 0)
      refuse_value("scalar_count", std::int64_t{args_.scalar_count}, "more than the highest scalar of the expressions");
    std::copy_n(args_.scalars, args_.scalar_count, problem_.params.scalars);
  }

  void read_y() {
    bool read = problem_.shape.before->operands[0] != expression::OperandKind::unused;
    for (int i = 0; i < kResults; ++i) read = read || kind(i) == Reduction::dot;
    if (!read && args_.y != nullptr) refuse("y is given; it must be NULL where nothing reads it");
    if (!read) return;
    if (args_.y == nullptr) refuse_missing("y");
    y_ = read_elements(args_.y, "y", x_.rank);
    if (y_.dtype != x_.dtype) refuse_dtype("y", args_.y->dtype, {x_.dtype});
    for (int d = 0; d < x_.rank; ++d) expect_extent(y_, "y", d, x_.shape[d]);
    problem_.shape.y = true;
    problem_.params.y = y_.data;
  }

  Tensor read_result(const DLTensor* given, const char* name, int rank, Reduction kind) {
    const Place& place = call_.place;
    if (is_place(kind)) return ops::read(given, name, rank, {Dtype::i32, Dtype::i64}, place);
    if (is_truth(kind)) return ops::read(given, name, rank, {Dtype::u8, Dtype::i32, Dtype::f32}, place);
    if (problem_.shape.exact && (kind == Reduction::sum || kind == Reduction::dot))
      return ops::read(given, name, rank, {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i32}, place);
    return ops::read(given, name, rank, {Dtype::f32, Dtype::f16, Dtype::bf16}, place);
  }
  void read_out(int i) {
    if (out_of(i) == nullptr) return;
    const char* name = kOutNames[i];
    int kept = 0;
    for (int d = 0; d < x_.rank; ++d) kept += !reduced(d);
    // A tensor without dimensions is one of a single element.
    static constexpr std::int64_t kOne = 1;
    DLTensor given = *out_of(i);
    if (kept == 0 && given.ndim == 0)
      given.ndim = 1, given.shape = const_cast<std::int64_t*>(&kOne), given.strides = nullptr;
    const bool all = given.ndim == x_.rank, single = kept == 0 && given.ndim == 1;
    if (!all && !single && given.ndim != kept) refuse_rank(name, given.ndim, kept);
    const Tensor out = read_either_way(given, name, [&](const DLTensor& forwards) {
      const Tensor t = read_result(&forwards, name, given.ndim, kind(i));
      expect_apart(t, name);
      return t;
    });
    for (int d = 0, at = 0; d < x_.rank; ++d) {
      if (reduced(d) && (!all || single)) continue;
      const int of = all ? d : at++;
      expect_extent(out, name, of, reduced(d) ? 1 : x_.shape[d]);
      if (!reduced(d)) steps_[static_cast<std::size_t>(d)][static_cast<std::size_t>(i)] = out.strides[of];
    }
    if (single) expect_extent(out, name, 0, 1);
    expect_beside(out, name, x_, "x");
    if (problem_.shape.y) expect_beside(out, name, y_, "y");
    for (int j = 0; j < i; ++j) {
      if (out.data != nullptr && out.data == result(j))
        refuse(std::string(name) + " is " + kOutNames[j] + "; only one can be written there");
    }
    if (out.dtype == Dtype::i32 && after_of(i) != nullptr)
      refuse(std::string(kAfterNames[i]) + " is given; it must be NULL where " + name + " is int32");
    out_dtype(i) = out.dtype;
    result(i) = out.data;
  }

  void take_dims() {
    for (int d = x_.rank - 1; d >= 0; --d) {
      if (x_.shape[d] == 1) continue;
      Dim dim{x_.shape[d], x_.strides[d], problem_.shape.y ? y_.strides[d] : 0, steps_[static_cast<std::size_t>(d)]};
      // Places are counted in the order of the axes.
      if (dim.x < 0 && dim.extent > 0 && !(reduced(d) && any_place_)) turn(dim);
      (reduced(d) ? reduced_ : kept_).add(dim);
    }
    problem_.params.x = x_.data, problem_.params.y = y_.data;
    kept_.sort();
    if (!any_place_) reduced_.sort();
    kept_.merge(), reduced_.merge();
    if (kept_.product() > kMost || (kept_.count > 0 && kept_[0].extent > kMost))
      refuse_extent("x", 0, x_.shape[0], "at most 2^31 - 1 results in all");
    if (kept_.count > 0 && kept_.product() == 0) kept_.count = 1, kept_[0].extent = 0;
    // A row of nothing is no run.
    if (reduced_.count > 0 && reduced_.product() == 0) reduced_.count = 1, reduced_[0] = {0, 1, 1, {}};
  }

  // A dimension that x runs through backwards, from its other end.
  void turn(Dim& dim) {
    const auto move = [&](auto* data, std::int64_t& stride, Dtype dtype) {
      if (data != nullptr) data += (dim.extent - 1) * stride * bytes_of(dtype);
      stride = -stride;
      return data;
    };
    x_.data = move(x_.data, dim.x, x_.dtype), y_.data = move(y_.data, dim.y, x_.dtype);
    for (int i = 0; i < kResults; ++i) {
      void*& out = result(i);
      out = move(static_cast<std::uint8_t*>(out), dim.out[static_cast<std::size_t>(i)], out_dtype(i));
    }
  }

  static bool by_vectors(const Dims& reduced, std::int64_t vector) {
    return reduced.count > 0 && reduced[0].x == 1 && (reduced.count == 1 || reduced[0].extent >= vector);
  }
  // Whether the data and all strides but the innermost one's keep vectors of x aligned, by columns those of y too.
  bool aligned(const Dims& inner, const Dims& other) const {
    return aligned(inner, other, x_.data, &Dim::x) && (problem_.shape.way == Way::rows || !problem_.shape.y ||
                                                       (inner[0].y == 1 && aligned(inner, other, y_.data, &Dim::y)));
  }
  // Whether neighbouring rows' elements are whole vectors wherever they are.
  bool lie_in_vectors(std::int64_t extent, std::int64_t vector) const {
    return extent % vector == 0 && aligned(kept_, reduced_, nullptr, &Dim::x) &&
           (!problem_.shape.y || (kept_[0].y == 1 && aligned(kept_, reduced_, nullptr, &Dim::y)));
  }
  bool aligned(const Dims& inner, const Dims& other, const void* data, std::int64_t Dim::* stride) const {
    const std::int64_t bytes = bytes_of(x_.dtype);
    bool all = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
    for (int i = 1; i < inner.count; ++i) all = all && inner[i].*stride * bytes % 16 == 0;
    for (int i = 0; i < other.count; ++i) all = all && other[i].*stride * bytes % 16 == 0;
    return all;
  }

  void plan() {
    Shape& shape = problem_.shape;
    q::ReduceParams& p = problem_.params;
    const std::int64_t vector = 16 / bytes_of(x_.dtype), elements = reduced_.product();
    p.count = static_cast<float>(elements);
    p.rows = static_cast<std::int32_t>(kept_.product());
    p.kept_dims = kept_.count, p.reduced_dims = reduced_.count;
    shape.vectors = by_vectors(reduced_, vector);
    // Where nothing is joined, each thread takes a vector, or else an element.
    if (!shape.vectors && kept_.count > 0 && kept_[0].x == 1 &&
        ((elements != 1 && kept_[0].extent >= kFewColumns) || lie_in_vectors(kept_[0].extent, vector)))
      shape.way = Way::columns;
    shape.segments = reduced_.count > 1;
    const bool rows = shape.way == Way::rows;
    shape.vectors = shape.vectors || !rows;
    const Dim run = reduced_.count > 0 ? reduced_[0] : Dim{};
    const std::int64_t each = rows && shape.vectors ? vector : 1, segments = run.extent > 0 ? elements / run.extent : 0;
    // A row that begins within a vector may reach into one more. Which kernel takes it is not a matter of that.
    const std::int64_t nominal = segments * ((run.extent + each - 1) / each);
    const std::int64_t steps = (run.extent + (each > 1 && !aligned(reduced_, kept_) ? each - 1 : 0) + each - 1) / each;
    const std::int64_t length = segments * steps;
    if (length > kLongestRow)
      refuse("x has rows of " + std::to_string(elements) + " elements; allowed: at most 2^31 - 2^16, and " +
             std::to_string(vector) + " times as many where they lie beside each other");
    p.run = run.extent;
    p.steps = divisor(static_cast<std::int32_t>(std::clamp<std::int64_t>(steps, 1, kMost)));
    p.length = static_cast<std::int32_t>(length);
    // By rows: every vector of every segment is whole.
    p.aligned = rows ? shape.vectors && run.extent % vector == 0 && aligned(reduced_, kept_) &&
                           (!shape.y || (run.y == 1 && aligned(reduced_, kept_, y_.data, &Dim::y)))
                     : aligned(kept_, reduced_);
    if (rows) fit_team(shape, nominal);
    if (!rows) {
      shape.at_once = 4;
      const int most = nominal <= kShortColumn ? kShortAcross : kMostAcross;
      shape.team = kept_[0].extent >= kFewColumns ? most : std::min(most, threads_across(kept_[0].extent, vector));
    }
    // Fewer threads beside each other are more below each other.
    const int down = rows ? 1 : kMostAcross / shape.team;
    const bool long_column = !rows && nominal >= kLongColumn * down;
    cut(nominal, rows ? kWholeRow : kWholeColumn * down,
        rows ? kRowPiece : (long_column ? kLongColumnPiece : kColumnPiece) * down,
        rows ? kMostRowPieces : kMostColumnPieces, rows ? kRowStep : kColumnStep * down);
    // Shorter columns have room, too, those whose pieces are shorter among them.
    if (long_column) problem_.most_pieces = std::max(problem_.most_pieces, kLongColumn / kColumnPiece);
    const std::int64_t columns = shape.team * vector, teams = q::kReduceThreads / shape.team;
    const std::int64_t together = p.pieces == 1 ? teams : 1;
    problem_.units =
        p.pieces * (rows          ? (p.rows + together - 1) / together
                    : p.rows == 0 ? 0
                                  : p.rows / kept_[0].extent * ((kept_[0].extent + columns - 1) / columns));
    const bool whole_block = rows && shape.team == q::kReduceThreads;
    const bool even = rows && p.aligned != 0 && reduced_.count == 1 && kept_.count <= 1 &&
                      (args_.max_sms == 0 || problem_.units <= problem_.sms) &&
                      std::int64_t{p.rows} * p.pieces <= kMost - q::kReduceThreads;
    const std::int64_t blocks = resident_units(problem_.units, shape);
    if (even && p.pieces == 1) p.brief = q::kReduceOnce;
    if (even && whole_block && (p.pieces > 1 || blocks < problem_.units))
      p.brief = q::kReduceOneByOne, problem_.units = blocks;
    p.by_pieces = divisor(p.pieces);
    plan_few(elements, nominal, vector);
    finish();
  }

  // A few elements of each column are a thread's own, where rows are whole vectors wherever they are. Neither that nor,
  // where each row is one element, whether it goes by columns is a matter of what is reduced alone: all that a call
  // with other extents of what is kept has instead is readied, too.
  void plan_few(std::int64_t elements, std::int64_t nominal, std::int64_t vector) {
    Shape& shape = problem_.shape;
    q::ReduceParams& p = problem_.params;
    problem_.others.fill(shape);
    const bool by_rows = shape.way == Way::rows, may_go_down = kept_.count > 0 && kept_[0].x == 1;
    if (reduced_.count > 1 || nominal > kFewElements || !may_go_down || by_vectors(reduced_, vector)) return;
    if (by_rows && elements != 1) return;
    Shape columns = shape;
    if (elements == 1) {
      Shape& rows = problem_.others[3];
      rows.way = Way::rows, rows.vectors = false;
      fit_team(rows, 1);
      columns.way = Way::columns, columns.vectors = true, columns.at_once = 4, columns.team = kShortAcross;
      problem_.others[2] = columns;
    }
    const bool narrow = p.rows <= kFewColumnsEach * problem_.sms;
    const Shape few = of_few(columns, narrow);
    problem_.others[0] = few, problem_.others[1] = of_few(columns, !narrow);
    const std::int64_t block = std::int64_t{q::kReduceFewThreads} * few.team;  // columns
    // Of columns the sum is another one, to the bit: what they are must not depend on how many there are.
    const bool may = elements == 1 || (args_.flags & QUERN_CALL_BATCH_INVARIANT) == 0;
    if (by_rows || !may || kept_.count > 2 || kept_[0].extent % vector != 0 || p.aligned == 0 || p.rows > kMost - block)
      return;
    std::swap(shape, problem_.others[0]);
    problem_.units = (p.rows + block - 1) / block;
  }

  // The strides, as kernels take them.
  void finish() {
    q::ReduceParams& p = problem_.params;
    for (int i = 0; i < kept_.count; ++i) {
      q::KeptDim& to = p.kept[i];
      to = {divisor(static_cast<std::int32_t>(std::max<std::int64_t>(kept_[i].extent, 1))), kept_[i].x, kept_[i].y, {}};
      std::copy(kept_[i].out.begin(), kept_[i].out.end(), to.out);
    }
    for (int i = 0; i < reduced_.count; ++i) {
      // Nothing is divided by the innermost extent where it is the run.
      const std::int64_t extent = std::clamp<std::int64_t>(reduced_[i].extent, 1, kMost);
      p.reduced[i] = {divisor(static_cast<std::int32_t>(extent)), reduced_[i].x, reduced_[i].y};
    }
    if (reduced_.count == 0) p.reduced[0] = {divisor(1), 0, 0};
  }

  // Where there are many rows, blocks that are all there at once, of as many rows each.
  std::int64_t resident_units(std::int64_t rows, const Shape& shape) const {
    const std::int64_t room = std::int64_t{problem_.sms} * blocks_per_sm(shape), rounds = (rows + room - 1) / room;
    return rounds < kManyRounds ? rows : (rows + rounds - 1) / rounds;
  }

  // A row's pieces. How many there are is a matter of the row alone.
  void cut(std::int64_t nominal, std::int64_t whole, std::int64_t least, std::int64_t most, std::int64_t step) {
    q::ReduceParams& p = problem_.params;
    p.pieces = 1, p.piece = std::max(p.length, 1);
    if (nominal <= whole) return;
    const std::int64_t pieces = std::min((nominal + least - 1) / least, most);
    problem_.most_pieces = pieces;
    const std::int64_t piece = (p.length + pieces - 1) / pieces;
    p.piece = static_cast<std::int32_t>(std::min((piece + step - 1) / step * step, kMost));
    p.pieces = static_cast<std::int32_t>((std::int64_t{p.length} + p.piece - 1) / p.piece);
  }

  const quern_reduce_args& args_;
  const Call& call_;
  Problem problem_{};
  Tensor x_, y_;
  Dims kept_, reduced_;
  std::array<std::array<std::int64_t, kResults>, q::kReduceDims> steps_{};  // of the results, by x's dimensions
  std::uint32_t axes_ = 0;
  bool any_place_ = false;
};

}  // namespace

Problem read_problem(const quern_reduce_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call =
      read_call(runtime, args, QUERN_REDUCE_F16_SUMS, "enum quern_call_flags and quern_reduce_flags", 4, may_lack_data);
  return Reader(args, call).read();
}

}  // namespace quern::ops::reduce
