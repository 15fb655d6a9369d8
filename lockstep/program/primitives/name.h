// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& name_p();

struct NameParams {
  static constexpr std::array<std::string_view, 1> kFields = {"name"};
  std::string name;
};

namespace lax {

/// Returns x, and gives it a name for the policies of remat.
template <Operand V>
V name(const V& x, std::string name) {
  return apply1<V>(name_p(), OpParams::of(NameParams{std::move(name)}), {x});
}

}  // namespace lax
}  // namespace lockstep::ir
