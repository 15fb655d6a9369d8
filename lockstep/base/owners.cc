// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/owners.h"

#include <grp.h>
#include <pwd.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kEntry = 1 << 16;  // bytes of an entry of the user database

struct User {
  std::string name;
  uid_t id;
  gid_t group;
};

template <class Find>
std::optional<User> user_by(Find find) {
  passwd entry{}, *found = nullptr;
  std::vector<char> buffer(kEntry);
  if (find(&entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return std::nullopt;
  return User{found->pw_name, found->pw_uid, found->pw_gid};
}

std::optional<User> user_of(uid_t id) {
  return user_by([&](auto... rest) { return getpwuid_r(id, rest...); });
}

struct Group {
  std::string name;
  gid_t id;
  std::vector<std::string> members;  // besides those whose own group it is
};

template <class Find>
std::optional<Group> group_by(Find find) {
  group entry{}, *found = nullptr;
  std::vector<char> buffer(kEntry);
  int error = 0;
  while ((error = find(&entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < (64U << 20))
    buffer.resize(buffer.size() * 4);
  if (error != 0 || found == nullptr) return std::nullopt;
  Group result{found->gr_name, found->gr_gid, {}};
  for (char** member = found->gr_mem; *member != nullptr; ++member) result.members.emplace_back(*member);
  return result;
}

std::optional<Group> group_of(gid_t id) {
  return group_by([&](auto... rest) { return getgrgid_r(id, rest...); });
}

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Whether the group is the user's private one: of the same name, with no other members. Without a database,
/// as in many containers, of the same number.
bool is_private_group(uid_t user, gid_t id) {
  const std::optional<Group> group = group_of(id);
  if (!group) return user == id;
  const std::optional<User> owner = user_of(user);
  return owner && owner->group == id && owner->name == group->name &&
         std::ranges::all_of(group->members,
                             [&](const std::string& member) { return member == owner->name; });
}

bool is_member(uid_t user, gid_t group) {
  const std::optional<User> owner = user_of(user);
  if (!owner) return false;
  std::vector<gid_t> groups(64);
  for (int count = 0;; groups.resize(groups.size() * 2)) {
    count = static_cast<int>(groups.size());
    if (getgrouplist(owner->name.c_str(), owner->group, groups.data(), &count) >= 0) {
      groups.resize(static_cast<std::size_t>(count));
      return std::ranges::count(groups, group) > 0;
    }
    if (groups.size() > (1U << 17)) return false;
  }
}

std::string name_of_group(gid_t id) {
  const std::optional<Group> group = group_of(id);
  return group ? fmt::format("{} (gid {})", shown(group->name), id) : fmt::format("gid {}", id);
}

/// Such lists let others write whom the mode does not show.
bool has_access_list(int descriptor) {
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  return getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

}  // namespace

std::string name_of_user(uid_t id) {
  const std::optional<User> user = user_of(id);
  return user ? fmt::format("{} (uid {})", shown(user->name), id) : fmt::format("uid {}", id);
}

Owners::Owners() : users_{geteuid(), 0} {
  struct stat status;
  for (const char* path : {"/proc/self/exe", "/"})
    if (stat(path, &status) == 0) users_.push_back(status.st_uid);
  const std::string words = Environment::process().get("LOCKSTEP_TRUST").value_or("");
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    begin = end + 1;
    constexpr std::string_view kGroup = "group:";
    if (word.empty()) continue;
    if (word == "everyone") {
      everyone_ = true;
    } else if (word.starts_with(kGroup)) {
      const std::string name = word.substr(kGroup.size());
      const auto group = group_by([&](auto... rest) { return getgrnam_r(name.c_str(), rest...); });
      const auto number = group ? group->id : number_in(name);
      if (!number) fail("LOCKSTEP_TRUST names the group '{}', which this host does not know", shown(name));
      groups_.push_back(*number);
    } else {
      const auto user = user_by([&](auto... rest) { return getpwnam_r(word.c_str(), rest...); });
      const auto number = user ? user->id : number_in(word);
      if (!number) {
        fail(
            "LOCKSTEP_TRUST names the user '{}', whom this host does not know: expected users, group:NAME, "
            "or everyone, separated by commas",
            shown(word));
      }
      users_.push_back(*number);
    }
  }
}

bool Owners::trusts_owner(const struct stat& status) const {
  if (everyone_ || std::ranges::count(users_, status.st_uid) > 0) return true;
  return std::ranges::any_of(groups_, [&](gid_t group) { return is_member(status.st_uid, group); });
}

bool Owners::trusts_group(const struct stat& status) const {
  return std::ranges::count(groups_, status.st_gid) > 0 ||
         std::ranges::any_of(users_, [&](uid_t user) { return is_private_group(user, status.st_gid); });
}

std::string Owners::distrust(const struct stat& status, int descriptor) const {
  if (everyone_) return "";
  if (!trusts_owner(status)) {
    const std::optional<User> owner = user_of(status.st_uid);
    return fmt::format(
        "belongs to user {}, and not to {}root: use one of your own, or set LOCKSTEP_TRUST={} if you trust "
        "that user",
        name_of_user(status.st_uid), geteuid() == 0 ? "" : name_of_user(geteuid()) + " or ",
        owner ? shown(owner->name) : std::to_string(status.st_uid));
  }
  if (S_ISLNK(status.st_mode) || (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0)) return "";
  const unsigned mode = status.st_mode & 07777;
  if ((mode & S_IWOTH) != 0) {
    return fmt::format(
        "can be written by everyone (its mode is {:04o}): run chmod go-w on it, or set "
        "LOCKSTEP_TRUST=everyone if there are no others",
        mode);
  }
  if ((mode & S_IWGRP) == 0 || std::ranges::count(groups_, status.st_gid) > 0) return "";
  if (has_access_list(descriptor)) {
    return fmt::format(
        "can be written by those whom its access control list names (its mode is {:04o}): run setfacl -b and "
        "chmod g-w on it, or set LOCKSTEP_TRUST=everyone if you trust them",
        mode);
  }
  if (trusts_group(status)) return "";
  const std::optional<Group> group = group_of(status.st_gid);
  return fmt::format(
      "can be written by the group {} (its mode is {:04o}): run chmod g-w on it, or set "
      "LOCKSTEP_TRUST=group:{} if you trust its members",
      name_of_group(status.st_gid), mode, group ? shown(group->name) : std::to_string(status.st_gid));
}

}  // namespace lockstep
