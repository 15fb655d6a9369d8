// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/files.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/metrics/event_file.h"

namespace lockstep::metrics {

Files::Files(const Options& options, int process, int attempt)
    : options_(options), process_(process), attempt_(attempt) {
  lines_.path = std::filesystem::path(options.folder) / fmt::format("process-{}.metrics.jsonl", process);
}

void Files::write(const Entry& entry) {
  if (options_.folder.empty()) return;
  if (options_.jsonl) write(lines_, true, "", line_of(entry, process_, attempt_));
  if (!options_.tensorboard) return;
  std::string head;
  if (!events_.open) {
    if (events_.path.empty()) {
      // A run for each process, if several write.
      events_.path = options_.folder;
      if (options_.all_processes) events_.path /= fmt::format("process-{}", process_);
      events_.path /= event_file_name(entry.time);
    }
    head = first_event(entry.time);
    if (attempt_ > 0) head += restart_event(entry.time, entry.step);
  }
  write(events_, false, head, event_of(entry));
}

void Files::write(File& file, bool lines, const std::string& head, const std::string& record) {
  try {
    if (file.open) {
      file.open->append(record);
    } else {
      file.open.emplace(file.path, lines);
      try {
        file.open->append(head + record);
      } catch (...) {
        file.open.reset();
        throw;
      }
    }
    if (file.left_out > 0) {
      logging::warning("[metrics::log] {} is written again; {} calls of metrics::log are missing from it",
                       file.path.string(), file.left_out);
    }
    file.left_out = 0;
  } catch (const Error& error) {
    if (file.left_out++ == 0) {
      logging::warning(
          "[metrics::log] metrics cannot be written: {}. The program goes on, and each call tries again; "
          "make room, or give another folder with LOCKSTEP_LOG_DIR or `lockstep run --log-dir`",
          error.what());
    }
  }
}

}  // namespace lockstep::metrics
