#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"

/// The primitives whose equations hold programs. Their rules use the transforms, so they stand here; each
/// knows its programs, and where values go between them and the equation, by NestedRules.
namespace lockstep {

using ProgramPtr = std::shared_ptr<const Program>;

inline ProgramPtr shared(Program program) { return std::make_shared<const Program>(std::move(program)); }

/// Operands: an i32 scalar from 0 to the number of branches - 1, then the operands of all branches. Results:
/// those of the branch that the scalar tells. All branches take and give the same.
const Primitive& cond_p();
struct CondParams {
  static constexpr std::array<std::string_view, 1> kFields = {"branches"};
  std::vector<ProgramPtr> branches;
};

/// Operands: the condition's constants, the body's constants, the carry. While condition(its constants,
/// carry), a bool scalar: carry = body(its constants, carry). Results: the last carry.
const Primitive& while_p();
struct WhileParams {
  static constexpr std::array<std::string_view, 4> kFields = {"condition", "body", "condition_consts",
                                                              "body_consts"};
  ProgramPtr condition, body;
  std::int64_t condition_consts, body_consts;
};

/// Operands: constants, the first carry, arrays of `length` elements along their leading dimension. `length`
/// times, for one element after the other: (carry, ys) = body(constants, carry, elements). Results: the last
/// carry; each y, stacked along a new leading dimension. In reverse from the last element to the first.
const Primitive& scan_p();
struct ScanParams {
  static constexpr std::array<std::string_view, 5> kFields = {"body", "num_consts", "num_carry", "length",
                                                              "reverse"};
  ProgramPtr body;
  std::int64_t num_consts, num_carry, length;
  bool reverse;
};

/// The program's results. The derivative, backwards, keeps nothing of what the program computes but what the
/// policy names (lockstep/transforms/remat_policy.h), and computes the rest again. With `barrier` the
/// compiler may not merge that with what was computed before.
const Primitive& remat_p();
struct RematParams {
  static constexpr std::array<std::string_view, 4> kFields = {"program", "barrier", "policy", "names"};
  ProgramPtr program;
  bool barrier;
  std::optional<std::string> policy = {};              ///< by default "nothing_saveable"
  std::optional<std::vector<std::string>> names = {};  ///< that the policy is about
};

/// The program's results, with a derivative that the user gave. The first operands are constants: arrays from
/// outside of the functions, in which it cannot be differentiated. `rule` takes the operands, then the
/// tangents of all inexact ones but the constants; it gives the results, then the tangents of all inexact
/// ones.
const Primitive& custom_jvp_p();
struct CustomJvpParams {
  static constexpr std::array<std::string_view, 3> kFields = {"program", "rule", "num_consts"};
  ProgramPtr program, rule;
  std::int64_t num_consts;
};

/// The same for a derivative backwards. `forward` takes the operands and gives the results, then residuals;
/// `backward` takes the constants, the residuals and the cotangents of all inexact results, and gives those
/// of all inexact operands but the constants.
const Primitive& custom_vjp_p();
struct CustomVjpParams {
  static constexpr std::array<std::string_view, 4> kFields = {"program", "forward", "backward", "num_consts"};
  ProgramPtr program, forward, backward;
  std::int64_t num_consts;
};

/// The derivative of custom_vjp as a linear operation that only its transpose knows: of constants and
/// residuals, `num_known` in all, and the tangents of the operands. Never lowered.
const Primitive& custom_linear_p();
struct CustomLinearParams {
  static constexpr std::array<std::string_view, 2> kFields = {"backward", "num_known"};
  ProgramPtr backward;
  std::int64_t num_known;
};

/// All of the above.
std::span<const Primitive* const> nested_primitives();

/// Adds an equation of one of the above, with the operands made to vary over the mesh axes over which the
/// inputs of the programs that they go to vary. Throws ShardingError where what decides (the branch, the end
/// of a loop) varies over an axis along which the programs do a collective, which all devices must do
/// together.
std::vector<Value> emit_nested(Builder& builder, const Primitive& primitive, OpParams params,
                               std::span<const Value> operands);

}  // namespace lockstep
