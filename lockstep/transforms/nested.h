#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site_reset.h"
#include "lockstep/transforms/control_flow.h"
#include "lockstep/transforms/flow.h"
#include "lockstep/transforms/replay.h"

/// What the rules of primitives that hold programs share.
namespace lockstep::transforms {

using Values = std::vector<Value>;

/// A program within another, being built: its equations keep their own places in the user's source.
class Inner {
 public:
  explicit Inner(std::string name) : builder_(std::move(name)) { reset_.emplace(); }
  Builder& builder() { return builder_; }
  Value input(const Aval& aval) { return builder_.input(aval); }
  ProgramPtr finish(std::span<const Value> outputs);

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

/// x made to vary also over these axes.
Value vary_over(const Value& x, const std::vector<std::string>& axes);

/// Which inputs the program needs for those outputs, and for its effects.
std::vector<bool> live_inputs(const Program& program, const std::vector<bool>& outputs);

/// The program with some of its inputs and outputs only, cleaned.
ProgramPtr restricted(const Program& program, const std::vector<bool>& inputs,
                      const std::vector<bool>& outputs);

/// Nothing of the equation is left out.
PrunedEquation unpruned(const OpParams& params, std::size_t operands, std::size_t results);

ShardingRule whole(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&);

/// Aval of `size` examples.
Aval stacked(Aval aval, std::int64_t size);

/// x with its first two dimensions changed.
Value swap_leading(const Value& x);

}  // namespace lockstep::transforms
