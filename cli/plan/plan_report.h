// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// A collective of a computation, from the plan's file.
struct PlanCollective {
  std::string kind, axes, site;
  std::int64_t devices = 1, bytes = 0, times = 1;
  bool each_time = false;  ///< the number of times is unknown: `times` is 1
  bool crosses_hosts = false, crosses_slices = false;
};

struct PlanValue {
  std::int64_t bytes = 0;
  std::string type, operation, site;
};

/// A computation of a plan, with figures for each device.
struct PlanComputation {
  std::string name, site, mesh;
  std::int64_t devices = 1, calls = 0;
  std::int64_t arguments = 0, outputs = 0, temporary = 0, peak = 0;
  double flops = 0;        ///< as counted by Lockstep: bodies of loops as often as they run
  double traffic = 0;      ///< bytes of memory, from the compiler
  double optimal = 0;      ///< seconds, from the compiler; 0: no estimate
  double estimate = 0;     ///< as `optimal`, with bodies of loops as often as they run
  double utilization = 0;  ///< flops in that time, relative to the device's peak; 0: unknown
  double compile_seconds = 0;
  std::string does_not_fit;
  std::vector<PlanCollective> collectives;
  std::vector<PlanValue> largest;

  std::int64_t sent() const;  ///< bytes of all collectives
};

/// The contents of LOCKSTEP_PLAN_FILE (docs/plan.md).
struct PlanReport {
  std::string topology, device_kind, ended_at;
  std::int64_t devices = 0, hosts = 0, memory = 0, operations = 0;
  double peak_flops = 0;
  bool tried_mesh = false;
  std::vector<PlanComputation> computations;

  bool fits() const;
  std::int64_t peak() const;  ///< the maximum over the computations
  double estimate() const;    ///< of one call of each computation; 0: unknown for at least one
  double compile_seconds() const;
};

/// Throws Error if the text is not a plan.
PlanReport read_plan(std::string_view json);

/// The plan as text: a line for each computation, its collectives, what does not fit and why, and where the
/// plan ended.
std::string plan_text(const PlanReport& plan);

/// Two bar charts, of memory and of time, with a bar for each computation, as an SVG file.
std::string plan_svg(const PlanReport& plan);

/// "1.25 ms".
std::string seconds_text(double seconds);

/// "98.8 TFLOP".
std::string flops_text(double flops);

}  // namespace lockstep::cli
