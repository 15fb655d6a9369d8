// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/metrics/metrics.h"

namespace lockstep::metrics {

/// TensorBoard's name for a file of events that this process starts at this time:
/// "events.out.tfevents.SECONDS.MICROSECONDS.HOST.PID". TensorBoard reads a folder's files in the order of
/// their names.
std::string event_file_name(double time);

/// Records of an event file, framed as TFRecord: the first record; a record for a run that continues from
/// this step; a record with the values of an entry.
std::string first_event(double time);
std::string restart_event(double time, std::int64_t step);
std::string event_of(const Entry& entry);

/// The entry as a line of JSON, with its newline:
///   {"time":1732300000.25,"process":0,"attempt":0,"step":7,"values":{"loss":0.5}}
/// Numbers that are not finite are strings: "NaN", "Infinity", "-Infinity".
std::string line_of(const Entry& entry, int process, int attempt);

}  // namespace lockstep::metrics
