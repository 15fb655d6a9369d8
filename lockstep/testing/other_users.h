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

/// Whether tests can act as other users: this process is root, and others can enter the folder for temporary
/// files. Otherwise prints, once, what tests leave out.
bool can_be_other_users();

/// As long as it lives, the LOCKSTEP_TRUST of whoever runs the tests does not count.
class NoTrust {
 public:
  NoTrust();
  ~NoTrust();
  NoTrust(const NoTrust&) = delete;
  NoTrust& operator=(const NoTrust&) = delete;

 private:
  std::string before_;
};

/// As long as it lives, the whole process acts as the user, with the group of the same number; this needs
/// root.
class AsUser {
 public:
  explicit AsUser(uid_t user);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  const NoTrust none_;
};

/// A file for kOwnUser (if tests cannot act as other users: for this user) that it must not execute or
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

/// Calls `check` for each of these that can be made here, as kOwnUser if that is possible, with a file of
/// that name and contents. The files are gone afterwards.
void for_given_files(const std::string& file, std::string_view contents,
                     const std::function<void(const GivenFile&, const std::filesystem::path&)>& check);

/// A file that another user has put where this one is going to write.
struct PlantedFile {
  std::string name;
  std::string words;  ///< in the reason for not writing it; empty if it is to be written
  /// `own`: a file of the user who is going to write.
  std::function<void(const std::filesystem::path& path, const std::filesystem::path& own)> make;
};

/// One of each kind.
const std::vector<PlantedFile>& planted_files();

/// If tests can act as other users: calls `check` for each of these, as kOwnUser without a umask, with the
/// path in a folder that all can write. Then the test fails if a file of kOwnUser elsewhere was changed or
/// made.
void for_planted_files(const std::string& file,
                       const std::function<void(const PlantedFile&, const std::filesystem::path&)>& check);

/// Writes a file that this process must not execute or believe: of another user, if that is possible;
/// otherwise one that everyone can write. Returns what a refusal says of it.
std::string write_untrusted(const std::filesystem::path& file, std::string_view contents);

}  // namespace lockstep::testing
