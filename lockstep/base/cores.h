// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// The cores (hardware threads) of this host on which threads may run.
namespace lockstep {

/// A set of cores in the kernel's form, one bit for each; for any number of cores.
using CoreMask = std::vector<unsigned long>;
CoreMask to_mask(const std::vector<int>& cores);
std::vector<int> from_mask(const CoreMask& mask);

/// The cores on which the calling thread may run; empty if the kernel does not tell.
CoreMask allowed_cores();

/// Lets the calling thread, and threads that it starts later, run on these cores only. Returns whether the
/// kernel agreed.
bool set_allowed_cores(const CoreMask& mask);

/// "0-3,8" for cores in this order.
std::string name_cores(const std::vector<int>& cores);

/// The cores of such a text; empty if it is none.
std::vector<int> cores_of(std::string_view names);

/// The variable in which the launcher gives a process that it has bound to some cores those of all its
/// processes on the host.
inline constexpr const char* kHostCoresVariable = "LOCKSTEP_HOST_CORES";

/// While it exists, the calling thread, and threads that it starts, may run on all cores of the job on this
/// host: for work that other processes wait for, idly.
class OnHostCores {
 public:
  OnHostCores();
  ~OnHostCores();
  OnHostCores(const OnHostCores&) = delete;
  OnHostCores& operator=(const OnHostCores&) = delete;

 private:
  CoreMask before_;  // empty: nothing was changed
};

}  // namespace lockstep
