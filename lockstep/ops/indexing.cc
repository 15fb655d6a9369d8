// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/indexing.h"

#include "lockstep/array/host.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing_plan.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using ops::Tracers;

std::string options_key(const IndexOptions& options) {
  return fmt::format(" {} {} {}", options.mode ? static_cast<int>(*options.mode) : -1,
                     options.fill_value ? fmt::format("{}", *options.fill_value) : "",
                     options.unique_indices);
}

/// Outside of a trace, adds the position of a block of x as an operand, and returns whether it did.
bool add_place(const ops::IndexPlan& plan, std::vector<Array>& operands) {
  if (Trace::current() != nullptr || !plan.is_block()) return false;
  const Shape count = {static_cast<std::int64_t>(plan.starts.size())};
  const std::vector<std::int32_t> narrow(plan.starts.begin(), plan.starts.end());
  operands.push_back(plan.place_type() == DType::kI32
                         ? internal::array_from_host(narrow.data(), DType::kI32, count)
                         : internal::array_from_host(plan.starts.data(), DType::kI64, count));
  return true;
}

std::optional<Array> place_of(bool moves, Tracers t, std::size_t i) {
  return moves ? std::optional(t[i]) : std::nullopt;
}

Array read(const std::string& name, const Array& x, std::span<const Index> indices,
           const IndexOptions& options) {
  const ops::IndexPlan plan = ops::plan_index(name, Operand(x).aval(), indices);
  std::vector<Array> operands = {x};
  const bool moves = add_place(plan, operands);
  operands.insert(operands.end(), plan.arrays.begin(), plan.arrays.end());
  return std::move(run_operation(name, plan.key(moves) + options_key(options), operands, [&](Tracers t) {
                     return std::vector<Array>{
                         plan.read(t[0], t.subspan(moves ? 2 : 1), place_of(moves, t, 1), options)};
                   }).front());
}

Array write(const std::string& name, const ir::Primitive& kind, const Array& x,
            std::span<const Index> indices, const Operand& values, const IndexOptions& options,
            bool negated = false) {
  CallSiteScope here(values.site());
  const ElementType type = Operand(x).type();
  const ops::IndexPlan plan = ops::plan_index(name, x.aval(), indices);
  const ElementType types[] = {type, values.type()};
  if (promote(name, types).dtype != type.dtype) {
    fail<DTypeError>("[{}] values of {} do not fit into {}{}; convert one with astype", name,
                     to_string(values.aval()), to_string(x.aval()), ops::at());
  }
  const Aval shapes[] = {Aval{type.dtype, plan.result, false, {}}, values.aval()};
  if (ops::broadcast_shapes(name, shapes) != plan.result) {
    fail<ShapeError>("[{}] values of {} do not broadcast to the part of {}, whose shape is {}{}", name,
                     to_string(values.aval()), to_string(x.aval()), to_string(plan.result), ops::at());
  }
  std::vector<Array> operands = {x, values.as_array(type)};
  const bool moves = add_place(plan, operands);
  operands.insert(operands.end(), plan.arrays.begin(), plan.arrays.end());
  return std::move(run_operation(name, plan.key(moves) + options_key(options), operands, [&](Tracers t) {
                     Array update = ir::lax::reshape(ops::conform(t[1], type, plan.result), plan.taken);
                     if (negated) update = ir::lax::neg(update);
                     return std::vector<Array>{plan.write(kind, t[0], t.subspan(moves ? 3 : 2),
                                                          place_of(moves, t, 2), update, options)};
                   }).front());
}

std::optional<ir::Scalar> fill_of(DType dtype, std::optional<double> value) {
  if (!value) return std::nullopt;
  return is_inexact(dtype) ? ir::Scalar::of(*value) : ir::Scalar::of(static_cast<std::int64_t>(*value));
}

/// The shapes of x and the indices, broadcast together except at the axis.
struct AlongAxis {
  std::int64_t axis;
  Shape x, indices;
};
AlongAxis along_axis(std::string_view name, const Operand& x, const Operand& indices, std::int64_t axis) {
  ops::check_indices(name, indices.aval());
  const Aval aval = x.aval(), at = indices.aval();
  AlongAxis shapes{ops::axis_of(name, axis, aval.rank(), aval), aval.shape, at.shape};
  if (at.rank() != aval.rank()) {
    fail<ShapeError>("[{}] expected indices of the {} dimensions of {}, got {}{}", name, aval.rank(),
                     to_string(aval), to_string(at), ops::at());
  }
  const auto along = static_cast<std::size_t>(shapes.axis);
  shapes.x[along] = shapes.indices[along] = 1;
  const Aval both[] = {{aval.dtype, shapes.x, false, {}}, {at.dtype, shapes.indices, false, {}}};
  shapes.x = shapes.indices = ops::broadcast_shapes(name, both);
  shapes.x[along] = aval.shape[along];
  shapes.indices[along] = at.shape[along];
  return shapes;
}

}  // namespace

Array Array::operator[](const Index& at) const {
  CallSiteScope here(at.site());
  return read("index", *this, {&at, 1}, {});
}

Array Array::operator[](std::initializer_list<Index> indices) const {
  if (indices.size() == 0) return *this;
  CallSiteScope here(indices.begin()->site());
  return read("index", *this, {indices.begin(), indices.size()}, {});
}

