// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/parent_pipe.h"

#include <unistd.h>

#include <cstdlib>

#include "cli/hosts/agent_protocol.h"
#include "lockstep/base/host_name.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kSayStillHere(1);
constexpr std::chrono::seconds kLastWords(5);

// The address by which the parent's host reached this one, as sshd or srun tell it; empty where they do not.
std::string seen_from() {
  if (const char* ssh = std::getenv("SSH_CONNECTION")) {
    const std::string text = ssh;
    return text.substr(0, text.find(' '));
  }
  const char* slurm = std::getenv("SLURM_LAUNCH_NODE_IPADDR");
  return slurm == nullptr ? "" : slurm;
}

}  // namespace

ParentPipe::ParentPipe() : pipe_(STDIN_FILENO, STDOUT_FILENO) {
  pipe_.send({kAgentHello, kAgentVersion, host_name(), seen_from()});
}

std::vector<std::string> ParentPipe::read() {
  std::vector<std::string> lines = pipe_.read();
  if (!lines.empty()) {
    heard_ = Clock::now();
    paused_ = false;
  }
  return lines;
}

bool ParentPipe::gone(std::chrono::milliseconds limit) const {
  if (pipe_.in_ended() || pipe_.out_ended()) return true;
  return limit.count() > 0 && !paused_ && Clock::now() > heard_ + limit;
}

void ParentPipe::keep_alive() {
  if (Clock::now() < next_word()) return;
  said_ = Clock::now();
  // One that waits to be written says it, too.
  if (pipe_.pending() == 0) pipe_.send({"still-here"});
}

ParentPipe::Clock::time_point ParentPipe::next_word() const { return said_ + kSayStillHere; }

void ParentPipe::say_done() {
  pipe_.send({"done"});
  pipe_.flush_all(kLastWords);
}

}  // namespace lockstep::cli
