// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/path_walk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr int kMostLinks = 40;  // as the kernel

class Walk {
 public:
  Walk(const std::string& path, const std::function<void(const PathPart&)>& check)
      : given_(path), check_(check) {
    push(std::filesystem::absolute(path).native());
  }

  PathEnd run() {
    begin_at_root();
    while (!left_.empty()) {
      const std::string name = std::move(left_.back());
      left_.pop_back();
      if (step(name, left_.empty())) return std::move(end_);
    }
    end_.name = ".";  // such as of the root
    end_.status = end_.folder_status;
    end_.path = folder_path_.empty() ? "/" : folder_path_;
    return std::move(end_);
  }

 private:
  [[noreturn]] void give_up(int error) const {
    throw std::system_error(error, std::generic_category(), given_);
  }

  void push(const std::string& path) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      if (std::string name = path.substr(begin, end - begin); !name.empty() && name != ".")
        names.push_back(std::move(name));
      begin = end + 1;
    }
    left_.insert(left_.end(), std::make_move_iterator(names.rbegin()), std::make_move_iterator(names.rend()));
  }

  void begin_at_root() {
    end_.folder = FileDescriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!end_.folder || fstat(end_.folder.get(), &end_.folder_status) != 0) give_up(errno);
    folder_path_ = "";
    check_({"/", end_.folder_status, end_.folder.get()});
  }

  /// Whether this was the end.
  bool step(const std::string& name, bool last) {
    FileDescriptor part = open_part(name, O_NOFOLLOW);
    std::string path = name == ".." ? parent_path() : folder_path_ + "/" + name;
    if (!part) {
      if (errno != ENOENT || !last) give_up(errno);
      end_.name = name;
      end_.path = std::move(path);
      return true;
    }
    struct stat status;
    if (fstat(part.get(), &status) != 0) give_up(errno);
    bool is_magic = false;
    if (S_ISLNK(status.st_mode)) {
      check_({path, status, part.get()});
      if (++links_ > kMostLinks) give_up(ELOOP);
      is_magic = is_in_proc();
      if (!is_magic) {
        follow(part.get());
        return false;
      }
      part = open_part(name, 0);
      if (!part || fstat(part.get(), &status) != 0) give_up(errno);
    }
    check_({path, status, part.get()});
    if (last) {
      end_.name = name;
      end_.path = std::move(path);
      end_.status = status;
      end_.is_magic = is_magic;
      return true;
    }
    if (!S_ISDIR(status.st_mode)) give_up(ENOTDIR);
    end_.folder = std::move(part);
    end_.folder_status = status;
    folder_path_ = path == "/" ? "" : std::move(path);
    return false;
  }

  FileDescriptor open_part(const std::string& name, int flags) const {
    flags |= O_PATH | O_CLOEXEC;
    // Only as a folder it is mounted where it is an automount.
    FileDescriptor part(openat(end_.folder.get(), name.c_str(), flags | O_DIRECTORY));
    if (!part && (errno == ENOTDIR || errno == ELOOP))
      part = FileDescriptor(openat(end_.folder.get(), name.c_str(), flags));
    return part;
  }

  bool is_in_proc() const {
    struct statfs system {};
    return fstatfs(end_.folder.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
  }

  void follow(int link) {
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlinkat(link, "", target.data(), target.size());
    if (size <= 0) give_up(size == 0 ? ENOENT : errno);
    target.resize(static_cast<std::size_t>(size));
    push(target);
    if (target.front() == '/') begin_at_root();
  }

  std::string parent_path() const {
    const std::string parent = folder_path_.substr(0, folder_path_.rfind('/'));
    return parent.empty() ? "/" : parent;
  }

  const std::string& given_;
  const std::function<void(const PathPart&)>& check_;
  std::vector<std::string> left_;  // names, the next one last
  std::string folder_path_;        // empty: of the root
  PathEnd end_;
  int links_ = 0;
};

}  // namespace

int PathEnd::open(int flags, mode_t mode) const {
  return openat(folder.get(), name.c_str(), flags | O_CLOEXEC | (is_magic ? 0 : O_NOFOLLOW), mode);
}

PathEnd walk_path(const std::string& path, const std::function<void(const PathPart&)>& check) {
  return Walk(path, check).run();
}

}  // namespace lockstep
