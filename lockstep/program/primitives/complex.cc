// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/complex.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/elementwise_family.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using rules::elementwise;
using rules::Takes;

}  // namespace

// Transposes follow JAX: linear maps of complex numbers, not conjugated.

const Primitive& complex_p() {
  static const Primitive p = [] {
    Primitive p =
        elementwise({"complex", "complex", Takes::kFloat, complex_p,
                     [](const JvpCall& c) -> Tangents {
                       if (!c.tangents[0] && !c.tangents[1]) return {std::nullopt};
                       Value zero = lax::full_like(c.inputs[0], 0);
                       return {lax::complex(c.tangents[0].value_or(zero), c.tangents[1].value_or(zero))};
                     },
                     [](const TransposeCall& c) -> Tangents {
                       Tangents out(2);
                       if (c.operands[0].linear()) out[0] = lax::real(*c.cotangents[0]);
                       if (c.operands[1].linear()) out[1] = lax::neg(lax::imag(*c.cotangents[0]));
                       return out;
                     },
                     complex_dtype});
    p.shape = [shape = p.shape](std::span<const Aval> inputs, const OpParams& params) {
      if (inputs[0].dtype != DType::kF32 && inputs[0].dtype != DType::kF64) {
        fail<DTypeError>("expected f32 or f64 operands, got {}; convert with astype", name(inputs[0].dtype));
      }
      return shape(inputs, params);
    };
    return p;
  }();
  return p;
}

const Primitive& real_p() {
  static const Primitive p =
      elementwise({"real", "real", Takes::kComplex, real_p, rules::linear_jvp(real_p),
                   [](const TransposeCall& c) -> Tangents {
                     return {lax::complex(*c.cotangents[0], lax::full_like(*c.cotangents[0], 0))};
                   },
                   real_dtype});
  return p;
}

const Primitive& imag_p() {
  static const Primitive p =
      elementwise({"imag", "imag", Takes::kComplex, imag_p, rules::linear_jvp(imag_p),
                   [](const TransposeCall& c) -> Tangents {
                     return {lax::complex(lax::full_like(*c.cotangents[0], 0), lax::neg(*c.cotangents[0]))};
                   },
                   real_dtype});
  return p;
}

const Primitive& bitcast_convert_type_p() {
  static const Primitive p = [] {
    Primitive p = elementwise(
        {"bitcast_convert_type", "bitcast_convert", Takes::kReal, bitcast_convert_type_p, zero_tangents});
    p.shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
      const DType to = params.as<BitcastParams>().dtype;
      rules::check_dtype(Takes::kReal, inputs[0].dtype);
      rules::check_dtype(Takes::kReal, to);
      if (size_of(to) != size_of(inputs[0].dtype)) {
        fail<DTypeError>("expected a dtype of {} bits, got {}", 8 * size_of(inputs[0].dtype), name(to));
      }
      return {Aval{to, inputs[0].shape, false, {}}};
    };
    return p;
  }();
  return p;
}

const Primitive& population_count_p() {
  static const Primitive p =
      elementwise({"population_count", "popcnt", Takes::kInteger, population_count_p, zero_tangents});
  return p;
}

const Primitive& clz_p() {
  static const Primitive p =
      elementwise({"clz", "count_leading_zeros", Takes::kInteger, clz_p, zero_tangents});
  return p;
}

DType lax::internal::bits_of_size(std::int64_t bytes) {
  return bytes == 1 ? DType::kU8 : bytes == 2 ? DType::kU16 : bytes == 4 ? DType::kU32 : DType::kU64;
}

void lax::internal::check_parts(const Aval& x, const Shape& parts, std::int64_t count, DType to) {
  if (!parts.empty() && parts.back() == count) return;
  fail<ShapeError>(
      "[bitcast_convert_type] expected {} elements of {} in the last dimension, for one {}, got {} (at {})",
      count, name(x.dtype), name(to), to_string(x), CallSiteScope::current().to_string());
}

}  // namespace lockstep::ir
