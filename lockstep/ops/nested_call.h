// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"

namespace lockstep::ir {
class OpParams;
struct Primitive;
}  // namespace lockstep::ir

/// Equations that contain programs made from functions on arrays: shared by operations that need a loop and
/// the control flow in lockstep/jit/.
namespace lockstep::internal {

/// A tree's arrays by name, for example "[0]" or ".count" after the tree's name, and the rest of its
/// structure.
struct TreeOutline {
  std::vector<std::string> paths;
  std::string structure;
};

/// A program that was traced within another one, and the outside arrays that it uses, which are its last
/// inputs.
struct TracedProgram {
  ir::Program program;
  std::vector<Array> captures;
};

/// The outside arrays that any of the programs use, each once. Changes each program's inputs to these arrays,
/// followed by its own inputs that are no captures.
std::vector<Array> merge_captures(std::vector<TracedProgram*> programs);

/// Adds an equation that contains programs to the current trace.
std::vector<Array> emit_nested(const ir::Primitive& primitive, ir::OpParams params,
                               const std::vector<Array>& operands);

/// The values that a loop carries from step to step: the initial values, and their avals in the body. These
/// may have to change after a step has been traced: a weak dtype at the start becomes the dtype that the step
/// returns, and a value that varies between devices after a step must vary from the start.
class LoopCarry {
 public:
  /// `operation` ("scan") and `carry` are for messages.
  LoopCarry(std::string operation, TreeOutline carry, std::vector<Array> initial, const CallSite& site);

  std::size_t size() const { return avals_.size(); }
  std::vector<Array> tracers(Trace& trace) const;

  /// Within the body's trace: converts a step's results to the avals of the carry. Returns false if the body
  /// must be traced again with other avals. Throws TraceError, with both structures and the path, if
  /// structure, shape or dtype change.
  bool settle(const TreeOutline& outline, std::vector<Array>& next);

  /// Makes every carry vary over these axes, too. Returns whether that changes any of them.
  bool vary(const std::vector<std::string>& axes);

  /// The initial values, with the final avals.
  std::vector<Array> initial() const;

 private:
  std::string operation_;
  TreeOutline outline_;
  std::vector<Array> initial_;
  std::vector<Aval> avals_;
  std::string site_;
};

/// Moves the inputs that are captures from the end to the front.
ir::Program captures_first(TracedProgram traced);

/// Throws TraceError unless the condition's value is a bool scalar.
void check_predicate(const char* operation, const Aval& aval, const CallSite& site);

using Condition = std::function<Array(const std::vector<Array>&)>;
using Step = std::function<std::pair<TreeOutline, std::vector<Array>>(const std::vector<Array>&)>;

/// Within a trace: while condition(carry), which is a bool scalar, carry = step(carry). Returns the last
/// carry. `carry` and a step's outline name the arrays; `operation` ("while_loop") is for messages. Throws as
/// LoopCarry and check_predicate do.
std::vector<Array> while_of_arrays(const char* operation, TreeOutline carry, std::vector<Array> initial,
                                   const Condition& condition, const Step& step, const CallSite& site);

/// The same for a carry that is a list of arrays; errors name the current call site.
std::vector<Array> while_of_arrays(const char* operation, std::vector<Array> initial,
                                   const Condition& condition,
                                   const std::function<std::vector<Array>(const std::vector<Array>&)>& step);

/// Within a trace: `length` times carry = step(carry, elements), where elements are the next ones along the
/// first dimension of each of xs. Returns the last carry. Like a scan it has derivatives in both modes.
/// Throws as LoopCarry does; errors name the current call site.
std::vector<Array> scan_of_arrays(
    const char* operation, std::vector<Array> initial, const std::vector<Array>& xs, std::int64_t length,
    const std::function<std::vector<Array>(const std::vector<Array>& carry,
                                           const std::vector<Array>& elements)>& step);

/// Within a trace: the results of the branch with this index, an i32 scalar, where all branches' results have
/// these avals. `operands` are the branches' own inputs; captures vary over the axes of the index then, too.
std::vector<Array> emit_branches(const Array& index, std::vector<TracedProgram>& branches,
                                 const std::vector<Aval>& results, const std::vector<Array>& operands);

/// Within a trace: the results of `function` where the predicate, a bool scalar, is true, else `otherwise`,
/// of the same shapes and dtypes. Only one of them is computed.
std::vector<Array> cond_of_arrays(const Array& predicate, const std::vector<Array>& otherwise,
                                  const std::function<std::vector<Array>()>& function);

/// Within a trace: the results of `function`. The reverse derivative keeps only the outside arrays that it
/// uses, and computes the function again.
std::vector<Array> recomputed(const std::function<std::vector<Array>()>& function);

}  // namespace lockstep::internal
