// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/combining.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/rewriter.h"

namespace lockstep::sharding {
namespace {

/// The properties that collectives must have in common to be one.
using Key = std::tuple<const ir::Primitive*, std::vector<std::string>, DType, bool>;

/// The integer dtype with the bits of these elements, for operations that only move them; bools and complex
/// numbers are unchanged.
DType bits_of(DType dtype) {
  const DTypeKind kind = info(dtype).kind;
  if (kind == DTypeKind::kBool || kind == DTypeKind::kComplex) return dtype;
  switch (size_of(dtype)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

std::int64_t& at(Shape& shape, std::int64_t dimension) { return shape[static_cast<std::size_t>(dimension)]; }

class Combining {
 public:
  Combining(const ir::Program& program, const ir::AxisEnv& axes, const CombineOptions& options)
      : program_(program),
        axes_(axes),
        options_(options),
        rewriter_(program,
                  [this](const ir::Program& held) { return Combining(held, axes_, options_).run(); }),
        waits_(program.variables.size()) {}

  /// None where nothing changes.
  std::optional<ir::Program> run() {
    std::vector<std::size_t> left(program_.equations.size());
    std::iota(left.begin(), left.end(), 0);
    while (!left.empty()) left = wave(left);
    return rewriter_.finish();
  }

 private:
  struct Bucket {
    std::vector<std::size_t> members;  // places of equations
    std::int64_t bytes = 0;
  };

  /// Writes these equations, except those that need the result of a collective that waits to be combined, and
  /// those that depend on them; these are returned.
  std::vector<std::size_t> wave(const std::vector<std::size_t>& equations) {
    std::vector<std::size_t> later;
    bool effects_wait = false;
    std::int64_t gathered = 0;  // before its turn
    std::vector<Key> order;
    const auto wait = [&](std::size_t e) {
      set_waiting(program_.equations[e], true);
      later.push_back(e);
    };
    for (std::size_t e : equations) {
      const ir::Equation& equation = program_.equations[e];
      const bool effect = ir::has_effect(equation);
      if ((effect && effects_wait) ||
          std::ranges::any_of(equation.inputs, [&](ir::Var var) { return waits(var); })) {
        effects_wait = effects_wait || effect;
        wait(e);
        continue;
      }
      const bool gathers = equation.primitive == &ir::all_gather_p();
      std::optional<Key> key = key_of(equation);
      const std::int64_t bytes = key ? bytes_of(equation) : 0;
      if (gathers && gathered + bytes > options_.gathered_bytes) key.reset();
      if (!key) {
        if (gathers && (gathered > 0 || !later.empty()))
          wait(e);
        else
          rewriter_.keep(e);
        continue;
      }
      if (gathers) gathered += bytes;
      Bucket& bucket = buckets_[*key];
      if (bucket.bytes + bytes > options_.threshold_bytes) flush(bucket);
      if (bucket.members.empty() && std::ranges::find(order, *key) == order.end()) order.push_back(*key);
      bucket.members.push_back(e);
      bucket.bytes += bytes;
      set_waiting(equation, true);
    }
    for (const Key& key : order) flush(buckets_[key]);
    for (std::size_t e : later) set_waiting(program_.equations[e], false);
    return later;
  }

  bool waits(ir::Var var) const { return waits_[static_cast<std::size_t>(var)]; }
  void set_waiting(const ir::Equation& equation, bool waits) {
    for (ir::Var var : equation.outputs) waits_[static_cast<std::size_t>(var)] = waits;
  }

  std::int64_t bytes_of(const ir::Equation& equation) const {
    return std::max(program_.aval(equation.inputs[0]).bytes(), program_.aval(equation.outputs[0]).bytes());
  }

  /// nullopt if the equation is not a collective that can be combined.
  std::optional<Key> key_of(const ir::Equation& equation) const {
    const ir::Primitive* p = equation.primitive;
    std::vector<std::string> axes;
    if (p == &ir::psum_p() || p == &ir::pmax_p() || p == &ir::pmin_p()) {
      const auto& params = equation.params.as<ir::AxesParams>();
      if (params.groups) return std::nullopt;
      axes = params.axes;
      std::ranges::sort(axes);
    } else if (p == &ir::all_gather_p() || p == &ir::psum_scatter_p()) {
      const auto& params = equation.params.as<ir::GatherParams>();
      if (params.groups || params.again) return std::nullopt;
      axes = params.axes;
    } else {
      return std::nullopt;
    }
    const Aval& aval = program_.aval(equation.outputs[0]);
    const std::int64_t bytes = bytes_of(equation);
    if (axes_.size(axes) == 1 || bytes > options_.threshold_bytes || bytes == 0) return std::nullopt;
    if (p == &ir::all_gather_p()) return Key(p, std::move(axes), bits_of(aval.dtype), false);
    return Key(p, std::move(axes), aval.dtype, aval.weak_type);
  }

  ir::Value add(const ir::Primitive& primitive, ir::OpParams params, std::span<const ir::Value> operands,
                Aval result) {
    return rewriter_.add({.primitive = &primitive, .params = std::move(params), .site = site_}, operands,
                         std::move(result));
  }

  static Aval with_shape(Aval aval, Shape shape) {
    aval.shape = std::move(shape);
    return aval;
  }

  ir::Value in_dtype(const ir::Value& x, DType dtype, bool weak_type) {
    Aval aval = x.aval();
    if (aval.dtype == dtype) return x;
    aval.dtype = dtype;
    aval.weak_type = weak_type;
    return add(ir::bitcast_convert_type_p(), ir::OpParams::of(ir::BitcastParams{dtype}), {&x, 1},
               std::move(aval));
  }

  ir::Value reshaped(const ir::Value& x, Shape shape) {
    if (x.aval().shape == shape) return x;
    ir::OpParams params = ir::OpParams::of(ir::ReshapeParams{shape});
    return add(ir::reshape_p(), std::move(params), {&x, 1}, with_shape(x.aval(), std::move(shape)));
  }

  ir::Value transposed(const ir::Value& x, const std::vector<std::int64_t>& order) {
    if (std::ranges::is_sorted(order)) return x;
    Shape shape;
    for (std::int64_t d : order) shape.push_back(x.aval().shape[static_cast<std::size_t>(d)]);
    return add(ir::transpose_p(), ir::OpParams::of(ir::TransposeParams{order}), {&x, 1},
               with_shape(x.aval(), std::move(shape)));
  }

  /// 0, 1, ..., rank - 1 with dimension `from` taken out and put in as dimension `to`.
  static std::vector<std::int64_t> moving(std::size_t rank, std::int64_t from, std::int64_t to) {
    std::vector<std::int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, from);
    return order;
  }

  /// The data that a collective over n devices exchanges, in a shape that can be concatenated with others
  /// along the last dimension: for a reduction [elements], a reduce-scatter [n, elements], an all-gather [1,
  /// elements].
  ir::Value flat(const ir::Equation& equation, std::int64_t n) {
    const ir::Value x = rewriter_[equation.inputs[0]];
    const Shape& shape = x.aval().shape;
    const std::int64_t count = num_elements(shape);
    if (equation.primitive == &ir::all_gather_p()) return reshaped(x, {1, count});
    if (equation.primitive != &ir::psum_scatter_p()) return reshaped(x, {count});
    const std::int64_t d = equation.params.as<ir::GatherParams>().dimension;
    Shape parts = shape;
    at(parts, d) /= n;
    parts.insert(parts.begin() + d, n);
    const std::size_t rank = parts.size();
    return reshaped(d == 0 ? x : transposed(reshaped(x, std::move(parts)), moving(rank, d, 0)),
                    {n, count / n});
  }

  /// From the combined collective's result, that of one whose elements begin at `begin`.
  void unflatten(const ir::Equation& equation, std::int64_t n, const ir::Value& all, std::int64_t begin,
                 std::int64_t count) {
    const Aval& result = program_.aval(equation.outputs[0]);
    Shape shape = all.aval().shape;
    std::vector<std::int64_t> start(shape.size()), limit = shape, strides(shape.size(), 1);
    start.back() = begin;
    limit.back() = begin + count;
    shape.back() = count;
    ir::Value part = add(ir::slice_p(), ir::OpParams::of(ir::SliceParams{start, limit, strides}), {&all, 1},
                         with_shape(all.aval(), std::move(shape)));
    part = in_dtype(part, result.dtype, result.weak_type);
    if (equation.primitive == &ir::all_gather_p()) {
      Shape gathered = program_.aval(equation.inputs[0]).shape;
      gathered.insert(gathered.begin(), n);
      const std::size_t rank = gathered.size();
      const std::int64_t d = equation.params.as<ir::GatherParams>().dimension;
      part = transposed(reshaped(part, std::move(gathered)), moving(rank, 0, d));
    }
    rewriter_.replace(
        equation.outputs[0],
        add(ir::reshape_p(), ir::OpParams::of(ir::ReshapeParams{result.shape}), {&part, 1}, result));
  }

  void flush(Bucket& full) {
    const Bucket bucket = std::exchange(full, {});
    for (std::size_t e : bucket.members) set_waiting(program_.equations[e], false);
    if (bucket.members.size() == 1) rewriter_.keep(bucket.members.front());
    if (bucket.members.size() > 1) write_combined(bucket.members);
  }

  void write_combined(const std::vector<std::size_t>& members) {
    const ir::Equation& first = program_.equations[members.front()];
    const bool reduces = first.primitive != &ir::all_gather_p() && first.primitive != &ir::psum_scatter_p();
    const std::vector<std::string>& axes =
        reduces ? first.params.as<ir::AxesParams>().axes : first.params.as<ir::GatherParams>().axes;
    const std::int64_t n = axes_.size(axes);
    const bool is_mixed = std::ranges::any_of(members, [&](std::size_t e) {
      return program_.aval(program_.equations[e].inputs[0]).dtype != program_.aval(first.inputs[0]).dtype;
    });
    std::vector<ir::Value> parts;
    std::vector<std::int64_t> counts;
    std::string reason = fmt::format("{} in one:", members.size());
    for (std::size_t e : members) {
      const ir::Equation& equation = program_.equations[e];
      site_ = equation.site;
      ir::Value part = flat(equation, n);
      if (is_mixed) part = in_dtype(part, bits_of(part.aval().dtype), false);
      parts.push_back(part);
      counts.push_back(part.aval().shape.back());
      const Aval& aval = program_.aval(equation.inputs[0]);
      reason +=
          fmt::format("\n    {} at {}", to_string(Aval{aval.dtype, aval.shape}), equation.site.to_string());
      if (!equation.reason.empty()) reason += "\n      " + equation.reason;
    }
    site_ = first.site;
    Aval aval = parts.front().aval();
    const auto last = static_cast<std::int64_t>(aval.shape.size()) - 1;
    aval.shape.back() = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const ir::Value all =
        add(ir::concatenate_p(), ir::OpParams::of(ir::ConcatenateParams{last}), parts, aval);
    ir::Equation one = first;
    one.reason = std::move(reason);
    if (!reduces) {
      one.params = ir::OpParams::of(ir::GatherParams{axes, n, 0});
      at(aval.shape, 0) = first.primitive == &ir::all_gather_p() ? n : 1;
    }
    const ir::Value exchanged = rewriter_.add(std::move(one), {&all, 1}, std::move(aval));
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < members.size(); ++k) {
      site_ = program_.equations[members[k]].site;
      unflatten(program_.equations[members[k]], n, exchanged, begin, counts[k]);
      begin += counts[k];
    }
  }

  const ir::Program& program_;
  const ir::AxisEnv& axes_;
  const CombineOptions options_;
  ir::Rewriter rewriter_;
  std::vector<bool> waits_;  // which variables are not written yet
  std::map<Key, Bucket> buckets_;
  CallSite site_;  // of the equations that are written
};

}  // namespace

ir::Program combine_collectives(ir::Program program, const ir::AxisEnv& axes, const CombineOptions& options) {
  if (options.threshold_bytes == 0) return program;
  return rewritten(std::move(program),
                   [&](const ir::Program& outermost) { return Combining(outermost, axes, options).run(); });
}

}  // namespace lockstep::sharding
