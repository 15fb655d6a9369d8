#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/program/primitives/apply.h"
#include "lockstep/program/vmap_method.h"

namespace lockstep {

/// Numbers in this process's memory, row by row.
struct HostBuffer {
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;
};

/// A function of the user's that programs call: it reads the operands and writes the results.
using HostFunction =
    std::function<void(std::span<const HostBuffer> operands, std::span<const HostBuffer> results)>;

/// A function that programs call, by a name that is the same in all processes that trace the same: its place
/// and how many others were made there before. It is found by that as long as any of these lives.
class NamedHostFunction : public std::string {
 public:
  NamedHostFunction() = default;

  /// Gives it a name. `place` is "train.cc:42".
  NamedHostFunction(HostFunction function, const std::string& place);

  /// The function of that name; null where there is none any more.
  static std::shared_ptr<const HostFunction> find(const std::string& name);

 private:
  std::shared_ptr<const HostFunction> function_;
};

/// Calls of such a function. pure_callback_p may be left out, done again and done on several devices;
/// io_callback_p is done whenever the program comes there, in program order.
const Primitive& pure_callback_p();
const Primitive& io_callback_p();

struct CallbackParams {
  static constexpr std::array<std::string_view, 5> kFields = {"function", "results", "vmap_method",
                                                              "examples", "once"};
  NamedHostFunction function;
  std::vector<std::vector<int>> results;  ///< of each call: dtype, then sizes
  std::int64_t vmap_method;               ///< a VmapMethod

  /// The leading dimensions over which calls go, the outermost first: the size, and for each operand whether
  /// it has the dimension. All results have them all.
  std::vector<std::vector<int>> examples = {};

  bool once = false;  ///< of io_callback: the first device calls, and the results of the others are zeros
};

/// The target of the custom call: operand 0 is the device's position, a scalar s32; then the operands.
/// Attributes: program, s64: the program's fingerprint; function, string: its name; examples, string: numbers
/// of which each list is ended by a ';'; once, s64, 0 or 1.
inline constexpr std::string_view kCallbackTarget = "lockstep_callback";

/// "4 1 0;2 1 1;", and back.
std::string examples_text(const std::vector<std::vector<int>>& examples);
std::vector<std::vector<int>> examples_of(std::string_view text);

}  // namespace lockstep
