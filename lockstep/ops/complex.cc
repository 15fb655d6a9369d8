// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/complex.h"

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep {
namespace {

using ops::Meet;
using ops::Tracers;

Array imaginary(const Array& x) {
  return is_complex(x.dtype()) ? ir::lax::imag(x) : ir::lax::full_like(x, 0);
}

}  // namespace

Array complex(const Operand& real, const Operand& imag) {
  return ops::elementwise("complex", "", Meet::kInexact, {&real, &imag}, [](Tracers t) {
    const DType dtype = t[0].dtype();
    if (is_complex(dtype)) {
      fail<DTypeError>("[complex] expected real parts, got {}{}; take real() or imag() of them", name(dtype),
                       ops::at());
    }
    const DType parts = real_dtype(complex_dtype(dtype));
    return ir::lax::complex(ir::lax::convert_element_type(t[0], parts),
                            ir::lax::convert_element_type(t[1], parts));
  });
}

Array real(const Operand& x) {
  return ops::elementwise("real", "", Meet::kPromote, {&x},
                          [](Tracers t) { return is_complex(t[0].dtype()) ? ir::lax::real(t[0]) : t[0]; });
}

Array imag(const Operand& x) {
  return ops::elementwise("imag", "", Meet::kPromote, {&x}, [](Tracers t) { return imaginary(t[0]); });
}

Array conj(const Operand& x) {
  return ops::elementwise("conj", "", Meet::kPromote, {&x}, [](Tracers t) {
    return is_complex(t[0].dtype()) ? ir::lax::complex(ir::lax::real(t[0]), ir::lax::neg(ir::lax::imag(t[0])))
                                    : t[0];
  });
}

Array angle(const Operand& x) {
  return ops::elementwise("angle", "", Meet::kInexact, {&x}, [](Tracers t) {
    return ir::lax::atan2(imaginary(t[0]), is_complex(t[0].dtype()) ? ir::lax::real(t[0]) : t[0]);
  });
}

Array isreal(const Operand& x) {
  return ops::elementwise("isreal", "", Meet::kPromote, {&x}, [](Tracers t) { return imaginary(t[0]) == 0; });
}

Array iscomplex(const Operand& x) {
  return ops::elementwise("iscomplex", "", Meet::kPromote, {&x},
                          [](Tracers t) { return imaginary(t[0]) != 0; });
}

}  // namespace lockstep
