// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/make_program.h"

#include "lockstep/jit/traced_function.h"
#include "lockstep/tree/paths.h"

namespace lockstep::internal {
namespace {

TracedFunction traced(const TreeFunction& function, std::span<TreeArgument> arguments, const CallSite& site) {
  CallSiteScope scope(site);
  return trace_function("program", function, with_numbers_as_arrays(arguments));
}

}  // namespace

ir::Program program_of(const TreeFunction& function, std::span<TreeArgument> arguments,
                       const CallSite& site) {
  return traced(function, arguments, site).traced.program;
}

std::vector<ShapeDtype> shapes_of(const TreeFunction& function, std::span<TreeArgument> arguments,
                                  const CallSite& site) {
  const TracedFunction call = traced(function, arguments, site);
  const std::vector<Aval> avals = call.traced.program.output_avals();
  const std::vector<std::string> paths = tree::internal::paths(call.result.ref());
  std::vector<ShapeDtype> all;
  for (std::size_t i = 0; i < avals.size(); ++i) all.push_back({paths[i], avals[i].shape, avals[i].dtype});
  return all;
}

}  // namespace lockstep::internal
