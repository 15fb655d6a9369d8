// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>

#include "lockstep/array/print.h"

/// Formats an array with fmt, as array_str does: fmt::print("loss {}", loss). Not included by
/// lockstep/lockstep.h, because fmt takes time to compile.
template <>
struct fmt::formatter<lockstep::Array> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const lockstep::Array& x, Context& context) const {
    return fmt::formatter<std::string>::format(lockstep::array_str(x), context);
  }
};
