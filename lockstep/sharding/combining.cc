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
#include "lockstep/sharding/held_programs.h"

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
      : program_(program), axes_(axes), options_(options), waits_(program.variables.size()) {}

  /// `self` is the program that `given` knows it by; null: the outermost.
  ir::Program run(const ir::Program* self, const CommunicationReasons& given) {
    self_ = self;
    given_ = &given;
    result_ = program_;
    result_.equations.clear();
    std::vector<std::size_t> left(program_.equations.size());
    std::iota(left.begin(), left.end(), 0);
    while (!left.empty()) left = wave(left);
    return std::move(result_);
  }

  /// The reasons of the written equations, by their places; and of those in the programs that they hold.
  std::map<std::size_t, std::string> reasons;
  CommunicationReasons reasons_within;

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
          write(e);
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

  /// Writes an equation as it is, with its reason.
  void write(std::size_t e) {
    ir::Equation equation = program_.equations[e];
    rewrite_held(equation, reasons_within, [&](const ir::Program& held, CommunicationReasons& found) {
      Combining inner(held, axes_, options_);
      ir::Program combined = inner.run(&held, *given_);
      found = std::move(inner.reasons_within);
      for (auto& [place, reason] : inner.reasons) found[{nullptr, place}] = std::move(reason);
      return std::optional(std::move(combined));
    });
    if (auto reason = given_->find({self_, e}); reason != given_->end())
      reasons[result_.equations.size()] = reason->second;
    result_.equations.push_back(std::move(equation));
  }

  ir::Var add(const ir::Primitive& primitive, ir::OpParams params, std::vector<ir::Var> inputs, Shape shape,
              ir::Var like, std::optional<ir::Var> to = std::nullopt) {
    if (!to) {
      Aval aval = result_.aval(like);
      aval.shape = std::move(shape);
      to = static_cast<ir::Var>(result_.variables.size());
      result_.variables.push_back(std::move(aval));
    }
    result_.equations.push_back({&primitive, std::move(params), std::move(inputs), {*to}, site_});
    return *to;
  }

  ir::Var in_dtype(ir::Var var, const Aval& like) {
    const Aval& from = result_.aval(var);
    if (from.dtype == like.dtype) return var;
    Aval aval = from;
    aval.dtype = like.dtype;
    aval.weak_type = like.weak_type;
    const auto to = static_cast<ir::Var>(result_.variables.size());
    result_.variables.push_back(std::move(aval));
    result_.equations.push_back(
        {&ir::bitcast_convert_type_p(), ir::OpParams::of(ir::BitcastParams{like.dtype}), {var}, {to}, site_});
    return to;
  }

  ir::Var reshaped(ir::Var var, Shape shape, std::optional<ir::Var> to = std::nullopt) {
    if (!to && result_.aval(var).shape == shape) return var;
    ir::OpParams params = ir::OpParams::of(ir::ReshapeParams{shape});
    return add(ir::reshape_p(), std::move(params), {var}, std::move(shape), var, to);
  }

  ir::Var transposed(ir::Var var, const std::vector<std::int64_t>& order) {
    if (std::ranges::is_sorted(order)) return var;
    Shape shape;
    for (std::int64_t d : order) shape.push_back(result_.aval(var).shape[static_cast<std::size_t>(d)]);
    return add(ir::transpose_p(), ir::OpParams::of(ir::TransposeParams{order}), {var}, std::move(shape), var);
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
  ir::Var flat(const ir::Equation& equation, std::int64_t n) {
    const ir::Var var = equation.inputs[0];
    Shape shape = program_.aval(var).shape;
    const std::int64_t count = num_elements(shape);
    if (equation.primitive == &ir::all_gather_p()) return reshaped(var, {1, count});
    if (equation.primitive != &ir::psum_scatter_p()) return reshaped(var, {count});
    const std::int64_t d = equation.params.as<ir::GatherParams>().dimension;
    Shape parts = shape;
    at(parts, d) /= n;
    parts.insert(parts.begin() + d, n);
    const std::size_t rank = parts.size();
    return reshaped(d == 0 ? var : transposed(reshaped(var, std::move(parts)), moving(rank, d, 0)),
                    {n, count / n});
  }

  /// From the combined collective's result, that of one whose elements begin at `begin`.
  void unflatten(const ir::Equation& equation, std::int64_t n, ir::Var all, std::int64_t begin,
                 std::int64_t count) {
    const ir::Var to = equation.outputs[0];
    Shape shape = result_.aval(all).shape;
    std::vector<std::int64_t> start(shape.size()), limit = shape, strides(shape.size(), 1);
    start.back() = begin;
    limit.back() = begin + count;
    shape.back() = count;
    ir::Var part = add(ir::slice_p(), ir::OpParams::of(ir::SliceParams{start, limit, strides}), {all},
                       std::move(shape), all);
    part = in_dtype(part, program_.aval(to));
    if (equation.primitive == &ir::all_gather_p()) {
      Shape gathered = program_.aval(equation.inputs[0]).shape;
      gathered.insert(gathered.begin(), n);
      const std::size_t rank = gathered.size();
      const std::int64_t d = equation.params.as<ir::GatherParams>().dimension;
      part = transposed(reshaped(part, std::move(gathered)), moving(rank, 0, d));
    }
    reshaped(part, program_.aval(to).shape, to);
  }

  void flush(Bucket& full) {
    const Bucket bucket = std::exchange(full, {});
    for (std::size_t e : bucket.members) set_waiting(program_.equations[e], false);
    if (bucket.members.size() == 1) write(bucket.members.front());
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
    std::vector<ir::Var> parts;
    std::vector<std::int64_t> counts;
    std::string reason = fmt::format("{} in one:", members.size());
    for (std::size_t e : members) {
      const ir::Equation& equation = program_.equations[e];
      site_ = equation.site;
      parts.push_back(flat(equation, n));
      if (is_mixed) {
        const Aval& aval = result_.aval(parts.back());
        parts.back() = in_dtype(parts.back(), {bits_of(aval.dtype), {}});
      }
      counts.push_back(result_.aval(parts.back()).shape.back());
      const Aval& aval = program_.aval(equation.inputs[0]);
      reason +=
          fmt::format("\n    {} at {}", to_string(Aval{aval.dtype, aval.shape}), equation.site.to_string());
      if (auto own = given_->find({self_, e}); own != given_->end()) reason += "\n      " + own->second;
    }
    site_ = first.site;
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Shape shape = result_.aval(parts.front()).shape;
    shape.back() = total;
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    const ir::Var all =
        add(ir::concatenate_p(), ir::OpParams::of(ir::ConcatenateParams{last}), parts, shape, parts.front());
    reasons[result_.equations.size()] = std::move(reason);
    if (!reduces) at(shape, 0) = first.primitive == &ir::all_gather_p() ? n : 1;
    const ir::Var exchanged =
        add(*first.primitive, reduces ? first.params : ir::OpParams::of(ir::GatherParams{axes, n, 0}), {all},
            shape, all);
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
  const ir::Program* self_ = nullptr;
  const CommunicationReasons* given_ = nullptr;
  ir::Program result_;
  std::vector<bool> waits_;  // which variables are not written yet
  std::map<Key, Bucket> buckets_;
  CallSite site_;  // of the equations that are written
};

}  // namespace

ir::Program combine_collectives(const ir::Program& program, const ir::AxisEnv& axes,
                                const CombineOptions& options, CommunicationReasons& reasons) {
  if (options.threshold_bytes == 0) return program;
  Combining combining(program, axes, options);
  ir::Program result = combining.run(nullptr, reasons);
  reasons = std::move(combining.reasons_within);
  for (auto& [place, reason] : combining.reasons) reasons[{nullptr, place}] = std::move(reason);
  return result;
}

}  // namespace lockstep::sharding
