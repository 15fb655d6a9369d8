// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "lockstep/cluster/place.h"

namespace lockstep::runtime {

/// A secret for a job of one host whose launcher gives it none, as Open MPI's and MPICH's do not: process 0
/// makes it, and the others read it in a file that only this user can read, named after the job. Process 0
/// removes the file in its destructor, when all have it.
class HandedSecret {
 public:
  HandedSecret() = default;  ///< none

  /// Blocks until the secret is there. Throws InitializationError, saying where it was looked for, if that
  /// takes longer than the timeout. Without a folder of the user's own there is no secret; process 0 logs
  /// why.
  HandedSecret(const cluster::Place& place, const std::filesystem::path& folder,
               std::chrono::milliseconds timeout);
  ~HandedSecret();
  HandedSecret(HandedSecret&& other) noexcept;
  HandedSecret& operator=(HandedSecret&& other) noexcept;

  /// Empty if there is none.
  const std::string& secret() const { return secret_; }

 private:
  void make();
  bool read();

  std::filesystem::path file_;
  std::string secret_;
  bool made_ = false;
};

/// Whether a job needs one: several processes, started on one host by an MPI's launcher, which has chosen the
/// coordinator's address and a job id, and without a secret.
bool hands_secret(const cluster::Place& place, bool address_given);

/// $XDG_RUNTIME_DIR/lockstep or /tmp/lockstep-UID.
std::filesystem::path secret_folder();

}  // namespace lockstep::runtime
