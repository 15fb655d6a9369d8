#pragma once

#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/ops/operand.h"

/// Looking into compiled code while it runs.
namespace lockstep::debug {

/// A format string, and the line it stands in.
struct Format {
  std::string text;
  CallSite site;
  Format(const char* text, std::source_location where = std::source_location::current())
      : text(text), site(CallSite::from(where)) {}
  Format(std::string text, std::source_location where = std::source_location::current())
      : text(std::move(text)), site(CallSite::from(where)) {}
};

void print(const Format& format, const std::vector<Array>& arrays);

/// Writes a line to standard output whenever the program comes here: the format, with the arrays in place of
/// its
/// "{}". In a job of several processes the process stands in front. Under jit an array that is spread over
/// devices is printed once, whole; under shard_map and pmap each device prints its own, under vmap each
/// example. Lines and collectives of a device keep the program's order. Throws ShapeError where places and
/// arrays differ in number.
///   debug::print("loss {} at step {}", loss, step);
template <class... Arrays>
void print(const Format& format, const Arrays&... arrays) {
  print(format, std::vector<Array>{Operand(arrays).as_array()...});
}

/// Fails the program where x holds a NaN or an infinity when it comes here: the call that runs the program
/// throws an Error that names x, how many and where, the process, and this line.
void check_finite(const Operand& x, const std::string& name);

}  // namespace lockstep::debug
