// SPDX-License-Identifier: Apache-2.0
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
#include "lockstep/transforms/attention_programs.h"

/// The primitives whose equations contain programs. They are in this folder because their rules use the
/// transforms. Their NestedRules describe the programs, and how values are passed between these and the
/// equation.
namespace lockstep::transforms {

using ProgramPtr = std::shared_ptr<const ir::Program>;

inline ProgramPtr shared(ir::Program program) {
  return std::make_shared<const ir::Program>(std::move(program));
}

/// Operands: an i32 scalar from 0 to the number of branches - 1, then the operands of all branches. Results:
/// those of the selected branch. All branches have the same inputs and outputs.
const ir::Primitive& cond_p();
struct CondParams {
  static constexpr std::array<std::string_view, 1> kFields = {"branches"};
  std::vector<ProgramPtr> branches;
};

/// Operands: the condition's constants, the body's constants, the carry. While condition(its constants,
/// carry), a bool scalar, is true: carry = body(its constants, carry). Results: the last carry.
const ir::Primitive& while_p();
struct WhileParams {
  static constexpr std::array<std::string_view, 4> kFields = {"condition", "body", "condition_consts",
                                                              "body_consts"};
  ProgramPtr condition, body;
  std::int64_t condition_consts, body_consts;
};

/// Operands: constants, the initial carry, and arrays of `length` elements along their first dimension. For
/// one element after the other: (carry, ys) = body(constants, carry, elements). Results: the last carry, and
/// each y, stacked along a new first dimension. `reverse`: from the last element to the first.
const ir::Primitive& scan_p();
struct ScanParams {
  static constexpr std::array<std::string_view, 5> kFields = {"body", "num_consts", "num_carry", "length",
                                                              "reverse"};
  ProgramPtr body;
  std::int64_t num_consts, num_carry, length;
  bool reverse;
};

/// The program's results. The reverse derivative keeps only the values that the policy selects
/// (lockstep/transforms/remat_policy.h), and computes the others again. With `barrier` the compiler cannot
/// merge the second computation with the first.
const ir::Primitive& remat_p();
struct RematParams {
  static constexpr std::array<std::string_view, 4> kFields = {"program", "barrier", "policy", "names"};
  ProgramPtr program;
  bool barrier;
  std::optional<std::string> policy = {};              ///< by default "nothing_saveable"
  std::optional<std::vector<std::string>> names = {};  ///< the names for the policy
};

/// The program's results, with a user-defined derivative. The first operands are constants: outside arrays,
/// with respect to which there is no derivative. `rule` takes the operands, then the tangents of all inexact
/// ones except the constants; it returns the results, then the tangents of all inexact ones.
const ir::Primitive& custom_jvp_p();
struct CustomJvpParams {
  static constexpr std::array<std::string_view, 4> kFields = {"program", "rule", "num_consts", "no_reverse"};
  ProgramPtr program, rule;
  std::int64_t num_consts;
  std::optional<std::string> no_reverse = {};  ///< why it has no reverse derivative: the error's text
};

/// Like custom_jvp, for a reverse derivative. `forward` takes the operands and returns the results, then
/// residuals; `backward` takes the constants, the residuals and the cotangents of all inexact results, and
/// returns those of all inexact operands except the constants. A forward derivative needs `jvp`, which is
/// like the rule of custom_jvp.
const ir::Primitive& custom_vjp_p();
struct CustomVjpParams {
  static constexpr std::array<std::string_view, 5> kFields = {"program", "forward", "backward", "num_consts",
                                                              "jvp"};
  ProgramPtr program, forward, backward;
  std::int64_t num_consts;
  std::optional<ProgramPtr> jvp = {};
};

/// The derivative of custom_vjp as a linear operation that only has a transpose. Operands: constants and
/// residuals, `num_known` in total, then the tangents of the operands. Never lowered.
const ir::Primitive& custom_linear_p();
struct CustomLinearParams {
  static constexpr std::array<std::string_view, 2> kFields = {"backward", "num_known"};
  ProgramPtr backward;
  std::int64_t num_known;
};

/// Attention (lockstep/transforms/attention_programs.h): operands and results as attend's, or with `backward`
/// as attend_backward's, of which the bias's cotangent may be left out. oneDNN on CPUs and cuDNN on GPUs
/// compute it where a device has whole sequences after the partitioning.
const ir::Primitive& attention_p();
struct AttentionParams {
  static constexpr std::array<std::string_view, 9> kFields = {
      "program", "query_shape", "key_shape", "scale", "block", "left", "right", "backward", "implementation"};
  ProgramPtr program;
  Shape query_shape, key_shape;  ///< before the partitioning
  ir::Scalar scale;
  std::int64_t block;
  std::optional<std::int64_t> left, right;
  bool backward;
  std::optional<std::string> implementation;
};

/// Whether the results are those of attend_backward with a bias whose cotangent is used.
bool has_cotangent_of_bias(const AttentionParams& attention);

/// The parameters for these operands, which vary over the same mesh axes.
AttentionParams attention_of(const std::vector<Aval>& operands, const Attention& attention, bool backward);

/// The parameters of custom_vjp for attention with both derivatives: operands as attend's; result as attend's
/// first.
CustomVjpParams differentiable_attention(const std::vector<Aval>& operands, const Attention& attention);

/// All of the above.
std::span<const ir::Primitive* const> nested_primitives();

/// Adds an equation of one of these primitives. Its operands are made to vary over the mesh axes over which
/// the corresponding inputs of the programs vary. Throws ShardingError if the value that controls the
/// execution (the branch, the end of a loop) varies over an axis along which the programs have a collective,
/// because all devices must call it together.
std::vector<ir::Value> emit_nested(ir::Builder& builder, const ir::Primitive& primitive, ir::OpParams params,
                                   std::span<const ir::Value> operands);

}  // namespace lockstep::transforms
