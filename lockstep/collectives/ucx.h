// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for ucx.cc and ucx_library.cc.
#include <ucp/api/ucp.h>

namespace lockstep::collectives {

/// The functions of UCX that Lockstep uses, found when the library is loaded.
struct UcxLibrary {
// clang-format off
// clang-format off
#define LOCKSTEP_UCX_FUNCTIONS(X)                                                            \
  X(ucp_get_version_string) X(ucp_config_read) X(ucp_config_modify) X(ucp_config_release)    \
  X(ucp_init_version) X(ucp_cleanup) X(ucp_worker_create) X(ucp_worker_destroy)              \
  X(ucp_worker_get_address) X(ucp_worker_release_address) X(ucp_worker_get_efd)              \
  X(ucp_worker_arm) X(ucp_worker_progress) X(ucp_ep_create) X(ucp_ep_close_nbx)              \
  X(ucp_ep_flush_nbx) X(ucp_tag_send_nbx) X(ucp_tag_recv_nbx)                               \
  X(ucp_tag_recv_request_test) X(ucp_request_check_status)           \
  X(ucp_request_cancel) X(ucp_request_free) X(ucs_status_string)
// clang-format on
#define LOCKSTEP_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_UCX_FUNCTIONS(LOCKSTEP_UCX_MEMBER)
#undef LOCKSTEP_UCX_MEMBER

  /// Loads it, once, without changing the process's signal handlers. Throws Error if it cannot be loaded.
  static const UcxLibrary& get();
};

}  // namespace lockstep::collectives
