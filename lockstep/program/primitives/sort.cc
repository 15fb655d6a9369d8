// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/sort.h"

#include <fmt/ranges.h>

#include <cmath>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/sort_of_parts.h"
#include "lockstep/sorting/sorting.h"

namespace lockstep::ir {
namespace {

std::vector<Aval> sort_shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& p = params.as<SortParams>();
  rules::same_shapes(inputs);
  if (p.dimension < 0 || p.dimension >= inputs[0].rank()) {
    fail<ShapeError>("expected a dimension of {}, got {}", to_string(inputs[0]), p.dimension);
  }
  if (p.num_keys < 1 || p.num_keys > static_cast<std::int64_t>(inputs.size())) {
    fail<ShapeError>("expected 1 to {} keys, the number of operands, got {}", inputs.size(), p.num_keys);
  }
  std::vector<Aval> results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = inputs[i].shape;
    std::int64_t& size = shape[static_cast<std::size_t>(p.dimension)];
    if (p.count < SortParams::kAll || p.count > size) {
      fail<ShapeError>("expected 0 to {} elements of dimension {} of {}, got {}", size, p.dimension,
                       to_string(inputs[i]), p.count);
    }
    if (p.count != SortParams::kAll) size = p.count;
    results.push_back(rules::with_shape(inputs[i], std::move(shape)));
  }
  return results;
}

std::vector<Value> sorted(std::span<const Value> operands, SortParams params, std::int64_t count) {
  params.count = std::min(count, operands[0].aval().shape[static_cast<std::size_t>(params.dimension)]);
  return apply_primitive(sort_p(), OpParams::of(params), operands);
}

/// If only the first elements are wanted, each device sends the others the first of its own part; the first
/// of these are those of the whole. All elements are sorted by merges of parts (sort_of_parts.h).
ShardingRule sort_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                           const OpParams& params) {
  const auto& p = params.as<SortParams>();
  ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
  const auto along = static_cast<std::size_t>(p.dimension);
  const std::int64_t size = inputs[0].shape[along], count = p.count;
  const auto factor = static_cast<int>(along);
  for (auto& dims : rule.operands) dims[along] = factor;
  rule.factors[along].size = size;
  if (count == SortParams::kAll || count == size) {
    for (auto& dims : rule.results) dims[along] = factor;
    rule.factors[along].may_move = true;
    rule.factors[along].exchanged = [=, n = inputs.size()](std::size_t operand, std::int64_t parts) {
      return exchanged_by_sort(p, operand, n, size, parts);
    };
    rule.write = [=](const OpParams& local, std::span<const Value> operands, const PartPlaces& places) {
      const auto& own = local.as<SortParams>();
      return places.is_split(factor) ? sort_of_parts(own, operands, places, factor)
                                     : apply_primitive(sort_p(), local, operands);
    };
    return rule;
  }
  for (auto& dims : rule.results) dims[along] = ShardingRule::kWhole;
  rule.factors[along].is_completed = true;
  rule.factors[along].exchanged = [=](std::size_t, std::int64_t parts) {
    return Exchanged{(parts - 1) * std::min(count, size / parts), 1};
  };
  rule.write = [=](const OpParams& local, std::span<const Value> operands, const PartPlaces& places) {
    const auto& own = local.as<SortParams>();
    std::vector<Value> first = sorted(operands, own, count);
    if (!places.is_split(factor)) return first;
    for (Value& each : first) each = places.all_gather(each, along, factor);
    return sorted(first, own, count);
  };
  return rule;
}

/// Writes the region that compares two elements: whether the first comes before the second.
class Comparator {
 public:
  Comparator(const std::vector<DType>& dtypes, const SortParams& params) {
    for (std::size_t i = 0; i < dtypes.size(); ++i) {
      const std::string type = mlir_type(dtypes[i], {});
      text_ += fmt::format("{}%x{}: {}, %y{}: {}", i == 0 ? "^bb0(" : ", ", i, type, i, type);
    }
    text_ += "):";
    std::string before;
    for (std::int64_t k = params.num_keys - 1; k >= 0; --k) {
      const DType dtype = dtypes[static_cast<std::size_t>(k)];
      std::string x = fmt::format("%x{}", k), y = fmt::format("%y{}", k);
      if (params.descending) std::swap(x, y);
      std::string less = is_less(x, y, dtype);
      if (!before.empty()) less = logic("or", less, logic("and", same(x, y, dtype), before));
      before = less;
    }
    text_ += fmt::format(" \"stablehlo.return\"({}) : (tensor<i1>) -> ()", before);
  }

  const std::string& text() const { return text_; }

 private:
  std::string fresh() { return fmt::format("%c{}", next_++); }

  std::string compare(const std::string& x, const std::string& y, std::string_view direction, DType dtype) {
    std::string result = fresh();
    text_ += fmt::format(
        " {0} = \"stablehlo.compare\"({1}, {2}) {{comparison_direction = #stablehlo<comparison_direction "
        "{3}>}} : ({4}, {4}) -> tensor<i1>",
        result, x, y, direction, mlir_type(dtype, {}));
    return result;
  }

  std::string logic(std::string_view op, const std::string& a, const std::string& b) {
    std::string result = fresh();
    text_ += fmt::format(" {} = \"stablehlo.{}\"({}, {}) : (tensor<i1>, tensor<i1>) -> tensor<i1>", result,
                         op, a, b);
    return result;
  }

  std::string part(std::string_view op, const std::string& x, DType dtype) {
    std::string result = fresh();
    text_ += fmt::format(" {} = \"stablehlo.{}\"({}) : ({}) -> {}", result, op, x, mlir_type(dtype, {}),
                         mlir_type(real_dtype(dtype), {}));
    return result;
  }

