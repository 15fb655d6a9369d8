// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep {

/// Throws Error, which names the operation and the current call site, if the thread's thread_local objects
/// are destroyed: then it is in the destructor of a global or static object, after main, and what the library
/// computes with is being destroyed, too.
void check_before_end(std::string_view operation);

}  // namespace lockstep
