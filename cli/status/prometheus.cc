// SPDX-License-Identifier: Apache-2.0
#include "cli/status/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

// For a label's value.
std::string label_escaped(std::string_view text) {
  std::string result;
  for (const char c : shown(text, std::string::npos)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class Writer {
 public:
  explicit Writer(const JobView& view) : view_(view) {
    labels_.reserve(view.processes.size());
    for (const ProcessRow& row : view.processes)
      labels_.push_back(fmt::format("job_id=\"{}\",process=\"{}\",host=\"{}\"", view.job_id, row.process,
                                    label_escaped(row.host)));
  }

  void head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  void of_job(std::string_view name, std::string_view more, double value) {
    fmt::format_to(std::back_inserter(text_), "{}{{job_id=\"{}\"{}{}}} {}\n", name, view_.job_id,
                   more.empty() ? "" : ",", more, number(value));
  }

  void of_process(std::size_t place, std::string_view name, std::string_view more, double value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}{}{}}} {}\n", name, labels_[place],
                   more.empty() ? "" : ",", more, number(value));
  }

  // Writes a metric of the processes that have been heard of.
  void of_processes(std::string_view name, std::string_view type, std::string_view help,
                    const std::function<double(const ProcessRow&)>& value) {
    head(name, type, help);
    for (std::size_t i = 0; i < view_.processes.size(); ++i)
      if (view_.processes[i].pid != 0) of_process(i, name, "", value(view_.processes[i]));
  }

  std::string take() { return std::move(text_); }

 private:
  const JobView& view_;
  std::vector<std::string> labels_;
  std::string text_;
};

}  // namespace

std::string prometheus_text(const JobView& view) {
  Writer writer(view);
  writer.head("lockstep_job_info", "gauge", "The job; always 1.");
  writer.of_job(
      "lockstep_job_info",
      fmt::format("command=\"{}\",state=\"{}\"", label_escaped(view.command), label_escaped(view.state)), 1);
  writer.head("lockstep_job_start_time_seconds", "gauge", "When the launcher started, since 1970.");
  writer.of_job("lockstep_job_start_time_seconds", "", view.started);
  writer.head("lockstep_job_restarts_total", "counter", "How often the job was started again.");
  writer.of_job("lockstep_job_restarts_total", "", view.attempt);
  std::map<RowState, int> states;
  for (int state = 0; state <= static_cast<int>(RowState::kFailed); ++state)
    states[static_cast<RowState>(state)] = 0;
  for (const ProcessRow& row : view.processes) ++states[row.state];
  writer.head("lockstep_processes", "gauge", "Processes of the job by state.");
  for (const auto& [state, count] : states)
    writer.of_job("lockstep_processes", fmt::format("state=\"{}\"", name_of(state)), count);
  writer.head("lockstep_stalls_total", "counter", "Waits of 10 s and more for a process that did not come.");
  writer.of_job("lockstep_stalls_total", "", static_cast<double>(view.stalls_in_all));
  writer.head("lockstep_stall_seconds", "gauge", "How long processes wait now for one that does not come.");
  double longest = 0;
  for (const watch::Stall& stall : view.stalls) longest = std::max(longest, stall.seconds);
  writer.of_job("lockstep_stall_seconds", "", longest);

  const auto seconds = [&](std::string_view name, std::string_view help, double Times::*part) {
    writer.of_processes(name, "counter", help, [&](const ProcessRow& row) { return row.in_all.*part; });
  };
  writer.of_processes("lockstep_launches_total", "counter", "Launched computations.",
                      [](const ProcessRow& row) { return static_cast<double>(row.launches); });
  writer.of_processes("lockstep_collectives_total", "counter", "Collectives, of all devices.",
                      [](const ProcessRow& row) { return static_cast<double>(row.collectives); });
  seconds("lockstep_wait_seconds_total",
          "Time in collectives and barriers until all had come, of all devices.", &Times::wait);
  seconds("lockstep_transfer_seconds_total", "Time in collectives after all had come, of all devices.",
          &Times::transfer);
  seconds("lockstep_launch_seconds_total", "Time in launches, their collectives included.", &Times::launch);
  seconds("lockstep_input_seconds_total", "Time of waiting for input.", &Times::input);
  writer.of_processes("lockstep_resident_bytes", "gauge",
                      "Resident memory; pages that it shares with others are counted in part (PSS).",
                      [](const ProcessRow& row) { return static_cast<double>(row.memory_bytes); });
  const auto of_devices = [&](std::string_view name, std::string_view help,
                              std::uint64_t watch::DeviceMemoryReport::*part) {
    writer.head(name, "gauge", help);
    for (std::size_t i = 0; i < view.processes.size(); ++i) {
      const auto& devices = view.processes[i].device_memory;
      for (std::size_t d = 0; d < devices.size(); ++d)
        writer.of_process(i, name, fmt::format("device=\"{}\"", d), static_cast<double>(devices[d].*part));
    }
  };
  of_devices("lockstep_device_memory_bytes", "Bytes in use of the memory of each GPU or TPU.",
             &watch::DeviceMemoryReport::in_use);
  of_devices("lockstep_device_memory_limit_bytes",
             "Bytes of the memory of each GPU or TPU that the process may use.",
             &watch::DeviceMemoryReport::limit);
  writer.of_processes("lockstep_cpu_cores", "gauge", "How many cores it uses.",
                      [](const ProcessRow& row) { return row.cpu_share; });
  writer.head("lockstep_step", "gauge", "The step that was logged last.");
  for (std::size_t i = 0; i < view.processes.size(); ++i)
    if (view.processes[i].step >= 0)
      writer.of_process(i, "lockstep_step", "", static_cast<double>(view.processes[i].step));

  writer.head("lockstep_metric", "gauge", "The last value of the user's own metrics.");
  for (std::size_t i = 0; i < view.processes.size(); ++i) {
    if (view.processes[i].metrics.empty()) continue;
    const auto metrics = try_parse_json(view.processes[i].metrics);
    if (!metrics.is_object()) continue;
    for (const auto& [name, value] : metrics.items())
      if (value.is_number())
        writer.of_process(i, "lockstep_metric", fmt::format("name=\"{}\"", label_escaped(name)),
                          value.get<double>());
  }
  return writer.take();
}

}  // namespace lockstep::cli
