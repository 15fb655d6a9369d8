// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/text.h"

namespace lockstep::watch {
namespace {

constexpr std::array kNames = {"nothing", "phase",   "trace",      "compile",  "launch", "collective",
                               "connect", "barrier", "key",        "answer",   "input",  "save",
                               "restore", "result",  "initialize", "shutdown", "idle"};

// One list of fields for both ways.
template <class Report, class Field>
void fields_of(Report& r, Field field) {
  using T = std::remove_const_t<Report>;
  if constexpr (std::is_same_v<T, Activity>) {
    field("kind", r.kind), field("what", r.what), field("site", r.site), field("seconds", r.seconds);
    field("arrived", r.arrived), field("number", r.number), field("operation", r.operation),
        field("mesh", r.mesh), field("group", r.group), field("count", r.count);
    field("usual_seconds", r.usual_seconds);
  } else if constexpr (std::is_same_v<T, Done>) {
    field("kind", r.kind), field("what", r.what), field("site", r.site), field("seconds_ago", r.seconds_ago);
  } else if constexpr (std::is_same_v<T, ThreadReport>) {
    field("tid", r.tid), field("doing", r.doing), field("missing", r.missing);
    field("missing_count", r.missing_count), field("last", r.last), field("launches", r.launches);
  } else if constexpr (std::is_same_v<T, LaunchReport>) {
    field("number", r.number), field("hash", r.hash), field("program", r.program), field("site", r.site);
    field("what", r.what), field("text", r.text);
  } else if constexpr (std::is_same_v<T, MeshReport>) {
    field("mesh", r.mesh), field("processes", r.processes), field("unordered", r.unordered);
    field("unchecked", r.unchecked), field("launches", r.launches), field("hash", r.hash),
        field("log", r.log);
  } else if constexpr (std::is_same_v<T, GroupReport>) {
    field("group", r.group), field("begun", r.begun);
  } else if constexpr (std::is_same_v<T, LinkReport>) {
    field("process", r.process), field("unanswered_seconds", r.unanswered_seconds);
  } else if constexpr (std::is_same_v<T, DeviceMemoryReport>) {
    field("in_use", r.in_use), field("limit", r.limit);
  } else if constexpr (std::is_same_v<T, Evidence>) {
    field("state", r.state), field("call", r.call), field("cpu_share", r.cpu_share);
    field("thread_name", r.thread_name);
  } else {
    field("process", r.process), field("host", r.host), field("pid", r.pid), field("came", r.came);
    field("joined", r.joined), field("ended", r.ended), field("restarts", r.restarts),
        field("threads", r.threads);
    field("age_seconds", r.age_seconds);
    field("groups", r.groups), field("links", r.links);
    field("meshes", r.meshes), field("evidence", r.evidence), field("launches", r.launches);
    field("collectives", r.collectives), field("launch_seconds", r.launch_seconds);
    field("wait_seconds", r.wait_seconds), field("transfer_seconds", r.transfer_seconds);
    field("input_seconds", r.input_seconds), field("cpu_share", r.cpu_share);
    field("memory_bytes", r.memory_bytes), field("device_memory", r.device_memory);
    field("step", r.step), field("metrics", r.metrics);
  }
}

template <class T>
nlohmann::json write(const T& value) {
  if constexpr (std::is_same_v<T, Kind>) {
    return std::string(name_of(value));
  } else if constexpr (std::is_same_v<T, char>) {
    return static_cast<int>(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return is_utf8(value) ? value : shown_lines(value);
  } else if constexpr (requires(T & list) { list.emplace_back(); }) {
    auto all = nlohmann::json::array();
    for (const auto& each : value) all.push_back(write(each));
    return all;
  } else {
    auto object = nlohmann::json::object();
    // Fields with their initial values are left out.
    static const T nothing{};
    std::vector<nlohmann::json> usual;
    fields_of(nothing, [&](const char*, const auto& each) { usual.push_back(write(each)); });
    std::size_t i = 0;
    fields_of(value, [&](const char* name, const auto& each) {
      nlohmann::json written = write(each);
      if (written != usual[i++]) object[name] = std::move(written);
    });
    return object;
  }
}

template <class T>
void read(const nlohmann::json& json, T& value) {
  if constexpr (std::is_same_v<T, Kind>) {
    const auto name = json.get<std::string>();
    const auto at = std::find(kNames.begin(), kNames.end(), name);
    value = at == kNames.end() ? Kind::kNone : static_cast<Kind>(at - kNames.begin());
  } else if constexpr (std::is_same_v<T, char>) {
    value = static_cast<char>(json.get<int>());
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    value = json.get<T>();
  } else if constexpr (requires(T & list) { list.emplace_back(); }) {
    if (!json.is_array()) fail("a report of a process has {} where a list should be", json.type_name());
    value.clear();
    for (const auto& each : json) read(each, value.emplace_back());
  } else {
    if (!json.is_object()) fail("a report of a process has {} where an object should be", json.type_name());
    fields_of(value, [&](const char* name, auto& each) {
      if (const auto at = json.find(name); at != json.end()) read(*at, each);
    });
  }
}

}  // namespace

std::string_view name_of(Kind kind) {
  const auto at = static_cast<std::size_t>(kind);
  return at < kNames.size() ? kNames[at] : "something unknown";
}

bool waits(Kind kind) {
  return kind == Kind::kCollective || kind == Kind::kConnect || kind == Kind::kBarrier ||
         kind == Kind::kKey || kind == Kind::kAnswer || kind == Kind::kResult;
}

const ThreadReport* ProcessReport::foremost() const {
  const ThreadReport* best = nullptr;
  for (const ThreadReport& thread : threads) {
    if (best == nullptr || thread.launches > best->launches ||
        (thread.launches == best->launches && thread.tid == pid))
      best = &thread;
  }
  return best;
}

const LaunchReport* launch_of(const MeshReport& mesh, std::uint64_t number) {
  const auto at = std::ranges::lower_bound(mesh.log, number, {}, &LaunchReport::number);
  return at != mesh.log.end() && at->number == number ? &*at : nullptr;
}

nlohmann::json to_json(const ProcessReport& report) { return write(report); }

ProcessReport from_json(const nlohmann::json& json) {
  ProcessReport report;
  try {
    read(json, report);
  } catch (const nlohmann::json::exception& error) {
    fail("a report of a process cannot be read: {}", error.what());
  }
  return report;
}

std::string name_process(const ProcessReport& report) {
  if (report.host.empty() && report.pid == 0) return fmt::format("process {}", report.process);
  if (report.host.empty()) return fmt::format("process {} (pid {})", report.process, report.pid);
  return fmt::format("process {} (host {}, pid {})", report.process, report.host, report.pid);
}

std::string describe_processes(std::vector<int> processes) {
  std::ranges::sort(processes);
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  std::string text;
  for (std::size_t i = 0; i < processes.size();) {
    std::size_t last = i;
    while (last + 1 < processes.size() && processes[last + 1] == processes[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(processes[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(processes[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> processes_of(std::string_view text) {
  std::vector<int> processes;
  int first = -1, number = -1;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c >= '0' && c <= '9') {
      number = std::min((number < 0 ? 0 : number * 10) + (c - '0'), kMostProcesses);
    } else if (c == '-') {
      first = std::exchange(number, -1);
    } else if (c == ',' && number >= 0) {
      if (number == kMostProcesses) return {};
      for (int p = first >= 0 ? first : number; p <= number; ++p) processes.push_back(p);
      if (processes.size() > kMostProcesses) return {};
      first = number = -1;
    }
  }
  return processes;
}

}  // namespace lockstep::watch
