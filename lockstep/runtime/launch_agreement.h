// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/coordination/client/client.h"

namespace lockstep::runtime {

/// Compares what processes launch over the same devices, for platforms whose compiler makes the collectives.
/// What these send says nothing about the program: NCCL combines one process's sum with another one's
/// maximum, and both get a wrong value.
///
/// The first launch of each program is compared before it runs, together with all launches before it, and
/// what was launched after the last of these in `finish`. For this, each process writes the number and a hash
/// of its launches to the job's store; the first of the processes compares them and writes the verdict.
class LaunchAgreement {
 public:
  /// Called before DivergenceError is thrown. `minority` has the processes that differ from most; it is empty
  /// on processes that only hear of the difference.
  using OnDifference = std::function<void(const std::vector<int>& minority, const std::string& message)>;

  LaunchAgreement(coordination::CoordinationClient& client, OnDifference on_difference);
  ~LaunchAgreement();

  /// The launches of this process over some devices.
  class Group;

  /// The group of these devices, given by their numbers in any order. `processes` are those that have them,
  /// ascending, at least two. Lives as long as this object.
  Group& group(std::vector<int> devices, std::vector<int> processes);

  /// Call it before each launch over the group; `mesh` and `program` are the same for the same launch. The
  /// first time for each program it blocks until all processes of the group have come to such a first launch.
  /// Throws DivergenceError if they differ in that launch or in an earlier one, and PeerFailure if the job
  /// fails meanwhile. `name` is "step(f32[8])".
  void before_launch(Group& group, Fingerprint mesh, Fingerprint program, const std::string& name);

  /// Blocks until all processes of the job have called it, at most for `timeout`; throws DivergenceError if
  /// their launches differ.
  void finish(std::chrono::milliseconds timeout);

 private:
  struct Launches;  // of one process over one group
  struct Difference {
    std::vector<int> minority;  ///< the processes that differ from most
    std::string text;
  };

  /// Throws DivergenceError if the processes do not say the same.
  void compare(const std::string& place, const std::vector<int>& processes, const std::vector<Launches>& own,
               std::optional<std::chrono::milliseconds> timeout);
  /// Given what each process says: the first group of which it does not say the same.
  std::optional<Difference> find_difference(const std::map<int, std::vector<Launches>>& said) const;
  std::string get(const std::string& key, std::optional<std::chrono::milliseconds> timeout);
  std::string own_log() const;
  std::string with_logs(const std::string& place, const std::vector<int>& processes, std::string otherwise);

  coordination::CoordinationClient& client_;
  const OnDifference on_difference_;
  std::mutex mutex_;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups_;  ///< by devices
};

}  // namespace lockstep::runtime
