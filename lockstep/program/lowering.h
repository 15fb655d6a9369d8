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
#include "lockstep/program/program.h"

namespace lockstep {

/// "tensor<4x8xf32>".
std::string mlir_type(const Aval& aval);
std::string mlir_type(DType dtype, const Shape& shape);

inline constexpr std::string_view kMlirTokenType = "!stablehlo.token";

/// "array<i64: 0, 1>".
std::string mlir_array(std::span<const std::int64_t> values);

/// "dense<1.5> : tensor<4xf32>": the value, in every element.
std::string mlir_splat(const Scalar& value, DType dtype, const Shape& shape);

struct LowerOptions;

/// How the lowering rules of primitives write StableHLO: into the body of one function, in MLIR's generic
/// form.
class Lowering {
 public:
  Lowering(const Program& program, const LowerOptions& options);

  /// The name and type of the i-th operand of an equation, and the type of its i-th result.
  const std::string& operand(const Equation& equation, std::size_t i) const;
  std::string operand_type(const Equation& equation, std::size_t i) const;
  std::string result_type(const Equation& equation, std::size_t i = 0) const;
  const Aval& operand_aval(const Equation& equation, std::size_t i) const;
  const Aval& result_aval(const Equation& equation, std::size_t i = 0) const;

  /// Writes `%n = "op"(operands) <attributes> regions : (operand types) -> result type` and gives "%n".
  /// `attributes` is the text between the braces, empty for none; `region` is the text of one region, or
  /// empty.
  std::string op(std::string_view op, std::span<const std::string> operands,
                 std::span<const std::string> operand_types, const std::string& result_type,
                 std::string_view attributes = "", std::string_view region = "");

  /// The same, on all operands of the equation and for its first result.
  std::string op(std::string_view op, const Equation& equation, std::string_view attributes = "",
                 std::string_view region = "");

  /// a `direction` b, such as "LT", element by element; of complex ones "EQ" and "NE" only.
  std::string compare(std::string_view direction, const std::string& a, const std::string& b, DType dtype,
                      const Shape& shape);

  /// Element by element a where `which` is true, else b.
  std::string select(const std::string& which, const std::string& a, const std::string& b, DType dtype,
                     const Shape& shape);

  /// The elements of x, of shape `from`, that begin at `start` and end before `limit`.
  std::string slice(const std::string& x, DType dtype, const Shape& from, const Shape& start,
                    const Shape& limit);

  /// A constant with the value in every element.
  std::string splat(const Scalar& value, DType dtype, const Shape& shape);

  /// This device's place in the mesh, as an i32 scalar.
  std::string position();

  const AxisEnv& axes() const { return axes_; }

  /// A collective after all those before it, on `data` of the plan's dtype. Parts of all-gather,
  /// reduce-scatter and all-to-all lie along the leading dimension. Gives the result's name.
  std::string collective(collectives::Collective plan, const std::string& data, const Shape& data_shape,
                         const Shape& result_shape);

  using Names = std::vector<std::string>;

  /// A call of a function of the host: an XLA FFI custom call, with results of these types. `config` is the
  /// text of its attributes, "name = 1 : i64, …"; one more is the program's fingerprint, `program`. Its first
  /// operand is the device's position. With an effect it comes after all effects and collectives before it.
  /// Throws Error where the platform has no such calls.
  Names host_call(std::string_view target, std::span<const std::string> operands,
                  std::span<const std::string> operand_types, std::span<const std::string> result_types,
                  std::string_view config, bool effect = true);

  /// Whether the program may call LAPACK: on CPUs, where it is installed.
  bool has_lapack() const { return lapack_ && lapack::is_available(); }

  /// A call of a routine of LAPACK (lockstep/lapack/lapack.h) on all operands of the equation, for all its
  /// results. `config` is the text of further attributes, ", name = 1 : i64, …".
  Names lapack_call(std::string_view routine, const Equation& equation, std::string_view config = "");

  /// Writes the equations of a program that another holds, on inputs of these names; gives its outputs'
  /// names.
  Names inlined(const Program& program, Names inputs);

  /// StableHLO's `while`: `condition` and `body` are given the names of the loop's values and write what they
  /// do; the condition gives a bool, the body the next values. Gives the names of the values at the end.
  Names loop(const Names& initial, const std::vector<std::string>& types,
             const std::function<std::string(const Names&)>& condition,
             const std::function<Names(const Names&)>& body);

