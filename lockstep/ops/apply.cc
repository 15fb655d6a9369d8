// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/apply.h"

#include <algorithm>
#include <array>
#include <functional>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ops {

std::string at() { return fmt::format(" (at {})", CallSiteScope::current().to_string()); }

Shape broadcast_shapes(std::string_view operation, std::span<const Aval> operands) {
  std::size_t rank = 0;
  for (const Aval& aval : operands) rank = std::max(rank, aval.shape.size());
  Shape shape(rank, 1);
  for (const Aval& aval : operands) {
    const std::size_t offset = rank - aval.shape.size();
    for (std::size_t i = 0; i < aval.shape.size(); ++i) {
      std::int64_t& size = shape[offset + i];
      const std::int64_t mine = aval.shape[i];
      if (size != 1 && mine != 1 && size != mine) {
        std::string names;
        for (const Aval& each : operands) {
          names += fmt::format("{}{}",
                               names.empty()               ? ""
                               : &each == &operands.back() ? " and "
                                                           : ", ",
                               to_string(each));
        }
        fail<ShapeError>(
            "[{}] shapes {} do not broadcast: dimension {} has sizes {} and {}{}; sizes, counted from the "
            "last dimension, must be equal or 1",
            operation, names, offset + i, size, mine, at());
      }
      if (size == 1) size = mine;
    }
  }
  return shape;
}

Array broadcast(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::vector<std::int64_t> dimensions(x.shape().size());
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    dimensions[i] = static_cast<std::int64_t>(shape.size() - dimensions.size() + i);
  }
  return ir::lax::broadcast_in_dim(x, shape, std::move(dimensions));
}

Array convert(const Array& x, ElementType type) {
  return x.dtype() == type.dtype ? x : ir::lax::convert_element_type(x, type.dtype, type.weak);
}

Array is_finite(const Array& x) {
  if (!is_complex(x.dtype())) return ir::lax::is_finite(x);
  return ir::lax::logical_and(ir::lax::is_finite(ir::lax::real(x)), ir::lax::is_finite(ir::lax::imag(x)));
}

Array squared_size(const Array& x) {
  if (!is_complex(x.dtype())) return ir::lax::mul(x, x);
  return ir::lax::real(ir::lax::mul(x, ir::lax::complex(ir::lax::real(x), ir::lax::neg(ir::lax::imag(x)))));
}

Array widened(const Array& x) { return convert(x, {at_least_f32(x.dtype()), x.aval().weak_type}); }

std::pair<Array, Array> float_divmod(const Array& x, const Array& y) {
  const Array rest = ir::lax::rem(x, y), zero = ir::lax::full_like(y, 0);
  // x / 0 is an infinity; the remainder of it, which would be subtracted, is NaN.
  const Array whole = ir::lax::div(ir::lax::select(ir::lax::eq(y, zero), x, ir::lax::sub(x, rest)), y);
  const Array turned =
      ir::lax::logical_and(ir::lax::ne(rest, zero), ir::lax::ne(ir::lax::sign(y), ir::lax::sign(rest)));
  const Array below = ir::lax::sub(whole, ir::lax::full_like(whole, 1));
  return {ir::lax::round(ir::lax::select(turned, below, whole)),
          ir::lax::select(turned, ir::lax::add(rest, y), rest)};
}

Array divisor(const Array& y) {
  if (!is_integer(y.dtype())) return y;
  return ir::lax::select(ir::lax::eq(y, ir::lax::full_like(y, 0)), ir::lax::full_like(y, 1), y);
}

Array conform(const Array& x, ElementType type, const Shape& shape) {
  return broadcast(convert(x, type), shape);
}

Array elementwise(const std::string& name, const std::string& key, Meet meet,
                  std::initializer_list<const Operand*> operands,
                  const std::function<Array(Tracers)>& compose) {
  CallSiteScope here((*operands.begin())->site());
  constexpr std::size_t kMost = 4;
  if (operands.size() > kMost) fail_internally("[{}] was called with more than {} operands", name, kMost);
  const std::span<const Operand* const> all(operands.begin(), operands.size());
  std::array<ElementType, kMost> types;
  bool alike = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    types[i] = all[i]->type();
    alike = alike && all[i]->shape() == all[0]->shape();
  }
  ElementType type = promote(name, std::span(types).first(all.size()));
  if (meet == Meet::kInexact) type = to_inexact(type);
  if (meet == Meet::kNumbers && type.dtype == DType::kBool) type.dtype = DType::kI32;
  Shape broadcasted;
  if (!alike) {
    std::vector<Aval> avals;
    for (const Operand* operand : all) avals.push_back(operand->aval());
    broadcasted = broadcast_shapes(name, avals);
  }
  const Shape& shape = alike ? all[0]->shape() : broadcasted;
  std::array<Array, kMost> arrays;
  for (std::size_t i = 0; i < all.size(); ++i)
    arrays[i] = all[i]->as_array({type.dtype, types[i].weak}, shape);
  auto conforming = [&](Tracers tracers) {
    std::vector<Array> conformed;
    for (const Array& x : tracers) conformed.push_back(conform(x, type, shape));
    return std::vector<Array>{compose(conformed)};
  };
  std::string full_key = key;
  full_key += ' ';
  full_key += lockstep::name(type.dtype);
  return std::move(
      run_operation(name, full_key, std::span(arrays).first(all.size()), std::ref(conforming)).front());
}

Array elementwise(const std::string& name, Meet meet, const ir::Primitive& primitive,
                  std::initializer_list<const Operand*> operands) {
  return elementwise(name, "", meet, operands,
                     [&](Tracers t) { return apply_primitive(primitive, {}, t).front(); });
}

std::int64_t axis_of(std::string_view operation, std::int64_t axis, std::int64_t rank, const Aval& operand) {
  if (axis < -rank || axis >= rank) {
    fail<ShapeError>(
        "[{}] axis {} is out of range for {}, which has {} dimensions{}; count from 0, or from -1 at the end",
        operation, axis, to_string(operand), rank, at());
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace lockstep::ops
