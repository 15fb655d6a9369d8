#include "lockstep/program/cost.h"

#include <algorithm>
#include <set>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

bool only_moves(const Primitive& primitive) {
  static const std::set<const Primitive*> movers = {&full_p(),
                                                    &iota_p(),
                                                    &broadcast_in_dim_p(),
                                                    &reshape_p(),
                                                    &transpose_p(),
                                                    &slice_p(),
                                                    &pad_p(),
                                                    &concatenate_p(),
                                                    &dynamic_slice_p(),
                                                    &dynamic_update_slice_p(),
                                                    &stop_gradient_p(),
                                                    &pvary_p(),
                                                    &all_gather_p(),
                                                    &all_to_all_p(),
                                                    &ppermute_p(),
                                                    &axis_index_p(),
                                                    &gather_p(),
                                                    &scatter_p(),
                                                    &rev_p()};
  return movers.contains(&primitive) || is_placement(primitive);
}

bool slides(const Primitive& primitive) {
  return &primitive == &reduce_window_sum_p() || &primitive == &reduce_window_max_p() ||
         &primitive == &reduce_window_min_p();
}

bool reduces(const Primitive& primitive) {
  static const std::set<const Primitive*> reducers = {&reduce_sum_p(), &reduce_prod_p(), &reduce_max_p(),
                                                      &reduce_min_p(), &reduce_and_p(),  &reduce_or_p(),
                                                      &argmax_p(),     &argmin_p(),      &psum_scatter_p()};
  return reducers.contains(&primitive);
}

double flops_of(const Program& program, const Equation& equation) {
  const Primitive& primitive = *equation.primitive;
  if (only_moves(primitive) || equation.outputs.empty()) return 0;
  const Aval& first = program.aval(equation.inputs.empty() ? equation.outputs[0] : equation.inputs[0]);
  if (reduces(primitive)) return static_cast<double>(first.num_elements());
  double operations = 0;
  for (Var var : equation.outputs) operations += static_cast<double>(program.aval(var).num_elements());
  if (slides(primitive))
    return operations *
           static_cast<double>(num_elements(equation.params.as<WindowParams>().window_dimensions));
  if (&primitive == &conv_general_dilated_p()) {
    const Aval& kernels = program.aval(equation.inputs[1]);
    const auto features = static_cast<std::size_t>(equation.params.as<ConvParams>().rhs_spec[0]);
    const double each = static_cast<double>(kernels.num_elements()) /
                        static_cast<double>(std::max<std::int64_t>(kernels.shape[features], 1));
    return 2 * operations * each;
  }
  if (&primitive != &dot_general_p()) return operations;
  for (std::int64_t d : equation.params.as<DotGeneralParams>().lhs_contracting)
    operations *= static_cast<double>(first.shape[static_cast<std::size_t>(d)]);
  return 2 * operations;
}

}  // namespace

ProgramCost cost_of(const Program& program) {
  ProgramCost cost;
  for (const Equation& equation : program.equations) {
    if (equation.primitive->nested) {
      // Of branches, of which one runs, the dearest.
      ProgramCost most;
      for (const NestedProgram& nested : programs_of(equation)) {
        const ProgramCost once = cost_of(*nested.program);
        const auto times = static_cast<double>(nested.times.value_or(1));
        ProgramCost all{once.flops * times, once.bytes_accessed * times};
        if (nested.alternative) {
          most.flops = std::max(most.flops, all.flops);
          most.bytes_accessed = std::max(most.bytes_accessed, all.bytes_accessed);
        } else {
          most.flops += all.flops;
          most.bytes_accessed += all.bytes_accessed;
        }
      }
      cost.flops += most.flops;
      cost.bytes_accessed += most.bytes_accessed;
      continue;
    }
    cost.flops += flops_of(program, equation);
    for (Var var : equation.inputs) cost.bytes_accessed += static_cast<double>(program.aval(var).bytes());
    for (Var var : equation.outputs) cost.bytes_accessed += static_cast<double>(program.aval(var).bytes());
  }
  return cost;
}

}  // namespace lockstep
