// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/agent_loop.h"

#include <algorithm>
#include <csignal>
#include <exception>

#include "cli/base/descriptors.h"
#include "cli/base/words.h"

namespace lockstep::cli {

int AgentLoop::run() {
  while (!parent_.gone(silence())) {
    wait();
    for (const std::string& line : parent_.read()) handle(line);
    for (const Signal& signal : signals_.take()) {
      if (signal.number == SIGCHLD) continue;
      if (!has_begun()) return 128 + signal.number;
      pass_on(signal.number);
    }
    if (has_begun() && !open()) {
      parent_.say_done();
      return 0;
    }
    parent_.keep_alive();
  }
  return 1;
}

void AgentLoop::wait() {
  MessagePipe& pipe = parent_.pipe();
  std::vector<pollfd> polled = {pipe.polled_in(), pipe.polled_out(), {signals_.descriptor(), POLLIN, 0}};
  const std::size_t own = polled.size();
  add_polled(polled);
  const auto next = std::min(parent_.next_word(), next_work().value_or(parent_.next_word()));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - ParentPipe::Clock::now());
  poll(polled.data(), polled.size(), static_cast<int>(std::max<long>(0, left.count())));
  work(std::span(polled).subspan(own));
  pipe.flush();
}

int run_below_parent(const char* name, const std::function<int()>& run) {
  let_writes_fail();
  raise_descriptor_limit();
  try {
    return run();
  } catch (const std::exception& error) {
    say(std::string("lockstep ") + name, error.what());
    return 1;
  }
}

}  // namespace lockstep::cli
