// SPDX-License-Identifier: Apache-2.0
#include "cli/status/status_json.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

// Four digits are enough for people, and a fifth of the text.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

json to_json(const Times& times) {
  return {{"wait", rounded(times.wait)},
          {"transfer", rounded(times.transfer)},
          {"launch", rounded(times.launch)},
          {"input", rounded(times.input)}};
}

Times times_from(const json& of) {
  return {of.value("wait", 0.0), of.value("transfer", 0.0), of.value("launch", 0.0), of.value("input", 0.0)};
}

json to_json(const ProcessRow& row) {
  json metrics = try_parse_json(row.metrics);
  if (!metrics.is_object()) metrics = json::object();
  auto device_memory = json::array();
  for (const watch::DeviceMemoryReport& each : row.device_memory)
    device_memory.push_back({{"in_use", each.in_use}, {"limit", each.limit}});
  return {{"process", row.process},
          {"host", row.host},
          {"pid", row.pid},
          {"step", row.step < 0 ? json() : json(row.step)},
          {"launches", row.launches},
          {"collectives", row.collectives},
          {"state", name_of(row.state)},
          {"words", row.words},
          {"detail", row.detail},
          {"site", row.site},
          {"seconds", row.seconds < 0 ? json() : json(rounded(row.seconds))},
          {"recent", to_json(row.recent_share)},
          {"share", to_json(row.share)},
          {"in_all", to_json(row.in_all)},
          {"age", rounded(row.age_seconds)},
          {"cpu", rounded(row.cpu_share)},
          {"memory", row.memory_bytes},
          {"device_memory", std::move(device_memory)},
          {"restarts", row.restarts},
          {"metrics", std::move(metrics)}};
}

ProcessRow row_from(const json& of) {
  const auto text = [&](const char* name) { return of.value(name, std::string()); };
  const auto number_or = [&](const char* name, auto otherwise) {
    const auto at = of.find(name);
    return at == of.end() || at->is_null() ? otherwise : at->get<decltype(otherwise)>();
  };
  ProcessRow row;
  row.process = of.at("process").get<int>();
  row.host = text("host");
  row.pid = number_or("pid", 0);
  row.step = number_or("step", std::int64_t{-1});
  row.launches = number_or("launches", std::uint64_t{0});
  row.collectives = number_or("collectives", std::uint64_t{0});
  row.state = row_state_of(text("state"));
  row.words = text("words");
  row.detail = text("detail");
  row.site = text("site");
  row.seconds = number_or("seconds", -1.0);
  row.recent_share = times_from(of.at("recent"));
  row.share = times_from(of.at("share"));
  row.in_all = times_from(of.at("in_all"));
  row.age_seconds = number_or("age", 0.0);
  row.cpu_share = number_or("cpu", 0.0);
  row.memory_bytes = number_or("memory", std::uint64_t{0});
  for (const json& each : of.value("device_memory", json::array())) {
    row.device_memory.push_back(
        {each.at("in_use").get<std::uint64_t>(), each.at("limit").get<std::uint64_t>()});
  }
  row.restarts = number_or("restarts", 0);
  if (const auto metrics = of.find("metrics"); metrics != of.end() && !metrics->empty())
    row.metrics = metrics->dump();
  return row;
}

json to_json(const watch::Stall& stall, const JobView& view) {
  auto waiting = json::array(), culprits = json::array();
  for (const watch::Waiters& each : stall.waiters)
    waiting.push_back({{"processes", each.processes},
                       {"what", each.what},
                       {"site", each.site},
                       {"seconds", rounded(each.seconds)}});
  for (const watch::Culprit& each : stall.culprits)
    culprits.push_back({{"process", each.process},
                        {"reason", watch::name_of(each.reason)},
                        {"words", each.words},
                        {"seconds", rounded(each.seconds)}});
  auto links = json::array();
  for (const watch::BrokenLink& each : stall.links)
    links.push_back({{"from", each.from}, {"to", each.to}, {"seconds", rounded(each.seconds)}});
  return {{"seconds", rounded(stall.seconds)},
          {"words", describe(stall, view)},
          {"waiting", std::move(waiting)},
          {"culprits", std::move(culprits)},
          {"ring", stall.ring},
          {"links", std::move(links)},
          {"declared", stall.declared}};
}

}  // namespace

