#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/job_view.h"

namespace lockstep::cli {

/// The job as docs/status.md tells. What it says of its processes is left out with `processes` false.
nlohmann::json to_json(const JobView& view, bool processes = true);

/// The same as text, with what is no UTF-8 replaced.
std::string to_text(const nlohmann::json& json);

/// What `to_json` has written, as far as a table needs it: of stalls, the words. Throws Error
/// where it is none, or of another format.
struct ReadView {
  JobView view;
  std::vector<std::string> stalls;  ///< In words.
  int num_processes = 0;
};
ReadView view_from_json(const nlohmann::json& json);

/// "loss 0.25, lr 0.1": of a process's metrics, which are JSON; empty where there are none.
std::string describe_metrics(const std::string& metrics);

}  // namespace lockstep::cli
