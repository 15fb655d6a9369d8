// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/fail.h"

namespace lockstep::cli {

using nlohmann::json;

nlohmann::json to_json(const ProcessStacks& stacks) {
  json threads = json::array();
  for (const ThreadStack& thread : stacks.threads) {
    json frames = json::array();
    for (const Frame& frame : thread.frames)
      frames.push_back({frame.function, frame.module, frame.of_program, frame.file, frame.line});
    const watch::ThreadState& state = thread.state;
    json one = {
        {"tid", state.tid},          {"name", state.name},       {"state", std::string(1, state.state)},
        {"wchan", state.wchan},      {"ticks", state.cpu_ticks}, {"frames", std::move(frames)},
        {"missing", thread.missing}, {"main", thread.main}};
    if (state.syscall) one["syscall"] = *state.syscall;
    threads.push_back(std::move(one));
  }
  return {{"pid", stacks.pid},
          {"exists", stacks.process.exists},
          {"state", std::string(1, stacks.process.state)},
          {"name", stacks.process.name},
          {"refused", stacks.refused},
          {"paused", stacks.paused.count()},
          {"threads", std::move(threads)}};
}

ProcessStacks stacks_from_json(const nlohmann::json& text) {
  try {
    ProcessStacks stacks;
    stacks.pid = text.at("pid").get<int>();
    stacks.process.exists = text.at("exists").get<bool>();
    stacks.process.state = text.at("state").get<std::string>().at(0);
    stacks.process.name = text.at("name").get<std::string>();
    stacks.refused = text.at("refused").get<std::string>();
    stacks.paused = std::chrono::microseconds(text.at("paused").get<long>());
    for (const json& one : text.at("threads")) {
      ThreadStack thread;
      thread.state.tid = one.at("tid").get<int>();
      thread.state.name = one.at("name").get<std::string>();
      thread.state.state = one.at("state").get<std::string>().at(0);
      thread.state.wchan = one.at("wchan").get<std::string>();
      thread.state.cpu_ticks = one.at("ticks").get<std::uint64_t>();
      if (one.contains("syscall")) thread.state.syscall = one["syscall"].get<long>();
      thread.missing = one.at("missing").get<std::string>();
      thread.main = one.at("main").get<bool>();
      for (const json& frame : one.at("frames")) {
        thread.frames.push_back({.function = frame.at(0).get<std::string>(),
                                 .module = frame.at(1).get<std::string>(),
                                 .of_program = frame.at(2).get<bool>(),
                                 .file = frame.at(3).get<std::string>(),
                                 .line = frame.at(4).get<int>()});
      }
      stacks.process.threads.push_back(thread.state);
      stacks.threads.push_back(std::move(thread));
    }
    return stacks;
  } catch (const std::exception& error) {
    fail("the stacks of a process cannot be read: {}", error.what());
  }
}

}  // namespace lockstep::cli
