// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/visitor.h"

namespace lockstep::tree {

void Visitor::field(std::string_view name, const void* part, VisitPart visit) {
  const std::size_t from = path.to_field(name);
  visit(const_cast<void*>(part), *this);
  path.back(from);
}

void Visitor::element(std::size_t i, const void* part, VisitPart visit) {
  const std::size_t from = path.to_element(i);
  visit(const_cast<void*>(part), *this);
  path.back(from);
}

}  // namespace lockstep::tree
