// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

namespace lockstep {

/// Sets `function` to the function of this name of a loaded library; to null, and returns false, if the
/// library has none.
template <class Function>
bool find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace lockstep
