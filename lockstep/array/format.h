#pragma once

#include <fmt/format.h>

#include <string>

#include "lockstep/array/print.h"

/// An array in the format strings of fmt, as array_str gives it: fmt::print("loss {}", loss). Not a part of
/// lockstep/lockstep.h, for fmt takes a while to compile.
template <>
struct fmt::formatter<lockstep::Array> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const lockstep::Array& x, Context& context) const {
    return fmt::formatter<std::string>::format(lockstep::array_str(x), context);
  }
};
