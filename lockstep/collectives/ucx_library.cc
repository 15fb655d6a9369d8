// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/find_function.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/collectives/ucx.h"

namespace lockstep::collectives {
namespace {

/// UCX takes over the handlers of several signals when it is loaded; they are the program's.
class SignalHandlersKept {
 public:
  SignalHandlersKept() : before_(NSIG) {
    for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, nullptr, &before_[signal]);
  }
  ~SignalHandlersKept() {
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction now {};
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_sigaction != before_[signal].sa_sigaction) {
        sigaction(signal, &before_[signal], nullptr);
      }
    }
  }

 private:
  std::vector<struct sigaction> before_;
};

UcxLibrary load() {
  SignalHandlersKept kept;
  // UCX rewrites the C library's mmap and its kin in memory, for RDMA's sake; it asks the environment once,
  // as it is loaded.
  std::error_code none;
  if (!std::filesystem::exists("/sys/class/infiniband", none)) setenv("UCX_MEM_EVENTS", "n", /*overwrite=*/0);
  std::string why_not;
  void* handle = load_trusted_library("libucp.so.0", &why_not);
  if (handle == nullptr) {
    fail(
        "the processes of this job run on several hosts, whose data is to go through UCX (for RDMA), but it "
        "cannot be loaded: {}. Install it (Debian: libucx0) on every host, or set LOCKSTEP_NETWORK=tcp",
        why_not);
  }
  UcxLibrary library;
  const auto find = [&](auto& function, const char* name) {
    if (!find_function(handle, name, function))
      fail("libucp.so.0 has no {}: expected UCX 1.13 or later", name);
  };
#define LOCKSTEP_UCX_FIND(name) find(library.name, #name);
  LOCKSTEP_UCX_FUNCTIONS(LOCKSTEP_UCX_FIND)
#undef LOCKSTEP_UCX_FIND

  // UCX would write to standard output what Lockstep's own errors say.
  ucs_status_t (*set_option)(const char*, const char*);
  if (find_function(handle, "ucs_global_opts_set_value", set_option) &&
      std::getenv("UCX_LOG_LEVEL") == nullptr)
    set_option("LOG_LEVEL", "FATAL");
  return library;
}

}  // namespace

const UcxLibrary& UcxLibrary::get() {
  static const UcxLibrary library = load();
  return library;
}

}  // namespace lockstep::collectives
