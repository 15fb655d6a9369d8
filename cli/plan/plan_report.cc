// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/base/words.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

double cost_in(const json& computation, const char* name) {
  const json& cost = computation.at("cost");
  return cost.contains(name) ? cost.at(name).get<double>() : 0;
}

PlanComputation read_computation(const json& from, double peak_flops) {
  PlanComputation to;
  from.at("name").get_to(to.name);
  from.at("site").get_to(to.site);
  from.at("mesh").get_to(to.mesh);
  from.at("devices").get_to(to.devices);
  from.at("calls").get_to(to.calls);
  const json& memory = from.at("memory");
  memory.at("arguments").get_to(to.arguments);
  memory.at("outputs").get_to(to.outputs);
  memory.at("temporary").get_to(to.temporary);
  memory.at("peak").get_to(to.peak);
  from.at("does_not_fit").get_to(to.does_not_fit);
  from.at("compile_seconds").get_to(to.compile_seconds);
  from.at("counted_flops").get_to(to.flops);
  to.traffic = cost_in(from, "bytes accessed");
  to.optimal = std::max(0.0, cost_in(from, "optimal_seconds"));
  const double flops = cost_in(from, "flops");
  const double times = from.at("has_loops").get<bool>() && flops > 0 ? std::max(1.0, to.flops / flops) : 1;
  to.estimate = to.optimal * times;
  if (peak_flops > 0 && to.estimate > 0) to.utilization = to.flops / to.estimate / peak_flops;
  for (const json& each : from.at("collectives")) {
    PlanCollective& collective = to.collectives.emplace_back();
    each.at("kind").get_to(collective.kind);
    collective.axes = fmt::format("{}", fmt::join(each.at("axes").get<std::vector<std::string>>(), ","));
    each.at("devices").get_to(collective.devices);
    each.at("bytes").get_to(collective.bytes);
    collective.each_time = each.at("times").is_null();
    if (!collective.each_time) each.at("times").get_to(collective.times);
    each.at("crosses_hosts").get_to(collective.crosses_hosts);
    each.at("crosses_slices").get_to(collective.crosses_slices);
    each.at("site").get_to(collective.site);
  }
  for (const json& each : from.at("largest"))
    to.largest.push_back({each.at("bytes").get<std::int64_t>(), each.at("type").get<std::string>(),
                          each.at("operation").get<std::string>(), each.at("site").get<std::string>()});
  return to;
}

std::string bytes(std::int64_t count) { return amount_of_bytes(static_cast<std::uint64_t>(count)); }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Collectives that differ in their lines only share one, with the line of the largest.
std::string collectives_text(const PlanComputation& computation) {
  struct Shared {
    std::int64_t count = 0, bytes = 0, largest = 0;
    std::string site;
    bool each_time = false;
  };
  std::map<std::tuple<std::string, std::string, std::int64_t, bool, bool>, Shared> groups;
  for (const PlanCollective& each : computation.collectives) {
    Shared& group = groups[{each.kind, each.axes, each.devices, each.crosses_hosts, each.crosses_slices}];
    group.count += each.times;
    group.bytes += each.bytes * each.times;
    group.each_time |= each.each_time;
    if (each.bytes >= group.largest) {
      group.largest = each.bytes;
      group.site = each.site;
    }
  }
  std::vector<std::vector<std::string>> rows{
      {"  collective", "over", "devices", "times", "bytes in all", "reaches", "the largest at"}};
  for (const auto& [key, group] : groups) {
    const auto& [kind, axes, devices, hosts, slices] = key;
    rows.push_back({"  " + kind, axes, std::to_string(devices),
                    std::to_string(group.count) + (group.each_time ? "+" : ""), bytes(group.bytes),
                    slices  ? "other slices"
                    : hosts ? "other hosts"
                            : "its host",
                    group.site});
  }
  return aligned(rows, "llrrrll");
}

std::string why_not(const PlanReport& plan, const PlanComputation& computation) {
  std::string text = fmt::format("\n{} does not fit", shown(computation.name));
  if (computation.peak > plan.memory && plan.memory > 0) {
    text += fmt::format(": it needs {} of each device's {}, {} too much", bytes(computation.peak),
                        bytes(plan.memory), bytes(computation.peak - plan.memory));
  } else {
    text += ": " + shown(first_line(computation.does_not_fit));
  }
  text += ". Its largest values, by what each device has of them:\n";
  std::vector<std::vector<std::string>> rows;
  for (const PlanValue& value : computation.largest)
    rows.push_back({"  " + bytes(value.bytes), value.type, value.operation, value.site});
  return text + aligned(rows, "rlll");
}

}  // namespace

std::int64_t PlanComputation::sent() const {
  std::int64_t sum = 0;
  for (const PlanCollective& each : collectives) sum += each.bytes * each.times;
  return sum;
}

