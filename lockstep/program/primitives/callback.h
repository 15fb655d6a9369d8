// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/program/primitives/apply.h"
#include "lockstep/program/vmap_method.h"

namespace lockstep::ir {

/// An array in this process's memory, in row-major order.
struct HostBuffer {
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;
};

/// A user function that programs call: it reads the operands and writes the results.
using HostFunction =
    std::function<void(std::span<const HostBuffer> operands, std::span<const HostBuffer> results)>;

/// A function that programs call, with a name that is the same in all processes that trace the same code: its
/// call site and the number of functions made there before. It can be found by its name as long as an object
/// with it exists.
class NamedHostFunction : public std::string {
 public:
  NamedHostFunction() = default;

  /// Gives it a name. `place` is its call site, "train.cc:42".
  NamedHostFunction(HostFunction function, const std::string& place);

  /// The function with this name; null if it no longer exists.
  static std::shared_ptr<const HostFunction> find(const std::string& name);

 private:
  std::shared_ptr<const HostFunction> function_;
};

/// Calls of such a function. A pure_callback_p may be removed, repeated, and run on several devices; an
/// io_callback_p runs each time the program reaches it, in program order.
const Primitive& pure_callback_p();
const Primitive& io_callback_p();

struct CallbackParams {
  static constexpr std::array<std::string_view, 5> kFields = {"function", "results", "vmap_method",
                                                              "examples", "once"};
  NamedHostFunction function;
  std::vector<std::vector<int>> results;  ///< for each result: dtype, then sizes
  std::int64_t vmap_method;               ///< a VmapMethod

  /// The batch dimensions over which the function is called, the outermost first: for each its size, and for
  /// each operand whether it has the dimension. All results have all of them.
  std::vector<std::vector<int>> examples = {};

  bool once = false;  ///< for io_callback: only the first device calls it, and the results of the others are
                      ///< zeros
};

/// The target of the custom call: operand 0 is the device's position, a scalar s32; then the operands.
/// Attributes: program, s64: the program's fingerprint; function, string: its name; examples, string: lists
/// of numbers, each followed by a ';'; once, s64, 0 or 1.
inline constexpr std::string_view kCallbackTarget = "lockstep_callback";

/// The text of lists, "4 1 0;2 1 1;", and the inverse.
std::string examples_text(const std::vector<std::vector<int>>& examples);
std::vector<std::vector<int>> examples_of(std::string_view text);

}  // namespace lockstep::ir
