// SPDX-License-Identifier: Apache-2.0
#pragma once

// One error for a compiler that Lockstep does not support. Headers that users include hide the rest from it.

#if __cplusplus < 202002L
#error "Lockstep needs C++20: compile with -std=c++20, or target_compile_features(... cxx_std_20) in CMake"
#define LOCKSTEP_UNSUPPORTED_COMPILER
#elif (defined(__clang__) && __clang_major__ < 16) || \
    (!defined(__clang__) && defined(__GNUC__) && __GNUC__ < 12)
#error "Lockstep needs g++ 12 or clang 16, or a later version of one of them"
#define LOCKSTEP_UNSUPPORTED_COMPILER
#endif
