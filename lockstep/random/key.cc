// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/key.h"

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/shape.h"
#include "lockstep/tree/visit.h"

namespace lockstep {

random::Key internal::key_at(const random::Key& keys, std::int64_t i, const std::source_location& where) {
  CallSiteScope here(CallSite::from(where));
  if (keys.valid() && keys.shape().empty())
    fail<ShapeError>("[random::Key] expected several keys, got one, {}{}", to_string(keys.data().aval()),
                     ops::at());
  return index(Operand(keys.data(), where), i);
}

namespace random {

Shape Key::shape() const {
  Shape shape = words_.shape();
  if (!shape.empty()) shape.pop_back();
  return shape;
}

Key Key::operator[](const At& at) const { return internal::key_at(*this, at.i, at.where); }

void Key::tree_parts(Key& self, tree::Parts& part) { part("data", self.words_); }

}  // namespace random
}  // namespace lockstep