IndexUpdate Array::at(const Index& index) const { return {*this, {index}}; }
IndexUpdate Array::at(std::initializer_list<Index> indices) const {
  return {*this, std::vector<Index>(indices)};
}

Array IndexUpdate::get(IndexOptions options) const {
  if (indices_.empty()) return x_;
  CallSiteScope here(indices_.front().site());
  return read("index", x_, indices_, options);
}
Array IndexUpdate::set(const Operand& values, IndexOptions options) const {
  return write("at.set", ir::scatter_p(), x_, indices_, values, options);
}
Array IndexUpdate::add(const Operand& values, IndexOptions options) const {
  return write("at.add", ir::scatter_add_p(), x_, indices_, values, options);
}
Array IndexUpdate::subtract(const Operand& values, IndexOptions options) const {
  return write("at.subtract", ir::scatter_add_p(), x_, indices_, values, options, /*negated=*/true);
}
Array IndexUpdate::divide(const Operand& values, IndexOptions options) const {
  const Array divisors =
      IndexUpdate(ones_like(Operand(x_, values.where())), indices_).multiply(values, options);
  return lockstep::divide(Operand(x_, values.where()), divisors);
}
Array IndexUpdate::power(const Operand& values, IndexOptions options) const {
  const Array exponents =
      IndexUpdate(ones_like(Operand(x_, values.where())), indices_).multiply(values, options);
  return lockstep::power(Operand(x_, values.where()), exponents);
}
Array IndexUpdate::multiply(const Operand& values, IndexOptions options) const {
  return write("at.multiply", ir::scatter_mul_p(), x_, indices_, values, options);
}
Array IndexUpdate::min(const Operand& values, IndexOptions options) const {
  return write("at.min", ir::scatter_min_p(), x_, indices_, values, options);
}
Array IndexUpdate::max(const Operand& values, IndexOptions options) const {
  return write("at.max", ir::scatter_max_p(), x_, indices_, values, options);
}

Array take(const Operand& x, const Operand& indices, TakeOptions options) {
  CallSiteScope here(x.site());
  ops::check_indices("take", indices.aval());
  Array from = x.as_array();
  if (!options.axis) {
    const Shape flat = {from.size()};
    from =
        ops::run("ravel", to_string(flat), {from}, [&](Tracers t) { return ir::lax::reshape(t[0], flat); });
  }
  const Aval aval = from.aval();
  const std::int64_t axis = ops::axis_of("take", options.axis.value_or(0), aval.rank(), aval);
  std::vector<Index> items(static_cast<std::size_t>(axis), Index(slice()));
  items.emplace_back(indices.as_array());
  return read("take", from, items, {options.mode, options.fill_value});
}

Array take(const Operand& x, const Operand& indices, std::int64_t axis) {
  return take(x, indices, TakeOptions{.axis = axis});
}

Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis, GatherScatterMode mode,
                      std::optional<double> fill_value) {
  CallSiteScope here(x.site());
  const AlongAxis shapes = along_axis("take_along_axis", x, indices, axis);
  const std::string key = fmt::format("{} {} {}", shapes.axis, static_cast<int>(mode),
                                      fill_value ? fmt::format("{}", *fill_value) : "");
  return ops::run("take_along_axis", key, {x.as_array(), indices.as_array()}, [&](Tracers t) {
    const std::int64_t size = shapes.x[static_cast<std::size_t>(shapes.axis)];
    if (num_elements(shapes.indices) == 0) {
      const Shape none(t[0].shape().size(), 0);
      return ir::lax::reshape(ir::lax::slice(t[0], none, none), shapes.indices);
    }
    return ir::lax::take_along_axis(ops::broadcast(t[0], shapes.x),
                                    ops::broadcast(ops::wrapped_indices(t[1], size), shapes.indices),
                                    shapes.axis, mode, fill_of(t[0].dtype(), fill_value));
  });
}

Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis) {
  CallSiteScope here(x.site());
  const AlongAxis shapes = along_axis("put_along_axis", x, indices, axis);
  if (shapes.x != x.shape()) {
    fail<ShapeError>("[put_along_axis] indices of {} do not broadcast to {} in the axes other than {}{}",
                     to_string(indices.aval()), to_string(x.aval()), shapes.axis, ops::at());
  }
  const ElementType type = x.type(), types[] = {type, values.type()};
  if (promote("put_along_axis", types).dtype != type.dtype) {
    fail<DTypeError>("[put_along_axis] values of {} do not fit into {}{}; convert one with astype",
                     to_string(values.aval()), to_string(x.aval()), ops::at());
  }
  return ops::run(
      "put_along_axis", fmt::format("{}", shapes.axis),
      {x.as_array(), indices.as_array(), values.as_array(type)}, [&](Tracers t) {
        const std::int64_t size = shapes.x[static_cast<std::size_t>(shapes.axis)];
        const ir::GatherDimensionNumbers n =
            ir::lax::along_axis(static_cast<std::int64_t>(shapes.x.size()), shapes.axis);
        Shape vectors = shapes.indices;
        vectors.push_back(1);
        return ir::lax::scatter(
            t[0], ir::lax::reshape(ops::broadcast(ops::wrapped_indices(t[1], size), shapes.indices), vectors),
            ops::conform(t[2], type, shapes.indices),
            {n.offset_dims, n.collapsed_slice_dims, n.start_index_map, n.operand_batching_dims,
             n.start_indices_batching_dims});
      });
}

}  // namespace lockstep
