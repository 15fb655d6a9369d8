#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"

namespace lockstep {
class OpParams;
struct Primitive;
}  // namespace lockstep

/// Equations that hold programs, made of functions on arrays: what the operations that need a loop and the
/// control flow of lockstep/jit/ share.
namespace lockstep::internal {

/// A tree's arrays by name, "[0]" or ".count" behind the name of the tree, and all that else makes its
/// structure.
struct TreeOutline {
  std::vector<std::string> paths;
  std::string structure;
};

/// A program that was traced within another, and the arrays from outside that it uses: its last inputs.
struct TracedProgram {
  Program program;
  std::vector<Array> captures;
};

/// The arrays that some of the programs use from outside, each once; and for every program its inputs changed
/// to those arrays, then its own inputs that are no captures.
std::vector<Array> merge_captures(std::vector<TracedProgram*> programs);

/// An equation of the current trace that holds programs.
std::vector<Array> emit_nested(const Primitive& primitive, OpParams params,
                               const std::vector<Array>& operands);

/// What a loop carries from one step to the next: what it starts with, and the avals that it has in the body.
/// A step may give less than a loop needs to know: a number whose dtype is weak at the start becomes of the
/// dtype that a step gives, and a value that varies between devices after a step is taken to vary from the
/// start.
class LoopCarry {
 public:
  /// `operation` ("scan") and `carry` are for messages.
  LoopCarry(std::string operation, TreeOutline carry, std::vector<Array> initial, const CallSite& site);

  std::size_t size() const { return avals_.size(); }
  std::vector<Array> tracers(Trace& trace) const;

  /// Within the body's trace: makes what the step gives fit. False where the body must be traced again, with
  /// other avals. Throws TraceError where structure, shape or dtype change, showing both and the path.
  bool settle(const TreeOutline& outline, std::vector<Array>& next);

  /// Every carry varies over these axes, too. True where that changes any.
  bool vary(const std::vector<std::string>& axes);

  /// What the loop starts with, of the avals found.
  std::vector<Array> initial() const;

 private:
  std::string operation_;
  TreeOutline outline_;
  std::vector<Array> initial_;
  std::vector<Aval> avals_;
  std::string site_;
};

/// The inputs of the program that are captures, which are last, put in front.
Program captures_first(TracedProgram traced);

/// The condition's value. Throws TraceError unless it is a bool scalar.
void check_predicate(const char* operation, const Aval& aval, const CallSite& site);

using Condition = std::function<Array(const std::vector<Array>&)>;
using Step = std::function<std::pair<TreeOutline, std::vector<Array>>(const std::vector<Array>&)>;

/// Within a trace: while condition(carry), a bool scalar, carry = step(carry); gives the last carry. `carry`
/// names what it starts with, and a step says so of what it gives; `operation` ("while_loop") is for
/// messages. Throws as LoopCarry and check_predicate do.
std::vector<Array> while_of_arrays(const char* operation, TreeOutline carry, std::vector<Array> initial,
                                   const Condition& condition, const Step& step, const CallSite& site);

/// The same for a carry that is a list of arrays; errors are at the current place.
std::vector<Array> while_of_arrays(const char* operation, std::vector<Array> initial,
                                   const Condition& condition,
                                   const std::function<std::vector<Array>(const std::vector<Array>&)>& step);

/// Within a trace: `length` times carry = step(carry, elements), with one element after the other of the
/// leading dimension of each of xs; gives the last carry. As a scan it has derivatives both ways. Throws as
/// LoopCarry does, at the current place.
std::vector<Array> scan_of_arrays(
    const char* operation, std::vector<Array> initial, const std::vector<Array>& xs, std::int64_t length,
    const std::function<std::vector<Array>(const std::vector<Array>& carry,
                                           const std::vector<Array>& elements)>& step);

/// Within a trace: what `function` gives. A derivative backwards keeps nothing of it but the arrays from
/// outside that it uses, and computes it again.
std::vector<Array> recomputed(const std::function<std::vector<Array>()>& function);

}  // namespace lockstep::internal
