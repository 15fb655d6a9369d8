// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

#include "lockstep/base/environment.h"
#include "lockstep/base/text.h"

namespace lockstep::logging {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

struct State {
  std::shared_ptr<spdlog::logger> logger;
  std::mutex mutex;
  std::string prefix;

  State() {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    logger = std::make_shared<spdlog::logger>("lockstep", std::move(sink));
    logger->set_pattern("%^%L%$ %H:%M:%S.%e %v");
    logger->flush_on(spdlog::level::debug);
    logger->set_level(spdlog::level::from_str(Environment::process().get("LOCKSTEP_LOG").value_or("info")));
  }
};

State& state() {
  static State* state = new State;  // outlives every thread that may still write a line at exit
  return *state;
}

}  // namespace

void set_level(Level level) { state().logger->set_level(to_spdlog(level)); }

bool enabled(Level level) { return state().logger->should_log(to_spdlog(level)); }

void set_prefix(std::string prefix) {
  std::lock_guard lock(state().mutex);
  state().prefix = std::move(prefix);
}

void write(Level level, std::string_view message) {
  std::string prefix;
  {
    std::lock_guard lock(state().mutex);
    prefix = state().prefix;
  }
  state().logger->log(to_spdlog(level), "{}{}", prefix, shown_lines(message));
}

}  // namespace lockstep::logging
