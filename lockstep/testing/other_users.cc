// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/other_users.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "lockstep/base/fail.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::testing {
namespace fs = std::filesystem;
bool can_be_other_users() {
  static const bool can = [] {
    const char* why = geteuid() == 0 ? nullptr : "this is not root";
    for (fs::path above = fs::temp_directory_path(); above.has_relative_path(); above = above.parent_path())
      if ((fs::status(above).permissions() & fs::perms::others_exec) == fs::perms::none)
        why = "others cannot enter the folder for temporary files";
    if (why != nullptr) std::fprintf(stderr, "%s: files of other users and groups are left out\n", why);
    return why == nullptr;
  }();
  return can;
}

namespace {

void must_work(bool worked, const char* what) {
  if (!worked) fail("[testing] {}: {}", what, std::strerror(errno));
}

void give(const fs::path& path, uid_t user, mode_t mode, gid_t group = static_cast<gid_t>(-1)) {
  if (can_be_other_users())
    must_work(lchown(path.c_str(), user, group == static_cast<gid_t>(-1) ? user : group) == 0, "chown");
  if (!fs::is_symlink(path)) must_work(chmod(path.c_str(), mode) == 0, "chmod");
}

void folder(const fs::path& path, uid_t user, mode_t mode, gid_t group = static_cast<gid_t>(-1)) {
  fs::create_directory(path);
  give(path, user, mode, group);
}

fs::path write(const fs::path& path, std::string_view contents, uid_t user, mode_t mode,
               gid_t group = static_cast<gid_t>(-1)) {
  std::ofstream(path, std::ios::binary) << contents;
  give(path, user, mode, group);
  return path;
}

fs::path link(const fs::path& path, const fs::path& to, uid_t user) {
  fs::create_symlink(to, path);
  give(path, user, 0);
  return path;
}

class NoUmask {
 public:
  NoUmask() : before_(umask(0)) {}
  ~NoUmask() { umask(before_); }

