// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// A process's place in its job, from its environment.
struct Place {
  std::string cluster;  ///< The cluster type that matched, by its name in kClusterTypes.
  std::string why;      ///< the variables or files by which it was detected, for logs and errors:
                        ///< "LOCKSTEP_PROCESS_ID=2, ..."

  std::string coordinator_address;  ///< "host:port"; empty in a job of one process without a coordinator
  int num_processes = 1;
  int process_id = 0;
  std::optional<std::vector<int>> local_device_ids;  ///< among the devices that this process may use;
                                                     ///< nullopt: all

  /// The process's number among those of its host, if the launcher gives it. A process with several GPUs and
  /// without local_device_ids uses the GPU with this number.
  std::optional<int> local_process_id;

  std::string job_id;      ///< empty if there is none
  int attempt = 0;         ///< the number of restarts of the job
  std::string job_secret;  ///< Known only to the processes of the job; empty if there is none.
};

}  // namespace lockstep::cluster