  /// StableHLO's `case`: the branch that `index`, an i32 scalar, tells runs and gives values of these types.
  Names choice(const std::string& index, const std::vector<std::string>& types,
               const std::vector<std::function<Names()>>& branches);

  /// The values, behind a barrier that keeps the compiler from merging what is computed of them with what was
  /// computed before.
  Names barrier(const Names& values, const std::vector<std::string>& types);

  /// The names of the operands of an equation that writes its operand `update` over part of operand 0. An
  /// update that is computed from what operand 0 holds is computed whole before the first element is written:
  /// XLA's CPU compiler else may fuse the two into one loop in place, which reads what it has just written.
  Names operands_of_update(const Equation& equation, std::size_t update);

  std::string fresh() { return "%" + std::to_string(next_++); }
  void line(std::string_view text);

 private:
  friend struct LowerProgram;

  /// How a value came to be. Values are numbered as they are met.
  struct Origin {
    int order = -1;         ///< operands have a lower one; -1: it came from outside
    std::size_t first = 0;  ///< of its operands' numbers in operands_
    std::size_t count = 0;
    std::uint64_t views = 0;  ///< bits: operands (of the first 64) that the compiler may find to be the same
                              ///< numbers in the same order
  };
  int number_of(const std::string& value);
  std::optional<int> known_number(const std::string& value) const;
  void remember(const Equation& equation, const Names& results);
  bool is_computed_from(const std::string& value, const std::string& target) const;

  std::string call(collectives::Collective plan, const std::string& data, const std::string& data_type,
                   const std::string& result_type);
  std::string native(const collectives::Collective& plan, const std::string& data, const Shape& data_shape,
                     const Shape& result_shape);

  bool is_donated(std::size_t input) const { return input < donated_.size() && donated_[input]; }

  std::string captured(const std::function<void()>& write);

  /// Whether what is written has collectives, or other calls that are chained by tokens. Leaves no trace of
  /// it.
  bool joins_chain(const std::function<void()>& write);
  void make_token(const std::string& name);
  Names several(const std::string& name, std::size_t count) const;

  const Program* program_;
  AxisEnv axes_;
  bool native_collectives_, for_cpu_, lapack_;
  std::vector<bool> donated_;  // of the program's inputs
  bool operand_dies_ =
      false;  // whether the first operand of the equation that is written is not needed later
  std::vector<std::string> names_;  // of each variable
  std::string body_;
  int next_ = 0;
  std::string chain_;  // the token that the next collective takes
  Fingerprint fingerprint_ = 0;
  bool uses_position_ = false;
  std::string position_;  // its name, where it is computed
  std::vector<collectives::Collective> collectives_;
  std::vector<int> numbers_;                            // of the values that fresh() named; -1: not met
  std::unordered_map<std::string, int> other_numbers_;  // of values with other names
  std::vector<Origin> origins_;                         // by number
  std::vector<int> operands_;
  int remembered_ = 0;
  std::string functions_;  // beside main
};

struct LowerOptions {
  AxisEnv axes;

  /// Taken over by results of the same shape and dtype: for each input whether the caller gives it up.
  std::vector<bool> donated;

  /// Collectives are StableHLO's own, between replicas whose numbers are the positions, instead of custom
  /// calls.
  bool native_collectives = false;

  /// For XLA's CPU compiler.
  bool for_cpu = true;

  /// Decompositions of matrices are computed by LAPACK where it is installed, on CPUs.
  bool lapack = true;

  /// What else must agree between processes, besides the program: the mesh, options.
  Fingerprint salt = 0;
};

/// A program ready for the compiler.
struct LoweredProgram {
  std::string stablehlo;                             ///< a module with one public function, main
  Fingerprint fingerprint = 0;                       ///< of the program's text and the salt
  std::vector<collectives::Collective> collectives;  ///< in the order in which they run
  bool native_collectives = false;
  bool takes_position = false;  ///< main's first argument is the device's position, i32[]
  bool transposes =
      false;           ///< has a transpose that moves the minor dimension and is no part of a dot product
  bool loops = false;  ///< has a program within it that runs more than once
};

/// Writes a per-device program as StableHLO text.
LoweredProgram lower(const Program& program, const LowerOptions& options);

}  // namespace lockstep