json to_json(const JobView& view, bool processes) {
  json job = {{"id", view.job_id},
              {"command", view.command},
              {"host", view.host},
              {"pid", view.pid},
              {"attempt", view.attempt},
              {"processes", view.processes.size()},
              {"state", view.state},
              {"started", rounded(view.started)},
              {"time", rounded(view.time)},
              {"failure", view.failure},
              {"stalls_in_all", view.stalls_in_all}};
  json all = {{"format", kFormat}, {"job", std::move(job)}};
  if (!processes) return all;
  auto rows = json::array(), stalls = json::array(), stragglers = json::array(), events = json::array();
  for (const ProcessRow& row : view.processes) rows.push_back(to_json(row));
  for (const watch::Stall& stall : view.stalls) stalls.push_back(to_json(stall, view));
  for (const Straggler& each : view.stragglers)
    stragglers.push_back({{"process", each.process},
                          {"wait", rounded(each.wait_share)},
                          {"others_wait", rounded(each.others_wait_share)}});
  for (const JobEvent& event : view.events)
    events.push_back({{"time", rounded(event.time)}, {"text", event.text}});
  all["processes"] = std::move(rows);
  all["stalls"] = std::move(stalls);
  all["stragglers"] = std::move(stragglers);
  all["events"] = std::move(events);
  return all;
}

std::string to_text(const json& json) {
  // ASCII only, because what it holds of C1 and of other directions of text would reach terminals.
  return json_ascii(json);
}

ReadView view_from_json(const json& all) {
  ReadView read;
  try {
    if (all.at("format") != kFormat)
      fail(
          "the job's launcher answers in format {}, but this tool reads {}: use the tool that started the "
          "job",
          json_text(all.at("format")), kFormat);
    const json& job = all.at("job");
    JobView& view = read.view;
    view.job_id = job.at("id").get<std::string>();
    view.command = job.at("command").get<std::string>();
    view.host = job.at("host").get<std::string>();
    view.pid = job.at("pid").get<int>();
    view.attempt = job.at("attempt").get<int>();
    view.state = job.at("state").get<std::string>();
    view.started = job.at("started").get<double>();
    view.time = job.at("time").get<double>();
    view.failure = job.at("failure").get<std::string>();
    view.stalls_in_all = job.at("stalls_in_all").get<std::uint64_t>();
    read.num_processes = job.at("processes").get<int>();
    if (!all.contains("processes")) return read;
    for (const json& row : all.at("processes")) view.processes.push_back(row_from(row));
    for (const json& stall : all.at("stalls")) read.stalls.push_back(stall.at("words").get<std::string>());
    for (const json& each : all.at("stragglers"))
      view.stragglers.push_back({each.at("process").get<int>(), each.at("wait").get<double>(),
                                 each.at("others_wait").get<double>()});
    for (const json& event : all.at("events"))
      view.events.push_back({event.at("time").get<double>(), event.at("text").get<std::string>()});
  } catch (const json::exception& error) {
    fail("the answer of the job's launcher cannot be read: {}", error.what());
  }
  return read;
}

std::string describe_metrics(const std::string& metrics) {
  if (metrics.empty()) return "";
  const json values = try_parse_json(metrics);
  if (!values.is_object()) return "";
  std::string text;
  for (const auto& [name, value] : values.items()) {
    if (!text.empty()) text += ", ";
    text += name + " " +
            (value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : json_text(value));
  }
  return text;
}

}  // namespace lockstep::cli
