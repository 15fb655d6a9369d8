// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/reader.h"

namespace lockstep::cli {

/// A part of a process's activities during a trace, with times of its host's clock.
struct TraceChunk {
  int process = 0;
  int pid = 0;
  std::vector<watch::EventReport> events;
  std::uint64_t lost = 0;  ///< the number of events that were overwritten before they were read
};

/// Encodes chunks, for one reader that decodes them in the same order: each text is sent once.
class ChunkWriter {
 public:
  std::string write(const TraceChunk& chunk);

 private:
  std::map<std::string, std::uint32_t, std::less<>> ids_;
};

/// Decodes the output of one ChunkWriter. Throws Error for invalid bytes.
class ChunkReader {
 public:
  TraceChunk read(std::string_view bytes);

 private:
  std::map<std::uint32_t, std::string> texts_;
};

}  // namespace lockstep::cli