  /// x < y, or y alone is NaN. Of complex numbers the real parts are compared first.
  std::string is_less(const std::string& x, const std::string& y, DType dtype) {
    if (is_complex(dtype)) {
      const DType parts = real_dtype(dtype);
      const std::string a = part("real", x, dtype), b = part("real", y, dtype);
      const std::string behind = is_less(part("imag", x, dtype), part("imag", y, dtype), parts);
      return logic("or", is_less(a, b, parts), logic("and", same(a, b, parts), behind));
    }
    const std::string less = compare(x, y, "LT", dtype);
    if (!is_floating(dtype)) return less;
    return logic("or", less, logic("and", compare(x, x, "EQ", dtype), compare(y, y, "NE", dtype)));
  }

  /// x == y, or both are NaN.
  std::string same(const std::string& x, const std::string& y, DType dtype) {
    if (is_complex(dtype)) {
      const DType parts = real_dtype(dtype);
      return logic("and", same(part("real", x, dtype), part("real", y, dtype), parts),
                   same(part("imag", x, dtype), part("imag", y, dtype), parts));
    }
    const std::string equal = compare(x, y, "EQ", dtype);
    if (!is_floating(dtype)) return equal;
    return logic("or", equal, logic("and", compare(x, x, "NE", dtype), compare(y, y, "NE", dtype)));
  }

  std::string text_;
  int next_ = 0;
};

/// Whether lockstep/sorting/ sorts: on CPUs, where there are so many elements that they repay the call.
bool is_sorted_by_call(Lowering& out, const Equation& e) {
  const auto& p = e.params.as<SortParams>();
  constexpr std::int64_t kFewest = 256;  // elements
  std::vector<DType> keys;
  for (std::int64_t k = 0; k < p.num_keys; ++k)
    keys.push_back(out.operand_aval(e, static_cast<std::size_t>(k)).dtype);
  const Aval& key = out.operand_aval(e, 0);
  return out.for_cpu() && key.num_elements() >= kFewest && out.result_aval(e).num_elements() > 0 &&
         sorting::sorts(keys, key.shape[static_cast<std::size_t>(p.dimension)]);
}

/// n log2 n, as XLA counts them.
double comparisons(std::span<const Aval> inputs, std::span<const Aval>, const OpParams&) {
  const auto n = static_cast<double>(inputs[0].num_elements());
  return n < 2 ? n : n * std::ceil(std::log2(n));
}

/// Sorts once more, with the elements' places, and takes the tangents from there.
Tangents sort_jvp(const JvpCall& call) {
  const auto& p = call.params.as<SortParams>();
  Tangents out(call.inputs.size());
  if (std::ranges::none_of(call.tangents, [](const auto& t) { return t.has_value(); })) return out;
  const Shape shape = call.inputs[0].aval().shape;
  if (num_elements(shape) == 0) return out;
  std::vector<Value> operands(call.inputs.begin(), call.inputs.begin() + p.num_keys);
  operands.push_back(lax::iota(call.inputs[0], place_dtype(shape[static_cast<std::size_t>(p.dimension)]),
                               shape, p.dimension));
  const Value places =
      lax::first_sorted(std::span<const Value>(operands), p.dimension, p.count, p.num_keys, p.descending)
          .back();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (call.tangents[i]) {
      out[i] =
          lax::take_along_axis(*call.tangents[i], places, p.dimension, GatherScatterMode::kPromiseInBounds);
    }
  }
  return out;
}

}  // namespace

const Primitive& sort_p() {
  static const Primitive p = {
      .name = "sort",
      .shape = sort_shape,
      .sharding = sort_sharding,
      .jvp = sort_jvp,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        SortParams p = call.params.as<SortParams>();
        ++p.dimension;
        std::vector<Value> operands;
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          operands.push_back(call.batched[i] ? call.inputs[i]
                                             : rules::broadcast_leading(call.inputs[i], call.size));
        }
        return call.builder.emit(sort_p(), OpParams::of(p), operands);
      },
      .flops = comparisons,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<SortParams>();
        if (is_sorted_by_call(out, e))
          return out.library_call(
              sorting::kSortTarget, e,
              fmt::format("dimension = {} : i64, num_keys = {} : i64, descending = {:d} : i64", p.dimension,
                          p.num_keys, p.descending));
        std::vector<std::string> operands, types, names;
        std::vector<DType> dtypes;
        const std::string result = out.fresh();
        for (std::size_t i = 0; i < e.inputs.size(); ++i) {
          operands.push_back(out.operand(e, i));
          types.push_back(out.operand_type(e, i));
          dtypes.push_back(out.operand_aval(e, i).dtype);
          names.push_back(e.inputs.size() == 1 ? result : fmt::format("{}#{}", result, i));
        }
        out.line(fmt::format(
            "{}{} = \"stablehlo.sort\"({}) ({{{}}}) {{dimension = {} : i64, is_stable = {}}} : ({}) -> ({})",
            result, e.inputs.size() == 1 ? "" : fmt::format(":{}", e.inputs.size()),
            fmt::join(operands, ", "), Comparator(dtypes, p).text(), p.dimension, p.is_stable,
            fmt::join(types, ", "), fmt::join(types, ", ")));
        if (p.count == SortParams::kAll) return names;
        const Shape& all = out.operand_aval(e, 0).shape;
        for (std::size_t i = 0; i < names.size(); ++i)
          names[i] = out.slice(names[i], dtypes[i], all, Shape(all.size()), out.result_aval(e, i).shape);
        return names;
      },
  };
  return p;
}

}  // namespace lockstep::ir
