// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/collectives/plan.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/lower.h"
#include "lockstep/program/program.h"

namespace lockstep::ir {

/// "tensor<4x8xf32>".
std::string mlir_type(const Aval& aval);
std::string mlir_type(DType dtype, const Shape& shape);

inline constexpr std::string_view kMlirTokenType = "!stablehlo.token";

/// "array<i64: 0, 1>".
std::string mlir_array(std::span<const std::int64_t> values);

/// "dense<[3, 1, 2, 0]> : tensor<4xindex>": a layout, by the dimensions from the minor to the major one.
std::string mlir_layout(std::span<const std::int64_t> minor_to_major);
/// That of row-major elements.
std::string mlir_row_major(std::size_t rank);

/// The text as a string literal.
std::string mlir_string(std::string_view text);

/// "dense<1.5> : tensor<4xf32>": the value in every element.
std::string mlir_splat(const Scalar& value, DType dtype, const Shape& shape);

/// The StableHLO writer for the lowering rules of primitives: it writes into the body of one function, in
/// MLIR's generic form.
class Lowering {
 public:
  Lowering(const Program& program, const LowerOptions& options);

  /// The name and type of the i-th operand of an equation, and the type of its i-th result.
  const std::string& operand(const Equation& equation, std::size_t i) const;
  std::string operand_type(const Equation& equation, std::size_t i) const;
  std::string result_type(const Equation& equation, std::size_t i = 0) const;
  const Aval& operand_aval(const Equation& equation, std::size_t i) const;
  const Aval& result_aval(const Equation& equation, std::size_t i = 0) const;

  /// The equation of the same program that makes the i-th operand; null for an input of the program.
  const Equation* made_by(const Equation& equation, std::size_t i) const;

  /// Whether the i-th result of an equation is an operand of another one or a result of the program.
  bool is_used(const Equation& equation, std::size_t i) const;

  /// Writes `%n = "op"(operands) <attributes> regions : (operand types) -> result type` and returns "%n".
  /// `attributes` is the text between the braces, empty for none; `region` is the text of one region, or
  /// empty.
  std::string op(std::string_view op, std::span<const std::string> operands,
                 std::span<const std::string> operand_types, const std::string& result_type,
                 std::string_view attributes = "", std::string_view region = "");

  /// The same, for all operands of the equation and its first result.
  std::string op(std::string_view op, const Equation& equation, std::string_view attributes = "",
                 std::string_view region = "");

  /// Compares element by element; `direction` is, for example, "LT". For complex numbers only "EQ" and "NE".
  std::string compare(std::string_view direction, const std::string& a, const std::string& b, DType dtype,
                      const Shape& shape);

  /// Element by element: a if `which` is true, else b.
  std::string select(const std::string& which, const std::string& a, const std::string& b, DType dtype,
                     const Shape& shape);

  /// The elements of x, of shape `from`, from `start` to before `limit`.
  std::string slice(const std::string& x, DType dtype, const Shape& from, const Shape& start,
                    const Shape& limit);

  /// A constant with this value in every element.
  std::string splat(const Scalar& value, DType dtype, const Shape& shape);

  /// The device's position in the mesh, as an i32 scalar.
  std::string position();

  const AxisEnv& axes() const { return axes_; }

  /// Writes a collective, ordered after all previous ones, on `data`, which has the plan's dtype. The parts
  /// of all-gather, reduce-scatter and all-to-all are along the first dimension. Returns the result's name.
  std::string collective(collectives::Collective plan, const std::string& data, const Shape& data_shape,
                         const Shape& result_shape);

  /// Writes the end of the collective whose result is the equation's first operand, if it was only started
  /// because the equation is there; it comes after the equation's other operands. Returns the result's name.
  std::string collective_done(const Equation& equation);

  using Names = std::vector<std::string>;

  /// Writes an XLA FFI custom call, whose operands and results are row-major. `config` is the text of its
  /// attributes, "name = 1 : i64, …".
  Names ffi_call(std::string_view target, std::string_view config, const Names& operands, const Names& types,
                 const Names& result_types, bool effect = false);

