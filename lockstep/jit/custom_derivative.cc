#include "lockstep/jit/custom_derivative.h"

#include <algorithm>
#include <iterator>

#include "lockstep/base/fail.h"
#include "lockstep/jit/remat.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep::internal {
namespace {

std::vector<Array> joined(std::vector<Array> a, const std::vector<Array>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string type_text(const Aval& aval) { return to_string(Aval{aval.dtype, aval.shape}); }

void check_structure(const std::string& what, const TreeOutline& expected, const TreeOutline& given,
                     const CallSite& site) {
  if (expected.paths == given.paths && expected.structure == given.structure) return;
  fail<TraceError>("[{}] expected {} arrays{}, the rule gives {}{} (at {})", what, expected.paths.size(),
                   expected.structure.empty() ? "" : " and " + expected.structure, given.paths.size(),
                   given.structure.empty() ? "" : " and " + given.structure, site.to_string());
}

}  // namespace

std::vector<Array> emit_remat(TracedProgram program, const std::vector<Array>& arguments) {
  const std::vector<Array> captures = merge_captures({&program});
  return emit_nested(remat_p(), OpParams::of(RematParams{shared(std::move(program.program)), false}),
                     joined(captures, arguments));
}

std::vector<Array> emit_custom_jvp(TracedProgram function, TracedProgram rule,
                                   const std::vector<Array>& arguments) {
  const std::vector<Array> captures = merge_captures({&function, &rule});
  return emit_nested(
      custom_jvp_p(),
      OpParams::of(CustomJvpParams{shared(std::move(function.program)), shared(std::move(rule.program)),
                                   static_cast<std::int64_t>(captures.size())}),
      joined(captures, arguments));
}

std::vector<Array> emit_custom_vjp(TracedProgram function, TracedProgram forward, TracedProgram backward,
                                   const std::vector<Array>& arguments) {
  const std::vector<Array> captures = merge_captures({&function, &forward, &backward});
  return emit_nested(custom_vjp_p(),
                     OpParams::of(CustomVjpParams{
                         shared(std::move(function.program)), shared(std::move(forward.program)),
                         shared(std::move(backward.program)), static_cast<std::int64_t>(captures.size())}),
                     joined(captures, arguments));
}

Array zeros_of(const Aval& aval) {
  return lax::full(Array(), is_inexact(aval.dtype) ? Scalar::of(0.0) : Scalar::of(0), aval.dtype, aval.shape);
}

void check_same_types(const std::string& what, const TreeOutline& expected, const std::vector<Aval>& avals,
                      const TreeOutline& given, const std::vector<Aval>& given_avals, const CallSite& site) {
  check_structure(what, expected, given, site);
  for (std::size_t i = 0; i < avals.size(); ++i) {
    if (avals[i].dtype == given_avals[i].dtype && avals[i].shape == given_avals[i].shape) continue;
    fail<TraceError>("[{}] {} is {} from the function and {} from the rule (at {}); give the same", what,
                     expected.paths[i], type_text(avals[i]), type_text(given_avals[i]), site.to_string());
  }
}

std::vector<Array> checked_tangents(const std::string& what, const TreeOutline& expected,
                                    const std::vector<Array>& values, const TreeOutline& given,
                                    const std::vector<Array>& tangents, const CallSite& site) {
  check_structure(what, expected, given, site);
  std::vector<Array> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Aval& aval = values[i].aval();
    if (!is_inexact(aval.dtype)) continue;
    if (tangents[i].dtype() != aval.dtype || tangents[i].shape() != aval.shape) {
      fail<TraceError>(
          "[{}] {} is {}, and the rule gives {} for its derivative (at {}); give the same shape and "
          "dtype",
          what, expected.paths[i], type_text(aval), type_text(tangents[i].aval()), site.to_string());
    }
    out.push_back(tangents[i]);
  }
  return out;
}

}  // namespace lockstep::internal
