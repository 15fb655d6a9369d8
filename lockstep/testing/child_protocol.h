// SPDX-License-Identifier: Apache-2.0
#pragma once

// How Processes tells the executable which child to run; only for the sources of this folder.

namespace lockstep::testing {

inline constexpr const char* kChildVariable = "LOCKSTEP_TESTING_CHILD";
inline constexpr const char* kIndexVariable = "LOCKSTEP_TESTING_INDEX";
inline constexpr const char* kCountVariable = "LOCKSTEP_TESTING_COUNT";
inline constexpr const char* kParentVariable = "LOCKSTEP_TESTING_PARENT";

/// The child's name with which it executes the program in the arguments.
inline constexpr const char* kExecuteChild = "(execute)";

inline constexpr int kExitExpectationFailed = 1;
inline constexpr int kExitThrew = 2;
inline constexpr int kExitNoSuchChild = 124;
inline constexpr int kExitOrphan = 125;

}  // namespace lockstep::testing
