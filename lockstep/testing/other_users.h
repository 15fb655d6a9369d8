// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

/// Users that no host has.
inline constexpr uid_t kOwnUser = 61001, kOtherUser = 61002;
/// A group that is nobody's private one.
inline constexpr gid_t kSharedGroup = 61003;

/// Whether tests can act as other users: this process is root. Otherwise prints, once, what tests leave out.
bool can_be_other_users();

/// As long as it lives, the whole process acts as the user, with the group of the same number; this needs
/// root.
class AsUser {
 public:
  explicit AsUser(uid_t user);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

/// A file for kOwnUser (as who is asked, if this is not root: for this user) that it must not execute or
/// believe, or, if `words` is "good", one that it may.
struct GivenFile {
  std::string name;
  std::string words;  ///< in the reason; "missing": it counts as not there; "good"
  bool needs_root = true;
  /// Makes the file `file`, with these contents, in or below the empty folder, and returns its path.
  std::function<std::filesystem::path(const std::filesystem::path& folder, const std::string& file,
                                      std::string_view contents)>
      make;
};

/// One of each kind.
const std::vector<GivenFile>& given_files();

/// Calls `check` for each of these that can be made here, as kOwnUser if this process is root, with a file of
/// that name and contents. The files are gone afterwards.
void for_given_files(const std::string& file, std::string_view contents,
                     const std::function<void(const GivenFile&, const std::filesystem::path&)>& check);

}  // namespace lockstep::testing
