// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace lockstep::cli {

class JobAnswer;
class JobTrace;

/// Takes the trace requested by {"request": "trace", "file": PATH, "seconds": N}, sent with a descriptor of
/// the file; `trace` is null if no processes run. The answer is {"begun": true}, and once the file is written
/// {"done": true, "words": LINE}; {"error": WHY} if there is no trace.
void answer_trace_request(JobTrace* trace, const nlohmann::json& request,
                          const std::shared_ptr<JobAnswer>& answer);

}  // namespace lockstep::cli
