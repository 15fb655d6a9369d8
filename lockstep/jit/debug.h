// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/ops/operand.h"

/// Printing and checking values in compiled code while it runs.
namespace lockstep::debug {

/// A format string, with its source line.
struct Format {
  std::string text;
  CallSite site;
  Format(const char* text, std::source_location where = std::source_location::current())
      : text(text), site(CallSite::from(where)) {}
  Format(std::string text, std::source_location where = std::source_location::current())
      : text(std::move(text)), site(CallSite::from(where)) {}
};

void print(const Format& format, const std::vector<Array>& arrays);

/// Each time the program reaches it, writes a line to standard output: the format, with the arrays in place
/// of its "{}". In a job of several processes it begins with the process. Under jit, an array that is split
/// over devices is printed once, as a whole; under shard_map and pmap each device prints its own, and under
/// vmap each example is printed. Lines and collectives of a device keep the program's order. Throws
/// ShapeError unless there are as many "{}" as arrays.
///   debug::print("loss {} at step {}", loss, step);
template <class... Arrays>
void print(const Format& format, const Arrays&... arrays) {
  print(format, std::vector<Array>{Operand(arrays).as_array()...});
}

/// Fails the program if x contains a NaN or an infinity when the program reaches it: the call that runs the
/// program throws an Error with x's name, the number of such elements and where they are, the process, and
/// this line.
void check_finite(const Operand& x, const std::string& name);

}  // namespace lockstep::debug
