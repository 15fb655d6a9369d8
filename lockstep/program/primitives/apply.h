// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>
#include <utility>

#include "lockstep/program/axis_names.h"
#include "lockstep/program/primitive.h"

/// The functions of lockstep::lax call primitives. They are strict, as in jax.lax: without dtype promotion
/// and broadcasting. They work on `Value`s, in the rules of primitives and in transforms, and on `Array`s, in
/// a user's code: on any type that has an aval() and overloads apply_primitive and apply_primitive_like.
namespace lockstep::ir::lax {

template <class V>
concept Operand = requires(const V& v) {
  { v.aval() } -> std::convertible_to<const Aval&>;
};

template <Operand V>
V apply1(const Primitive& primitive, OpParams params, std::initializer_list<V> inputs) {
  return std::move(
      apply_primitive(primitive, std::move(params), std::span<const V>(inputs.begin(), inputs.size()))
          .front());
}

template <Operand V>
V apply1(const Primitive& primitive, std::initializer_list<V> inputs) {
  return apply1<V>(primitive, OpParams(), inputs);
}

}  // namespace lockstep::ir::lax
