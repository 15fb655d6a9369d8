// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/creation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/array/host.h"
#include "lockstep/array/parts.h"
#include "lockstep/array/sharding_constraint.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace {

using ops::Tracers;

void check_shape(std::string_view operation, const Shape& shape) {
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) {
    fail<ShapeError>("[{}] expected sizes of 0 or more, got {}{}", operation, to_string(shape), ops::at());
  }
}

Array filled(const std::string& name, const Shape& shape, std::int64_t value, DType dtype,
             const SourceLocation& where) {
  CallSiteScope here(CallSite::from(where));
  check_shape(name, shape);
  ir::FullParams params{
      is_inexact(dtype) ? ir::Scalar::of(static_cast<double>(value)) : ir::Scalar::of(value), dtype, shape,
      false};
  return apply_primitive(ir::full_p(), ir::OpParams::of(params), std::span<const Array>()).front();
}

/// How many of start, start + step, … there are before stop.
std::int64_t steps_between(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto low = static_cast<std::uint64_t>(std::min(start, stop)),
             space = static_cast<std::uint64_t>(std::max(start, stop)) - low,
             each = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  return static_cast<std::int64_t>(space / each + (space % each != 0));
}

/// The numbers in an array of that dtype.
Array of_numbers(const std::vector<double>& numbers, DType dtype) {
  const Shape shape = {static_cast<std::int64_t>(numbers.size())};
  if (dtype == DType::kF64) return internal::array_from_host(numbers.data(), dtype, shape);
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  Array array = internal::array_from_host(narrow.data(), DType::kF32, shape);
  return dtype == DType::kF32 ? array : astype(array, dtype);
}

/// The value, already in this type if that is exact.
Array fill_value(const Operand& value, ElementType type) {
  const bool direct = is_inexact(type.dtype) || (value.is_integer_number() && is_integer(type.dtype));
  return value.is_number() && direct ? value.as_array(type) : value.as_array();
}

}  // namespace

Array zeros(const Shape& shape, DType dtype, SourceLocation where) {
  return filled("zeros", shape, 0, dtype, where);
}
Array ones(const Shape& shape, DType dtype, SourceLocation where) {
  return filled("ones", shape, 1, dtype, where);
}

Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype) {
  CallSiteScope here(value.site());
  check_shape("full", shape);
  const ElementType type{dtype.value_or(value.type().dtype), false};
  const Aval avals[] = {value.aval(), Aval{type.dtype, shape, false, {}}};
  if (ops::broadcast_shapes("full", avals) != shape) {
    fail<ShapeError>("[full] a value of {} does not broadcast to {}{}", to_string(value.aval()),
                     to_string(shape), ops::at());
  }
  return ops::run(
      "full", fmt::format("{} {}", to_string(shape), name(type.dtype)), {fill_value(value, type)},
      [&](Tracers t) { return ops::broadcast(ir::lax::convert_element_type(t[0], type.dtype), shape); });
}

Array zeros(const Shape& shape, DType dtype, const Sharding& sharding, SourceLocation where) {
  return full(shape, Operand(0, where), dtype, sharding);
}
Array ones(const Shape& shape, DType dtype, const Sharding& sharding, SourceLocation where) {
  return full(shape, Operand(1, where), dtype, sharding);
}

Array full(const Shape& shape, const Operand& value, DType dtype, const Sharding& sharding) {
  if (Trace::current() != nullptr)
    return with_sharding_constraint(full(shape, value, dtype), sharding, value.where());
  CallSiteScope here(value.site());
  check_shape("full", shape);
  if (!value.shape().empty()) {
    fail<ShapeError>("[full] expected a number or a scalar for an array over a sharding, got {}{}",
                     to_string(value.aval()), ops::at());
  }
  const Aval aval{dtype, shape, false, {}};
  sharding::check_divisible(aval, sharding.spec(), sharding.mesh(), "full");
  const auto element = size_of(dtype);
  std::vector<char> one(element);
  const Array single = full({}, value, dtype);
  if (!runtime::Runtime::get().described()) single.copy_to_host(one.data(), dtype);
  return internal::from_parts(aval, sharding, true, [&](const std::vector<IndexRange>& ranges) {
    std::size_t count = 1;
    for (const IndexRange& range : ranges) count *= static_cast<std::size_t>(range.limit - range.start);
    const std::shared_ptr<void> memory = internal::aligned_memory(count * element);
    auto* bytes = static_cast<char*>(memory.get());
    if (std::ranges::all_of(one, [&](char byte) { return byte == one[0]; }))
      std::memset(bytes, one[0], count * element);
    else
      for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes + i * element, one.data(), element);
    return internal::HostPart{bytes, memory, true};
  });
}

Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype) {
  CallSiteScope here(x.site());
  const DType result = dtype.value_or(x.type().dtype);
  const ElementType type{result, false};
  const Shape shape = x.shape();
  return ops::run("full_like", std::string(name(result)), {x.as_array(), fill_value(value, type)},
                  [&](Tracers t) {
                    // Chosen from x, though never x itself, so that the partitioner spreads the result as x
                    // is spread; XLA takes the choice away.
                    Array like = ir::lax::stop_gradient(ir::lax::convert_element_type(t[0], result));
                    Array never = ir::lax::full(like, ir::Scalar::of(false), DType::kBool, shape);
                    return ir::lax::select(
                        never, like, ops::broadcast(ir::lax::convert_element_type(t[1], result), shape));
                  });
}

Array zeros_like(const Operand& x, std::optional<DType> dtype) {
  return full_like(x, Operand(0, x.where()), dtype);
}
Array ones_like(const Operand& x, std::optional<DType> dtype) {
  return full_like(x, Operand(1, x.where()), dtype);
}

