// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site_reset.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/transforms/flow.h"
#include "lockstep/transforms/nested_primitives.h"
#include "lockstep/transforms/replay.h"

/// The common parts of the rules of primitives that contain programs.
namespace lockstep::transforms {

using ir::lax::vary_over;
using Values = std::vector<ir::Value>;

/// Builds a program inside another one; its equations keep their own call sites.
class Inner {
 public:
  explicit Inner(std::string name) : builder_(std::move(name)) { reset_.emplace(); }
  ir::Builder& builder() { return builder_; }
  ir::Value input(const Aval& aval) { return builder_.input(aval); }
  ProgramPtr finish(std::span<const ir::Value> outputs);

  /// The same, with its inputs in this order.
  ProgramPtr finish(std::span<const ir::Value> outputs, std::span<const ir::Value> inputs);

 private:
  std::optional<CallSiteReset> reset_;  // until it is finished
  ir::Builder builder_;
};

/// The i-th input's aval.
inline const Aval& input_aval(const ir::Program& program, std::size_t i) {
  return program.aval(program.inputs[i]);
}
inline const Aval& output_aval(const ir::Program& program, std::size_t i) {
  return program.aval(program.outputs[i]);
}

/// For each value whether it is set.
std::vector<bool> given(std::span<const std::optional<ir::Value>> values);

/// Throws ShapeError unless operands with these dtypes and shapes match the program's inputs; `what` names
/// the program.
void check_operands(std::string_view what, std::span<const Aval> operands, std::span<const Aval> inputs);

/// Throws ShapeError unless a program's outputs have the dtypes and shapes of `expected`.
void check_outputs(std::string_view what, const std::vector<Aval>& outputs,
                   const std::vector<Aval>& expected);

/// The inputs that the program needs for these outputs, and for its effects.
std::vector<bool> live_inputs(const ir::Program& program, const std::vector<bool>& outputs);

/// The program with only these inputs and outputs, without dead code.
ProgramPtr restricted(const ir::Program& program, const std::vector<bool>& inputs,
                      const std::vector<bool>& outputs);

/// The links of an equation that runs one program, once: its operands are the inputs, its results the
/// outputs.
std::vector<ir::NestedLink> links_to_all(const ir::Program& program);

/// Describes an equation from which nothing is removed.
ir::PrunedEquation unpruned(const ir::OpParams& params, std::size_t operands, std::size_t results);

/// A primitive whose other rules are defined by its NestedRules.
ir::Primitive nested_primitive(std::string name, decltype(ir::Primitive::shape) shape,
                               decltype(ir::Primitive::transpose) transpose,
                               decltype(ir::Primitive::lower) lower, ir::NestedRules nested);

ir::ShardingRule whole(std::span<const Aval> inputs, std::span<const Aval> outputs, const ir::OpParams&);

/// The aval with a first dimension of `size` elements, or of all examples.
Aval stacked(Aval aval, std::int64_t size);
Aval stacked(Aval aval, const ir::MappedAxis& axis);

/// New inputs for those of the program: of all examples if they are batched.
Values inputs_of(Inner& inner, const ir::Program& program, const std::vector<bool>& batched,
                 const ir::MappedAxis& axis);

/// For a loop whose carries are the inputs from `first` on, with its outputs for many examples. If the
/// carries that are batched as inputs are sufficient, broadcasts the outputs that are not and returns false.
/// Otherwise sets the flags of the others and returns true.
bool widen(std::vector<bool>& batched, std::size_t first, ir::VmapValues& outputs, std::size_t num_carry,
           const ir::MappedAxis& axis);

/// x with its first two dimensions exchanged.
ir::Value swap_leading(const ir::Value& x);

}  // namespace lockstep::transforms