bool PlanReport::fits() const {
  return std::ranges::all_of(computations, [](const auto& each) { return each.does_not_fit.empty(); });
}

std::int64_t PlanReport::peak() const {
  std::int64_t most = 0;
  for (const PlanComputation& each : computations) most = std::max(most, each.peak);
  return most;
}

double PlanReport::estimate() const {
  double sum = 0;
  for (const PlanComputation& each : computations) {
    if (each.estimate <= 0) return 0;
    sum += each.estimate;
  }
  return sum;
}

double PlanReport::compile_seconds() const {
  double sum = 0;
  for (const PlanComputation& each : computations) sum += each.compile_seconds;
  return sum;
}

PlanReport read_plan(std::string_view text) {
  try {
    const json from = parse_json(text);
    PlanReport plan;
    from.at("topology").get_to(plan.topology);
    from.at("device_kind").get_to(plan.device_kind);
    from.at("devices").get_to(plan.devices);
    from.at("hosts").get_to(plan.hosts);
    from.at("memory_bytes").get_to(plan.memory);
    from.at("peak_flops").get_to(plan.peak_flops);
    from.at("operations_outside_of_jit").get_to(plan.operations);
    from.at("tried_mesh").get_to(plan.tried_mesh);
    from.at("ended_at").get_to(plan.ended_at);
    for (const json& each : from.at("computations"))
      plan.computations.push_back(read_computation(each, plan.peak_flops));
    return plan;
  } catch (const json::exception& error) {
    fail("[plan] expected the JSON of a plan: {}", error.what());
  }
}

std::string seconds_text(double seconds) {
  if (seconds <= 0) return "";
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string flops_text(double flops) {
  const char* const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(units); ++unit) flops /= 1000;
  return fmt::format("{:.{}f} {}", flops, unit == 0 ? 0 : 1, units[unit]);
}

std::string plan_text(const PlanReport& plan) {
  std::string text = fmt::format("plan for {}: {} x {} on {} host{}", shown(plan.topology), plan.devices,
                                 shown(plan.device_kind), plan.hosts, plan.hosts == 1 ? "" : "s");
  if (plan.memory > 0) text += fmt::format(", {} of memory each", bytes(plan.memory));
  text += "\n\n";
  std::vector<std::vector<std::string>> rows{{"computation", "at", "mesh", "calls", "arguments", "results",
                                              "temporary", "peak", "work", "traffic", "sent", "estimate",
                                              "MFU", "compiled in"}};
  double flops = 0, traffic = 0;
  std::int64_t sent = 0;
  for (const PlanComputation& each : plan.computations) {
    const bool compiled = each.peak > 0 || each.does_not_fit.empty();
    const auto memory = [&](std::int64_t count) { return compiled ? bytes(count) : std::string("-"); };
    rows.push_back({each.name, each.site, each.mesh, std::to_string(each.calls), memory(each.arguments),
                    memory(each.outputs), memory(each.temporary),
                    each.does_not_fit.empty() ? memory(each.peak) : "does not fit", flops_text(each.flops),
                    each.traffic > 0 ? bytes(static_cast<std::int64_t>(each.traffic)) : "",
                    bytes(each.sent()), seconds_text(each.estimate),
                    each.utilization > 0 ? fmt::format("{:.1f} %", 100 * each.utilization) : "",
                    fmt::format("{:.2f} s", each.compile_seconds)});
    flops += each.flops;
    traffic += each.traffic;
    sent += each.sent();
  }
  if (plan.computations.size() > 1) {
    const double most = plan.estimate() * plan.peak_flops;
    rows.push_back({"one call of each", "", "", "", "", "", "", bytes(plan.peak()), flops_text(flops),
                    traffic > 0 ? bytes(static_cast<std::int64_t>(traffic)) : "", bytes(sent),
                    seconds_text(plan.estimate()),
                    most > 0 ? fmt::format("{:.1f} %", 100 * flops / most) : "",
                    fmt::format("{:.2f} s", plan.compile_seconds())});
  }
  text += aligned(rows, "lllrrrrrrrrrrr");
  for (const PlanComputation& each : plan.computations) {
    if (each.collectives.empty()) continue;
    text += fmt::format("\ncollectives of {} ({}), by each device\n{}", shown(each.name), shown(each.site),
                        collectives_text(each));
  }
  for (const PlanComputation& each : plan.computations)
    if (!each.does_not_fit.empty()) text += why_not(plan, each);
  text += "\n";
  if (plan.operations > 0)
    text += fmt::format("{} operations outside of jit are not in it\n", plan.operations);
  if (!plan.ended_at.empty())
    text += fmt::format("it ends at {}, where an element is read\n", shown(plan.ended_at));
  return text;
}

}  // namespace lockstep::cli
