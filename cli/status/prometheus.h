// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/status/job_view.h"

namespace lockstep::cli {

/// The job in Prometheus's text format, version 0.0.4.
std::string prometheus_text(const JobView& view);

}  // namespace lockstep::cli