  /// Writes a call of a host function: ffi_call with the program's fingerprint as the attribute `program` and
  /// the device's position as the first operand. A call with an effect is ordered after all previous effects
  /// and Lockstep's collectives. Throws Error if the platform does not support such calls.
  Names host_call(std::string_view target, std::span<const std::string> operands,
                  std::span<const std::string> operand_types, std::span<const std::string> result_types,
                  std::string_view config, bool effect = true);

  bool for_cpu() const { return for_cpu_; }
  bool for_cuda() const { return for_cuda_; }

  /// LowerOptions::cudnn_features.
  std::int64_t cudnn_features() const { return cudnn_features_; }

  /// Of the whole program.
  const CodeTraits& traits() const { return traits_; }

  /// Whether the program may call LAPACK: on CPUs, if it is installed.
  bool has_lapack() const { return lapack_ && lapack::is_available(); }

  /// The same, also on GPUs, where matrices are copied to the host and back.
  bool has_lapack_of_host() const { return has_lapack() || (host_lapack_ && lapack::is_available()); }

  /// Writes a call of a LAPACK routine (lockstep/lapack/lapack.h) with all operands and results of the
  /// equation. `config` is the text of further attributes, ", name = 1 : i64, …".
  Names lapack_call(std::string_view routine, const Equation& equation, std::string_view config = "");

  /// Whether the program may call cuSOLVER: on GPUs, if it is installed.
  bool has_solver() const { return solver_; }

  /// Writes a call of the host code with this target, with all operands and results of the equation. `config`
  /// is the text of its attributes.
  Names library_call(std::string_view target, const Equation& equation, std::string_view config);

  /// The same with these operands, their names and types.
  Names library_call(std::string_view target, const Equation& equation, const Names& operands,
                     const Names& types, std::string_view config);

  /// Whether this is written into the body of a loop.
  bool in_loop() const { return loops_ > 0; }

  /// Writes a call of oneDNN (lockstep/onednn/onednn.h) with these operands, their names with what they are.
  /// `config` is the text of its attributes. f16 and bf16 are computed in f32.
  Names onednn_call(std::string_view config, std::span<const std::pair<std::string, Aval>> operands,
                    std::span<const Aval> results);

  /// Whether the program may call oneDNN for operands of this dtype and such a result.
  bool onednn_takes(DType operands, DType result) const;

  /// Writes a call of SLEEF (lockstep/sleef/sleef.h) with all operands of the equation, in f64 or f32.
  std::string sleef_call(std::string_view function, const Equation& equation);
  /// Whether SLEEF may be called for numbers of this dtype.
  bool sleef_takes(DType dtype) const;

  /// Writes the equations of a program inside an equation, for inputs with these names; returns its outputs'
  /// names.
  Names inlined(const Program& program, Names inputs);

  /// Writes what `compose` computes from the equation's operands, in place of the equation; `name` is that of
  /// the program in messages.
  Names composed(const Equation& equation, const std::string& name,
                 const std::function<Value(const std::vector<Value>& operands)>& compose);

  /// Writes StableHLO's `while`. `condition` and `body` get the names of the loop's values and write their
  /// operations; `condition` returns a bool's name, `body` the names of the next values. Returns the names of
  /// the final values.
  Names loop(const Names& initial, const std::vector<std::string>& types,
             const std::function<std::string(const Names&)>& condition,
             const std::function<Names(const Names&)>& body);

  /// Writes StableHLO's `case`: the branch selected by `index`, an i32 scalar, is run and returns values of
  /// these types.
  Names choice(const std::string& index, const std::vector<std::string>& types,
               const std::vector<std::function<Names()>>& branches);

  /// The values after a barrier, which keeps the compiler from merging computations after it with those
  /// before.
  Names barrier(const Names& values, const std::vector<std::string>& types);

