// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

namespace lockstep {
namespace {

using Path = std::filesystem::path;

// The path of this process's group: in the hierarchy of the controller for version 1, in the only hierarchy
// for version 2 (empty controller). nullopt if there is no such hierarchy.
std::optional<std::string> group_of(const Path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string number, controllers, path;
    std::getline(words, number, ':');
    std::getline(words, controllers, ':');
    std::getline(words, path);
    if (controller.empty() ? controllers.empty()
                           : ("," + controllers + ",").find("," + controller + ",") != std::string::npos)
      return path;
  }
  return std::nullopt;
}

// Each group limits all those in it. In a container the path may be the host's, which is not to be seen
// there; then the mount itself is the container's group.
std::optional<double> lowest(const Path& mount, const std::string& group,
                             const std::function<std::optional<double>(const Path&)>& quota_of) {
  const Path own = mount / Path(group).relative_path();
  std::optional<double> found;
  for (Path folder = std::filesystem::exists(own) ? own : mount;; folder = folder.parent_path()) {
    const std::optional<double> quota = quota_of(folder);
    if (quota) found = std::min(found.value_or(*quota), *quota);
    if (folder == mount || folder == folder.parent_path()) return found;
  }
}

// cpu.max: "150000 100000", or "max 100000".
std::optional<double> quota_of_version_2(const Path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_of_version_1(const Path& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
  std::ifstream(folder / "cpu.cfs_period_us") >> period;
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<double> cpu_quota(const Path& root) {
  const Path mounts = root / "sys/fs/cgroup";
  if (const auto group = group_of(root, "cpu")) return lowest(mounts / "cpu", *group, quota_of_version_1);
  if (const auto group = group_of(root, "")) return lowest(mounts, *group, quota_of_version_2);
  return std::nullopt;
}

}  // namespace lockstep
