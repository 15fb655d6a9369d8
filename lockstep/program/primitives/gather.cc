// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/gather.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/indexed_dims.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using Integers = std::vector<std::int64_t>;

GatherDimensionNumbers numbers_of(const SliceGatherParams& p) {
  return {p.offset_dims, p.collapsed_slice_dims, p.start_index_map, p.operand_batching_dims,
          p.start_indices_batching_dims};
}

std::vector<Aval> gather_shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& p = params.as<SliceGatherParams>();
  const Aval &operand = inputs[0], &indices = inputs[1];
  const GatherDimensionNumbers numbers = numbers_of(p);
  indexed::check(operand, indices, numbers);
  rules::check_rank(p.slice_sizes.size(), operand, "one slice size");
  for (std::size_t d = 0; d < p.slice_sizes.size(); ++d) {
    if (p.slice_sizes[d] < 0 || p.slice_sizes[d] > operand.shape[d]) {
      fail<ShapeError>("expected slice sizes within {}, got {}", to_string(operand),
                       to_string(p.slice_sizes));
    }
    const auto dim = static_cast<std::int64_t>(d);
    if ((indexed::contains(p.collapsed_slice_dims, dim) || indexed::contains(p.operand_batching_dims, dim)) &&
        p.slice_sizes[d] != 1) {
      fail<ShapeError>("expected slice size 1 in dimension {} of {}, which is collapsed or batching, got {}",
                       d, to_string(operand), p.slice_sizes[d]);
    }
  }
  const Integers windows = indexed::window_dims(operand.rank(), numbers);
  const std::size_t rank = windows.size() + indices.shape.size() - 1;
  indexed::check_offsets(p.offset_dims, windows.size(), rank, "offset dimensions of the result");
  Shape shape(rank);
  std::size_t window = 0, batch = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    shape[d] = indexed::contains(p.offset_dims, static_cast<std::int64_t>(d))
                   ? p.slice_sizes[static_cast<std::size_t>(windows[window++])]
                   : indices.shape[batch++];
  }
  return {rules::with_shape(operand, std::move(shape))};
}

/// A dimension of the operand that is indexed, one element at a time: which number of the index vector does,
/// and the factor that splits it.
struct IndexedDim {
  std::size_t number;
  int factor;
  std::int64_t size;
};

/// A device's contribution to a gather whose operand is split along an indexed dimension: zeros except for
/// elements of its part.
std::vector<Value> gather_of_part(const OpParams& params, std::span<const Value> operands,
                                  const PartPlaces& places, const std::vector<IndexedDim>& split_dims) {
  const auto& p = params.as<SliceGatherParams>();
  const Aval whole = operands[1].aval();
  Value indices = operands[1];
  std::optional<Value> is_here;
  for (const IndexedDim& dim : split_dims) {
    if (!places.is_split(dim.factor)) continue;
    const auto parts = indexed::split_at(indices, static_cast<std::int64_t>(dim.number));
    // As the gather of the whole does, first to the nearest within.
    const Value one = lax::internal::clamped(*parts[1], {dim.size - 1}),
                start = lax::broadcast_in_dim(places.start(dim.factor, whole.dtype), one.aval().shape, {}),
                place = lax::sub(one, start);
    const std::int64_t size =
        operands[0].aval().shape[static_cast<std::size_t>(p.start_index_map[dim.number])];
    const Value here = lax::internal::within(place, {size - 1});
    is_here = is_here ? lax::logical_and(*is_here, here) : here;
    indices = indexed::joined(parts, place);
  }
  const Value taken = lax::apply1<Value>(gather_p(), params, {operands[0], indices});
  if (!is_here) return {taken};
  const Value shown = lax::broadcast_in_dim(*is_here, taken.aval().shape,
                                            indexed::batch_dims(taken.aval().rank(), p.offset_dims));
  return {lax::select(shown, taken, lax::full_like(taken, 0))};
}

ShardingRule gather_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                             const OpParams& params) {
  const auto& p = params.as<SliceGatherParams>();
  const GatherDimensionNumbers numbers = numbers_of(p);
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  const Integers windows = indexed::window_dims(inputs[0].rank(), numbers),
                 batch = indexed::batch_dims(outputs[0].rank(), p.offset_dims);
  auto factor = [&rule](std::int64_t size) {
    rule.factors.push_back({size});
    return static_cast<int>(rule.factors.size()) - 1;
  };
  for (std::size_t j = 0; j < batch.size(); ++j) {
    const int f = factor(inputs[1].shape[j]);
    rule.operands[1][j] = rule.results[0][static_cast<std::size_t>(batch[j])] = f;
    const auto it = std::ranges::find(p.start_indices_batching_dims, static_cast<std::int64_t>(j));
    if (it != p.start_indices_batching_dims.end()) {
      const auto at = static_cast<std::size_t>(it - p.start_indices_batching_dims.begin());
      rule.operands[0][static_cast<std::size_t>(p.operand_batching_dims[at])] = f;
    }
  }
  std::vector<IndexedDim> split_dims;
  for (std::size_t k = 0; k < p.start_index_map.size(); ++k) {
    const auto d = static_cast<std::size_t>(p.start_index_map[k]);
    if (!indexed::contains(p.collapsed_slice_dims, p.start_index_map[k])) continue;
    const bool bools = inputs[0].dtype == DType::kBool;
    rule.operands[0][d] = factor(inputs[0].shape[d]);
    rule.factors.back().combine = bools ? ShardingRule::Combine::kMax : ShardingRule::Combine::kSum;
    split_dims.push_back({k, rule.operands[0][d], inputs[0].shape[d]});
  }
  if (!split_dims.empty()) {
    rule.write = [split_dims](const OpParams& params, std::span<const Value> operands,
                              const PartPlaces& places) {
      return gather_of_part(params, operands, places, split_dims);
    };
  }
  Integers whole;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const auto d = static_cast<std::size_t>(windows[w]);
    if (p.slice_sizes[d] != inputs[0].shape[d]) continue;
    rule.operands[0][d] = rule.results[0][static_cast<std::size_t>(p.offset_dims[w])] =
        factor(p.slice_sizes[d]);
    whole.push_back(windows[w]);
  }
  rule.localize = [whole](const OpParams& params, const std::vector<Shape>& operands,
                          const std::vector<Shape>&) {
    SliceGatherParams p = params.as<SliceGatherParams>();
    for (std::int64_t d : whole)
      p.slice_sizes[static_cast<std::size_t>(d)] = operands[0][static_cast<std::size_t>(d)];
    return OpParams::of(p);
  };
  return rule;
}

