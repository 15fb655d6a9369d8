// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/status/job_view.h"

namespace lockstep::cli {

/// The job in the format of docs/status.md; without its processes if `processes` is false.
nlohmann::json to_json(const JobView& view, bool processes = true);

/// The same as text, with invalid UTF-8 replaced.
std::string to_text(const nlohmann::json& json);

/// The output of `to_json`, as far as a table needs it: stalls as texts. Throws Error if it is invalid, or
/// has another format.
struct ReadView {
  JobView view;
  std::vector<std::string> stalls;  ///< as texts
  int num_processes = 0;
};
ReadView view_from_json(const nlohmann::json& json);

/// "loss 0.25, lr 0.1": from a process's metrics, which are JSON; empty if there are none.
std::string describe_metrics(const std::string& metrics);

}  // namespace lockstep::cli
