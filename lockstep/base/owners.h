// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace lockstep {

/// The users and groups whose files this process trusts: its own user, root, the owner of its program (whose
/// code runs anyway), the owner of / (who is shown as nobody where a container does not know root), and those
/// that LOCKSTEP_TRUST names: "bob,1002,group:lab", or "everyone".
class Owners {
 public:
  /// Reads the environment. Throws Error if LOCKSTEP_TRUST names a user or group that does not exist.
  Owners();

  /// Whether the owner is trusted: of a link, or of a file that is written to.
  bool trusts_owner(const struct stat& status) const;

  /// Why a file or folder is not trusted, by its owner and mode, without its path: "belongs to user bob (uid
  /// 1002)". Empty if it is. A sticky folder may be writable by others, who cannot exchange what is in it.
  /// `descriptor`: opened with O_PATH, for its access control list.
  std::string distrust(const struct stat& status, int descriptor) const;

 private:
  bool trusts_group(const struct stat& status) const;

  bool everyone_ = false;
  std::vector<uid_t> users_;
  std::vector<gid_t> groups_;
};

/// "bob (uid 1002)"; "uid 1002" if it has no name.
std::string name_of_user(uid_t user);

}  // namespace lockstep
