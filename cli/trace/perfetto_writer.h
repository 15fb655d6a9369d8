// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "cli/trace/record.h"

namespace lockstep::cli {

/// A summary of the written trace.
struct TraceSummary {
  std::uint64_t events = 0, lost = 0, bytes = 0;
  std::int64_t clock_error_ns = 0;  ///< the maximal error of times, relative to the launcher's clock
  std::size_t clock_error_of = 0;   ///< the process with this error
};

/// Writes the record as a trace of Perfetto's, all times by the launcher's monotonic clock:
///
///   - a group for each process, "process 2 (host b, pid 123)", with a track for each of its threads
///   - a slice for each event, within the one that it was a part of: "compile step", "step", "barrier", a
///   phase's name
///   - for a collective two, "wait: ..." until all others had come, and "transfer: ..." from then on
///   - arguments: launch, mesh, call_site, operation, what; finished=no for what went on when the trace ended
///   - a flow through the launches of the same number over the same mesh
///   - a group "lockstep trace" with one slice, which says what was lost and how exact the clocks are
TraceSummary write_perfetto(const TraceRecord& record, std::ostream& out);

}  // namespace lockstep::cli