 private:
  const mode_t before_;
};

/// In a folder of `owner`.
auto in_folder_of(uid_t owner, mode_t mode, gid_t group, uid_t owner_of_file = kOwnUser) {
  return [=](const fs::path& in, const std::string& file, std::string_view contents) {
    folder(in / "folder", owner, mode, group);
    return write(in / "folder" / file, contents, owner_of_file, 0644);
  };
}

auto of_mode(uid_t owner, mode_t mode, gid_t group) {
  return [=](const fs::path& in, const std::string& file, std::string_view contents) {
    return write(in / file, contents, owner, mode, group);
  };
}

std::vector<GivenFile> make_given_files() {
  std::vector<GivenFile> files;
  const auto add = [&](const char* name, const char* words, bool needs_root, auto make) {
    files.push_back({name, words, needs_root, make});
  };
  add("a file of its own", "good", false, of_mode(kOwnUser, 0644, kOwnUser));
  add("a file of root", "good", true, of_mode(0, 0644, 0));
  add("a file that its private group can write", "good", true, of_mode(kOwnUser, 0664, kOwnUser));
  add("a file in a sticky folder", "good", false, in_folder_of(0, 01777, 0));
  add("a link of its own to a file of its own", "good", false,
      [](const fs::path& in, const std::string& file, std::string_view contents) {
        folder(in / "shared", 0, 01777);
        return link(in / "shared" / file, write(in / "target", contents, kOwnUser, 0644), kOwnUser);
      });
  add("a file of another user", "belongs to user uid 61002", true, of_mode(kOtherUser, 0644, kOtherUser));
  add("a folder of another user", "belongs to user uid 61002", true,
      in_folder_of(kOtherUser, 0755, kOtherUser));
  add("a sticky folder of another user", "belongs to user uid 61002", true,
      in_folder_of(kOtherUser, 01777, kOtherUser));
  add("a folder of another user further above", "belongs to user uid 61002", true,
      [](const fs::path& in, const std::string& file, std::string_view contents) {
        folder(in / "other", kOtherUser, 0755);
        folder(in / "other" / "own", kOwnUser, 0755);
        return write(in / "other" / "own" / file, contents, kOwnUser, 0644);
      });
  add("a link of another user to a file of its own", "the link", true,
      [](const fs::path& in, const std::string& file, std::string_view contents) {
        folder(in / "shared", 0, 01777);
        return link(in / "shared" / file, write(in / "target", contents, kOwnUser, 0644), kOtherUser);
      });
  add("a folder that is a link of another user", "the link", true,
      [](const fs::path& in, const std::string& file, std::string_view contents) {
        folder(in / "shared", 0, 01777);
        folder(in / "own", kOwnUser, 0755);
        link(in / "shared" / "folder", in / "own", kOtherUser);
        write(in / "own" / file, contents, kOwnUser, 0644);
        return in / "shared" / "folder" / file;
      });
  add("a link of its own to a folder of another user", "belongs to user uid 61002", true,
      [](const fs::path& in, const std::string& file, std::string_view contents) {
        folder(in / "other", kOtherUser, 0755);
        return link(in / file, write(in / "other" / "target", contents, kOwnUser, 0644), kOwnUser);
      });
  add("a file that a group can write", "can be written by the group gid 61003", true,
      of_mode(kOwnUser, 0664, kSharedGroup));
  add("a folder that a group can write", "can be written by the group gid 61003", true,
      in_folder_of(kOwnUser, 0775, kSharedGroup));
  add("a file that everyone can write", "can be written by everyone", false,
      of_mode(kOwnUser, 0666, kOwnUser));
  add("a folder that everyone can write", "can be written by everyone", false,
      in_folder_of(kOwnUser, 0777, kOwnUser));
  add("a FIFO", "is a FIFO", false, [](const fs::path& in, const std::string& file, std::string_view) {
    must_work(mkfifo((in / file).c_str(), 0600) == 0, "mkfifo");
    give(in / file, kOwnUser, 0600);
    return in / file;
  });
  add("a socket", "is a socket", false, [](const fs::path& in, const std::string& file, std::string_view) {
    sockaddr_un address{.sun_family = AF_UNIX};
    const std::string path = in / "s";
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must_work(bind(made, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    close(made);
    fs::rename(in / "s", in / file);
    give(in / file, kOwnUser, 0600);
    return in / file;
  });
  add("a folder", "is a folder", false, [](const fs::path& in, const std::string& file, std::string_view) {
    folder(in / file, kOwnUser, 0755);
    return in / file;
  });
  add("a link to nothing", "missing", false,
      [](const fs::path& in, const std::string& file, std::string_view) {
        return link(in / file, "nowhere", kOwnUser);
      });
  add("a link to itself", "Too many levels", false,
      [](const fs::path& in, const std::string& file, std::string_view) {
        return link(in / file, in / file, kOwnUser);
      });
  return files;
}

}  // namespace

NoTrust::NoTrust() {
  if (const char* const value = std::getenv("LOCKSTEP_TRUST")) before_ = value;
  unsetenv("LOCKSTEP_TRUST");
}

NoTrust::~NoTrust() {
  if (!before_.empty()) setenv("LOCKSTEP_TRUST", before_.c_str(), 1);
}

AsUser::AsUser(uid_t user) {
  must_work(setgroups(0, nullptr) == 0 &&
                setresgid(static_cast<gid_t>(-1), user, static_cast<gid_t>(-1)) == 0 &&
                setresuid(static_cast<uid_t>(-1), user, static_cast<uid_t>(-1)) == 0,
            "acting as another user");
}

AsUser::~AsUser() {
  if (setresuid(static_cast<uid_t>(-1), 0, static_cast<uid_t>(-1)) != 0 ||
      setresgid(static_cast<gid_t>(-1), 0, static_cast<gid_t>(-1)) != 0)
    std::abort();
}

const std::vector<GivenFile>& given_files() {
  static const std::vector<GivenFile> files = make_given_files();
  return files;
}

void for_given_files(const std::string& file, std::string_view contents,
                     const std::function<void(const GivenFile&, const std::filesystem::path&)>& check) {
  const NoTrust none;
  for (const GivenFile& given : given_files()) {
    if (given.needs_root && !can_be_other_users()) continue;
    SCOPED_TRACE(given.name);
    const TemporaryFolder all;
    fs::permissions(all.path(), fs::perms(0755));
    folder(all.path() / "in", kOwnUser, 0755);
    const fs::path path = given.make(all.path() / "in", file, contents);
    if (!can_be_other_users()) {
      check(given, path);
    } else {
      const AsUser own(kOwnUser);
      check(given, path);
    }
  }
}

const std::vector<PlantedFile>& planted_files() {
  static const std::vector<PlantedFile> files = {
      {"nothing", "", [](const fs::path&, const fs::path&) {}},
      {"a link to a file of the user", "the link",
       [](const fs::path& path, const fs::path& own) { fs::create_symlink(own, path); }},
      {"a link to a new file of the user", "the link",
       [](const fs::path& path, const fs::path& own) { fs::create_symlink(own.string() + "-new", path); }},
      {"a link to a folder of the user", "the link",
       [](const fs::path& path, const fs::path& own) { fs::create_symlink(own.parent_path(), path); }},
      {"a FIFO", "belongs to user uid 61002",
       [](const fs::path& path, const fs::path&) { must_work(mkfifo(path.c_str(), 0666) == 0, "mkfifo"); }},
      {"a file", "belongs to user uid 61002",
       [](const fs::path& path, const fs::path&) { std::ofstream(path) << "planted"; }},
      {"a folder", "belongs to user uid 61002",
       [](const fs::path& path, const fs::path&) { fs::create_directory(path); }},
  };
  return files;
}

void for_planted_files(const std::string& file,
                       const std::function<void(const PlantedFile&, const fs::path&)>& check) {
  if (!can_be_other_users()) return;
  for (const PlantedFile& planted : planted_files()) {
    SCOPED_TRACE(planted.name);
    const TemporaryFolder all;
    fs::permissions(all.path(), fs::perms(0755));
    const fs::path shared = all.path() / "shared", home = all.path() / "home", own = home / "profile";
    folder(shared, 0, 01777);
    folder(home, kOwnUser, 0755);
    write(own, "mine", kOwnUser, 0644);
    const NoUmask none;
    {
      const AsUser other(kOtherUser);
      planted.make(shared / file, own);
    }
    {
      const AsUser user(kOwnUser);
      check(planted, shared / file);
    }
    std::string text;
    std::ifstream(own) >> text;
    EXPECT_EQ(text, "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(home), {}), 1) << "a file was made in the user's folder";
  }
}

std::string write_untrusted(const fs::path& file, std::string_view contents) {
  write(file, contents, kOtherUser, can_be_other_users() ? 0644 : 0666);
  return file.string() +
         (can_be_other_users() ? " belongs to user uid 61002" : " can be written by everyone");
}

}  // namespace lockstep::testing
