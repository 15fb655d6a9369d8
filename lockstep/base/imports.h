// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Makes the calls of the C function `name` from one shared library, which dlopen has returned, go to
/// `function`; the program and other libraries are not affected. Threads may run the library's code
/// meanwhile. Returns false, and changes nothing, if the library does not import the function, or if the
/// system's libraries are not ELF files of glibc on x86-64 or AArch64.
bool replace_import(void* library, const char* name, void* function);

}  // namespace lockstep