  /// The names of the operands of an equation that writes its operand `update` over a part of operand 0. If
  /// the update is computed from operand 0, it is computed completely before the first element is written:
  /// otherwise XLA's CPU compiler may fuse both into one loop in place, which reads what it has just written.
  Names operands_of_update(const Equation& equation, std::size_t update);

  std::string fresh() { return "%" + std::to_string(next_++); }

  /// Writes a line that computes something.
  void line(std::string_view text) {
    only_collectives_ = false;
    write(text);
  }

 private:
  friend struct LowerProgram;

  /// The origin of a value. Values are numbered in the order in which they are met.
  struct Origin {
    int order = -1;         ///< operands have a lower number; -1: the value came from outside
    std::size_t first = 0;  ///< the index of its operands' numbers in operands_
    std::size_t count = 0;
    std::uint64_t views = 0;  ///< bits: the operands (of the first 64) that the compiler may recognize as the
                              ///< same numbers in the same order
  };
  int number_of(const std::string& value);
  std::optional<int> known_number(const std::string& value) const;
  void remember(const Equation& equation, const Names& results);
  bool is_computed_from(const std::string& value, const std::string& target) const;

  std::string call(collectives::Collective plan, const std::string& data, const std::string& data_type,
                   const std::string& result_type);
  std::string collective_call(std::string_view stage, std::size_t number,
                              std::span<const std::string> operands,
                              std::span<const std::string> operand_types, const std::string& result_type,
                              std::string_view aliases);
  std::string native(const collectives::Collective& plan, const std::string& data, const Shape& data_shape,
                     const Shape& result_shape);

  bool is_donated(std::size_t input) const { return input < donated_.size() && donated_[input]; }

  std::string captured(const std::function<void()>& write);
  void write(std::string_view text);
  std::optional<CollectiveSteps> steps(const Program& program, const Names& outputs) const;

  /// Whether `write` writes collectives, or other calls that are ordered by tokens. What it writes is
  /// discarded.
  bool joins_chain(const std::function<void()>& write);
  void make_token(const std::string& name);
  std::string converted(const std::string& name, DType from, DType to, const Shape& shape);
  Names several(const std::string& name, std::size_t count) const;

  const Program* program_;
  int loops_ = 0;           // around what is being written
  std::size_t num_inputs_;  // of the whole program
  AxisEnv axes_;
  bool native_collectives_, for_cpu_, for_cuda_, lapack_, host_lapack_, onednn_, sleef_, solver_;
  std::int64_t cudnn_features_;
  const CodeTraits traits_;
  std::vector<bool> donated_;       // for each of the program's inputs
  bool operand_dies_ = false;       // whether the first operand of the current equation is not used later
  bool is_awaited_ = false;         // whether a collective_done awaits the result of the current equation
  std::vector<std::string> names_;  // for each variable
  std::vector<bool> used_;          // for each variable
  std::vector<const Equation*> made_by_;  // for each variable
  std::string body_;
  int next_ = 0;
  std::string chain_;  // the token for the next collective
  Fingerprint fingerprint_ = 0;
  bool uses_position_ = false;
  std::string position_;  // its name, if it was computed
  std::vector<collectives::Collective> collectives_;
  struct InFlight {
    std::size_t collective;
    std::string data, data_type;  // empty if it is overwritten by the result
    std::string result_type;
  };
  std::unordered_map<std::string, InFlight> in_flight_;  // collectives that were started, by their results
  bool only_collectives_ = true;                         // what was written so far
  std::vector<CollectiveSteps::Step> steps_;
  std::unordered_map<std::string, std::size_t> plain_values_;  // inputs, results of steps, and reshapes of
                                                               // them, as CollectiveSteps numbers them
  std::vector<int> numbers_;                            // of the values named by fresh(); -1: not met yet
  std::unordered_map<std::string, int> other_numbers_;  // of values with other names
  std::vector<Origin> origins_;                         // by number
  std::vector<int> operands_;
  int remembered_ = 0;
  std::string functions_;  // functions besides main
};

}  // namespace lockstep::ir