/// The transpose of a gather that takes one element of each row, as take_along_axis with one index does:
/// compared with the index, element by element, it becomes a part of the code around it. nullopt for other
/// gathers.
std::optional<Value> transpose_of_one_in_each_row(const SliceGatherParams& p, const Value& ct,
                                                  const Value& indices, const Aval& operand) {
  const Shape& batch = indices.aval().shape;
  const Integers& rows = p.start_indices_batching_dims;
  const bool one_dim = p.offset_dims.empty() && p.start_index_map.size() == 1 &&
                       p.operand_batching_dims.size() + 1 == operand.shape.size();
  if (!one_dim || !std::ranges::is_sorted(rows) || !std::ranges::is_sorted(p.operand_batching_dims))
    return std::nullopt;
  Shape of_rows;
  for (std::size_t j = 0; j + 1 < batch.size(); ++j) {
    if (indexed::contains(rows, static_cast<std::int64_t>(j)))
      of_rows.push_back(batch[j]);
    else if (batch[j] != 1)
      return std::nullopt;
  }
  const std::int64_t dim = p.start_index_map.front(), size = operand.shape[static_cast<std::size_t>(dim)];
  const auto spread = [&](const Value& x) {
    return lax::broadcast_in_dim(lax::reshape(x, of_rows), operand.shape, p.operand_batching_dims);
  };
  const Value place = lax::iota(ct, indices.aval().dtype, operand.shape, dim);
  const Value is_there = lax::eq(place, spread(lax::internal::clamped(indices, {size - 1})));
  const Value value = spread(ct);
  return lax::select(is_there, value, lax::full_like(value, 0));
}

}  // namespace

Scalar default_fill(DType dtype) {
  switch (info(dtype).kind) {
    case DTypeKind::kBool:
      return Scalar::of(true);
    case DTypeKind::kUnsigned:
      return rules::extreme(dtype, 1);
    case DTypeKind::kSigned:
      return rules::extreme(dtype, -1);
    default:
      return Scalar::of(std::numeric_limits<double>::quiet_NaN());
  }
}

const Primitive& gather_p() {
  static const Primitive p = {
      .name = "gather",
      .shape = gather_shape,
      .sharding = gather_sharding,
      .jvp = rules::linear_jvp(gather_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const auto& p = call.params.as<SliceGatherParams>();
        const Value& ct = *call.cotangents[0];
        Tangents out(2);
        out[0] = transpose_of_one_in_each_row(p, ct, *call.operands[1].value, call.operands[0].aval);
        if (out[0]) return out;
        out[0] = lax::scatter_add(rules::zeros(ct, call.operands[0].aval), *call.operands[1].value, ct,
                                  {p.offset_dims, p.collapsed_slice_dims, p.start_index_map,
                                   p.operand_batching_dims, p.start_indices_batching_dims},
                                  GatherScatterMode::kClip);
        return out;
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        const auto& p = call.params.as<SliceGatherParams>();
        const GatherDimensionNumbers numbers =
            indexed::batched(numbers_of(p), call.batched[0], call.batched[1]);
        Shape sizes = p.slice_sizes;
        if (call.batched[0]) sizes = rules::prepended(call.batched[1] ? 1 : call.size, std::move(sizes));
        return {lax::gather(call.inputs[0], call.inputs[1], numbers, sizes, GatherScatterMode::kClip)};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<SliceGatherParams>();
        const std::string numbers =
            indexed::mlir({{"offset_dims", &p.offset_dims},
                           {"collapsed_slice_dims", &p.collapsed_slice_dims},
                           {"operand_batching_dims", &p.operand_batching_dims},
                           {"start_indices_batching_dims", &p.start_indices_batching_dims},
                           {"start_index_map", &p.start_index_map}},
                          out.operand_aval(e, 1).rank() - 1);
        std::vector<std::int64_t> last;
        for (std::int64_t d : p.start_index_map) {
          const auto dimension = static_cast<std::size_t>(d);
          last.push_back(out.operand_aval(e, 0).shape[dimension] - p.slice_sizes[dimension]);
        }
        const Aval& indices = out.operand_aval(e, 1);
        std::string operands[] = {out.operand(e, 0), out.operand(e, 1)};
        const std::string types[] = {out.operand_type(e, 0), out.operand_type(e, 1)};
        if (!last.empty())
          operands[1] = rules::within_bounds(out, operands[1], indices.dtype, indices.shape, last);
        return {out.op("stablehlo.gather", operands, types, out.result_type(e),
                       fmt::format("dimension_numbers = #stablehlo.gather<{}>, slice_sizes = {}, "
                                   "indices_are_sorted = false",
                                   numbers, mlir_array(p.slice_sizes)))};
      },
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

}  // namespace lockstep::ir
