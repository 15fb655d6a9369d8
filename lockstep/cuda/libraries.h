// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

namespace lockstep::cuda {

/// From now on libraries are also looked for where this one, as dlopen returned it, looks for its own: the
/// plugin of pip packages finds CUDA's libraries by its RUNPATH.
void search_as(void* library);

/// The first of these libraries of CUDA that can be loaded, and its name in `description`; or null, and why
/// not.
void* load_library(std::initializer_list<const char*> names, std::string& description);

}  // namespace lockstep::cuda
