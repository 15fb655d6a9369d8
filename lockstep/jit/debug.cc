// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/debug.h"

#include "lockstep/array/trace.h"
#include "lockstep/program/primitives/debug.h"

namespace lockstep::debug {

void print(const Format& format, const std::vector<Array>& arrays) {
  CallSiteScope scope(format.site);
  apply_primitive(ir::debug_p(), ir::OpParams::of(ir::DebugParams{format.text, false}), arrays);
}

void check_finite(const Operand& x, const std::string& name) {
  CallSiteScope scope(x.site());
  apply_primitive(ir::debug_p(), ir::OpParams::of(ir::DebugParams{name, true}),
                  std::vector<Array>{x.as_array()});
}

}  // namespace lockstep::debug
