#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/reader.h"

namespace lockstep::cli {

/// Some of what a process did while a trace is taken, with times of its host's clock.
struct TraceChunk {
  int process = 0;
  int pid = 0;
  std::vector<watch::EventReport> events;
  std::uint64_t lost = 0;  ///< So many events were written over before they were read.
};

/// Writes chunks as bytes, for one reader, in the order in which it gets them: each text goes once.
class ChunkWriter {
 public:
  std::string write(const TraceChunk& chunk);

 private:
  std::map<std::string, std::uint32_t, std::less<>> ids_;
};

/// Reads what one ChunkWriter wrote. Throws Error where the bytes are no chunk.
class ChunkReader {
 public:
  TraceChunk read(std::string_view bytes);

 private:
  std::map<std::uint32_t, std::string> texts_;
};

}  // namespace lockstep::cli
