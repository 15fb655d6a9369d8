// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep::watch {
namespace {

/// The reports of the processes of one mesh.
struct OverMesh {
  std::uint64_t mesh = 0;
  std::vector<std::pair<int, const MeshReport*>> processes;
  bool ordered = true;
};

std::vector<OverMesh> by_mesh(std::span<const ProcessReport> reports) {
  std::map<std::uint64_t, OverMesh> all;
  for (const ProcessReport& report : reports) {
    for (const MeshReport& mesh : report.meshes) {
      OverMesh& one = all[mesh.mesh];
      one.mesh = mesh.mesh;
      one.processes.emplace_back(report.process, &mesh);
      one.ordered = one.ordered && !mesh.unordered;
    }
  }
  std::vector<OverMesh> list;
  for (auto& [mesh, one] : all)
    if (one.processes.size() > 1) list.push_back(std::move(one));
  return list;
}

/// The processes that launched the same program as launch `number`; a program's text is in its first launch
/// of a log.
Difference::Side side_of(const std::vector<std::pair<int, const MeshReport*>>& same, std::uint64_t number) {
  const MeshReport& mesh = *same.back().second;
  const LaunchReport& launch = *launch_of(mesh, number);
  Difference::Side side{.what = launch.what, .site = launch.site};
  for (const auto& [process, report] : same) side.processes.push_back(process);
  const auto first = std::ranges::find(mesh.log, launch.program, &LaunchReport::program);
  side.text = first->text;
  return side;
}

}  // namespace

bool hashes_differ(std::span<const ProcessReport> reports) {
  for (const OverMesh& over : by_mesh(reports)) {
    if (!over.ordered) continue;
    std::map<std::uint64_t, std::uint64_t> hash_at;
    for (const auto& [process, mesh] : over.processes) {
      if (mesh->launches != 0 && hash_at.try_emplace(mesh->launches, mesh->hash).first->second != mesh->hash)
        return true;
      for (const LaunchReport& launch : mesh->log)
        if (hash_at.try_emplace(launch.number, launch.hash).first->second != launch.hash) return true;
    }
  }
  return false;
}

std::optional<Difference> find_difference(std::span<const ProcessReport> reports) {
  std::optional<Difference> found;
  for (OverMesh& over : by_mesh(reports)) {
    if (!over.ordered) continue;
    std::uint64_t least = ~std::uint64_t{0}, first = 1;
    // Processes without a log say nothing about single launches.
    std::erase_if(over.processes, [](const auto& each) { return each.second->log.empty(); });
    if (over.processes.size() < 2) continue;
    for (const auto& [process, mesh] : over.processes) {
      least = std::min(least, mesh->log.back().number);
      first = std::max(first, mesh->log.front().number);
    }
    for (std::uint64_t number = first; number <= least; ++number) {
      std::map<std::uint64_t, std::vector<std::pair<int, const MeshReport*>>> sides;  // by hash
      for (const auto& each : over.processes) {
        if (const LaunchReport* const launch = launch_of(*each.second, number))
          sides[launch->hash].push_back(each);
      }
      if (sides.size() < 2) continue;
      Difference difference{.mesh = over.mesh,
                            .number = number,
                            .unchecked = over.processes.front().second->unchecked,
                            .earlier_lost = number == first && first > 1};
      for (const auto& [hash, same] : sides) difference.sides.push_back(side_of(same, number));
      // The most processes first; of as many, in the order of the processes and not of their hashes.
      std::ranges::sort(difference.sides, {}, [](const Difference::Side& side) {
        return std::pair(-std::ssize(side.processes), std::ranges::min(side.processes));
      });
      found = std::move(difference);
      break;
    }
    if (found) return found;
  }
  return found;
}

std::string describe(const Difference& difference, int process_count) {
  std::string text = fmt::format("launch {}{} over the mesh differs:", difference.number,
                                 difference.earlier_lost ? " (or an earlier one that is not kept)" : "");
  for (std::size_t i = 0; i < difference.sides.size(); ++i) {
    const auto& side = difference.sides[i];
    text +=
        fmt::format("{} {} {} of {} launched {}{}",
                    i == 0                             ? ""
                    : i + 1 == difference.sides.size() ? ", but"
                                                       : ",",
                    side.processes.size() == 1 ? "process" : "processes", describe_processes(side.processes),
                    process_count, side.what, side.site.empty() ? "" : " at " + side.site);
  }
  // The first line of the programs that differs.
  if (difference.sides.size() >= 2) {
    std::string_view a = difference.sides[0].text, b = difference.sides[1].text;
    const auto line = [](std::string_view& rest) {
      const std::size_t end = rest.find('\n');
      const std::string_view one = rest.substr(0, end);
      rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
      return one;
    };
    for (int number = 1; !a.empty() && !b.empty(); ++number) {
      const std::string_view ours = line(a), theirs = line(b);
      // The first line begins with the program's name, which was already mentioned.
      const auto compared = [&](std::string_view one) {
        return number == 1 && one.find('(') != one.npos ? one.substr(one.find('(')) : one;
      };
      if (compared(ours) == compared(theirs)) continue;
      text += fmt::format(". The programs differ first in line {}: '{}' and '{}'", number, ours, theirs);
      break;
    }
  }
  return text;
}

}  // namespace lockstep::watch