Array arange(const Operand& stop, std::optional<DType> dtype) {
  return arange(Operand(0, stop.where()), stop, Operand(1, stop.where()), dtype);
}

Array arange(const Operand& start, const Operand& stop, const Operand& step, std::optional<DType> dtype) {
  CallSiteScope here(start.site());
  if (!start.is_number() || !stop.is_number() || !step.is_number()) {
    fail<TraceError>("[arange] expected numbers, got an Array{}; the shape of the result must be known",
                     ops::at());
  }
  if (step.real() == 0) fail("[arange] expected a step that is not 0{}", ops::at());
  const bool whole = start.is_integer_number() && stop.is_integer_number() && step.is_integer_number();
  const double steps = std::ceil((stop.real() - start.real()) / step.real());
  const std::int64_t count = whole ? steps_between(start.integer(), stop.integer(), step.integer())
                                   : static_cast<std::int64_t>(std::max(0.0, steps));
  // The dtype need only hold the numbers in the program; the numbers between may wrap around.
  auto all_in = [&](DType dtype) {
    return holds(dtype, start.integer()) && (count < 2 || holds(dtype, step.integer()));
  };
  DType type = dtype.value_or(whole ? DType::kI32 : DType::kF32);
  if (whole && !dtype && count > 0 &&
      !(all_in(type) && holds(type, start.integer() + (count - 1) * step.integer())))
    type = DType::kI64;
  DType counted = is_integer(type) && all_in(type) ? type : DType::kI64;
  if (!whole) counted = type == DType::kF64 ? DType::kF64 : DType::kF32;
  const std::string key = fmt::format("{} {} {} {} {} {} {}", start.integer(), start.real(), step.integer(),
                                      step.real(), count, name(counted), name(type));
  return ops::run("arange", key, {}, [&](Tracers) {
    ir::IotaParams params{counted, {count}, 0};
    Array place = apply_primitive(ir::iota_p(), ir::OpParams::of(params), std::span<const Array>()).front();
    auto constant = [&](const Operand& number) {
      return ir::lax::full(place, whole ? ir::Scalar::of(number.integer()) : ir::Scalar::of(number.real()),
                           counted, {count});
    };
    if (count > 1 && step.real() != 1) place = ir::lax::mul(place, constant(step));
    if (start.real() != 0) place = ir::lax::add(place, constant(start));
    return ir::lax::convert_element_type(place, type);
  });
}

Array linspace(double start, double stop, std::int64_t count, DType dtype, SourceLocation where) {
  CallSiteScope here(CallSite::from(where));
  if (count < 0) fail<ShapeError>("[linspace] expected a count of 0 or more, got {}{}", count, ops::at());
  std::vector<double> numbers(static_cast<std::size_t>(count), start);
  for (std::int64_t i = 1; i < count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(count - 1);
    numbers[static_cast<std::size_t>(i)] = start * (1 - part) + stop * part;
  }
  return of_numbers(numbers, dtype);
}

Array eye(std::int64_t rows, std::optional<std::int64_t> columns, DType dtype, SourceLocation where) {
  CallSiteScope here(CallSite::from(where));
  const Shape shape = {rows, columns.value_or(rows)};
  check_shape("eye", shape);
  return ops::run("eye", fmt::format("{} {}", to_string(shape), name(dtype)), {}, [&](Tracers) {
    auto places = [&](std::int64_t dimension) {
      ir::IotaParams params{place_dtype(std::max(shape[0], shape[1])), shape, dimension};
      return apply_primitive(ir::iota_p(), ir::OpParams::of(params), std::span<const Array>()).front();
    };
    return ir::lax::convert_element_type(ir::lax::eq(places(0), places(1)), dtype);
  });
}

Array one_hot(const Operand& indices, std::int64_t classes, DType dtype) {
  CallSiteScope here(indices.site());
  if (!is_integer(indices.type().dtype)) {
    fail<DTypeError>("[one_hot] expected whole numbers as indices, got {}{}; convert with astype",
                     to_string(indices.aval()), ops::at());
  }
  if (classes < 0) fail<ShapeError>("[one_hot] expected 0 or more classes, got {}{}", classes, ops::at());
  return ops::run(
      "one_hot", fmt::format("{} {}", classes, name(dtype)), {indices.as_array()}, [&](Tracers t) {
        Shape shape = t[0].shape();
        std::vector<std::int64_t> dimensions(shape.size());
        for (std::size_t i = 0; i < dimensions.size(); ++i) dimensions[i] = static_cast<std::int64_t>(i);
        shape.push_back(classes);
        // In a dtype that holds every class.
        const DType type = t[0].dtype(), wide = holds(type, classes) ? type : place_dtype(classes);
        Array spread =
            ir::lax::broadcast_in_dim(ir::lax::convert_element_type(t[0], wide), shape, dimensions);
        Array place = ir::lax::iota(t[0], wide, shape, static_cast<std::int64_t>(shape.size()) - 1);
        return ir::lax::convert_element_type(ir::lax::eq(spread, place), dtype);
      });
}

namespace ops {

Array from_host(const void* data, std::size_t count, DType dtype, const Shape& shape,
                const SourceLocation& where) {
  CallSiteScope here(CallSite::from(where));
  check_shape("array", shape);
  if (num_elements(shape) != static_cast<std::int64_t>(count)) {
    fail<ShapeError>("[array] {} values do not fill shape {}, which has {} elements{}", count,
                     to_string(shape), num_elements(shape), at());
  }
  return internal::array_from_host(data, dtype, shape);
}

void fail_ragged(std::size_t first, std::size_t other, const SourceLocation& where) {
  fail<ShapeError>("[array] rows have {} and {} values (at {}); they must have the same number", first, other,
                   CallSite::from(where).to_string());
}

}  // namespace ops
}  // namespace lockstep
