#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site_reset.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/transforms/control_flow.h"
#include "lockstep/transforms/flow.h"
#include "lockstep/transforms/replay.h"

/// What the rules of primitives that hold programs share.
namespace lockstep::transforms {

using lax::vary_over;
using Values = std::vector<Value>;

/// A program within another, being built: its equations keep their own places in the user's source.
class Inner {
 public:
  explicit Inner(std::string name) : builder_(std::move(name)) { reset_.emplace(); }
  Builder& builder() { return builder_; }
  Value input(const Aval& aval) { return builder_.input(aval); }
  ProgramPtr finish(std::span<const Value> outputs);

  /// The same, with its inputs in this order.
  ProgramPtr finish(std::span<const Value> outputs, std::span<const Value> inputs);

 private:
  std::optional<CallSiteReset> reset_;  // until it is finished
  Builder builder_;
};

/// The i-th input's aval.
inline const Aval& input_aval(const Program& program, std::size_t i) {
  return program.aval(program.inputs[i]);
}
inline const Aval& output_aval(const Program& program, std::size_t i) {
  return program.aval(program.outputs[i]);
}

/// Whether each is there.
std::vector<bool> given(std::span<const std::optional<Value>> values);

/// Throws ShapeError unless operands of these dtypes and shapes fit the program's inputs; `what` is the
/// program.
void check_operands(std::string_view what, std::span<const Aval> operands, std::span<const Aval> inputs);

/// Throws ShapeError unless one program's outputs have the dtypes and shapes of `expected`.
void check_outputs(std::string_view what, const std::vector<Aval>& outputs,
                   const std::vector<Aval>& expected);

/// Which inputs the program needs for those outputs, and for its effects.
std::vector<bool> live_inputs(const Program& program, const std::vector<bool>& outputs);

/// The program with some of its inputs and outputs only, cleaned.
ProgramPtr restricted(const Program& program, const std::vector<bool>& inputs,
                      const std::vector<bool>& outputs);

/// Nothing of the equation is left out.
PrunedEquation unpruned(const OpParams& params, std::size_t operands, std::size_t results);

ShardingRule whole(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&);

/// Aval of `size` elements, or of all examples.
Aval stacked(Aval aval, std::int64_t size);
Aval stacked(Aval aval, const MappedAxis& axis);

/// New inputs, for those of the program: of all examples where they are batched.
Values inputs_of(Inner& inner, const Program& program, const std::vector<bool>& batched,
                 const MappedAxis& axis);

/// For a loop whose carries are the inputs from `first` on, and its outputs for many examples: false if those
/// carries that are batched as inputs are enough, after broadcasting those outputs that are not; else true,
/// with the flags of the others set.
bool widen(std::vector<bool>& batched, std::size_t first, VmapValues& outputs, std::size_t num_carry,
           const MappedAxis& axis);

/// x with its first two dimensions changed.
Value swap_leading(const Value& x);

}  // namespace lockstep::transforms
