// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/pmap_axis.h"

#include <utility>

#include "lockstep/array/trace.h"
#include "lockstep/program/primitives/collectives.h"

namespace lockstep::internal {
namespace {

thread_local std::vector<std::string> current_axis;

}  // namespace

const std::vector<std::string>& PmapAxis::current() { return current_axis; }

PmapAxis::PmapAxis(std::string axis) : saved_(std::exchange(current_axis, {std::move(axis)})) {}

PmapAxis::~PmapAxis() { current_axis = std::move(saved_); }

Array own_copy(const Array& x) { return ir::lax::vary_over(x, PmapAxis::current()); }

Array cotangent_of_copies(const Array& cotangent, const Aval& value) {
  const std::vector<std::string> shared = ir::minus(PmapAxis::current(), value.varying);
  if (shared.empty()) return ir::lax::vary_over(cotangent, value.varying);
  return ir::lax::psum(ir::lax::vary_over(cotangent, shared), shared);
}

}  // namespace lockstep::internal
