// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/functions_on_cpus.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/sleef/sleef.h"

namespace lockstep::ir {
namespace {

constexpr std::int64_t kFewest = 256;  ///< elements

/// The number that all elements of the i-th operand are, if the program says it.
std::optional<double> number(const Lowering& out, const Equation& e, std::size_t i) {
  const Equation* made = out.made_by(e, i);
  if (made == nullptr) return std::nullopt;
  if (made->primitive == &full_p()) return made->params.as<FullParams>().value.real;
  if (made->primitive == &broadcast_in_dim_p() || made->primitive == &convert_element_type_p())
    return number(out, *made, 0);
  if (made->primitive != &sub_p()) return std::nullopt;  // of a derivative of pow
  const std::optional<double> x = number(out, *made, 0), y = number(out, *made, 1);
  return x && y ? std::optional(*x - *y) : std::nullopt;
}

/// XLA computes these powers by multiplication, division or a square root.
bool is_simple_power(const Lowering& out, const Equation& e) {
  constexpr double kSimple[] = {-1, 0, 0.5, 1, 2, 3};
  const std::optional<double> exponent = number(out, e, 1);
  return exponent && std::ranges::count(kSimple, *exponent) != 0;
}

bool repays_sleef(Lowering& out, const Equation& e, std::string_view function) {
  const Aval& aval = out.result_aval(e);
  if (e.primitive == &pow_p() && is_simple_power(out, e)) return false;
  return aval.num_elements() >= kFewest && out.sleef_takes(aval.dtype) &&
         sleef::is_faster(function, sleef::computed_in(aval.dtype));
}

}  // namespace

Primitive by_sleef(Primitive p) {
  p.lower = [by_xla = p.lower, name = p.name](Lowering& out, const Equation& e) -> std::vector<std::string> {
    if (!repays_sleef(out, e, name)) return by_xla(out, e);
    return {out.sleef_call(name, e)};
  };
  return p;
}

}  // namespace lockstep::ir
