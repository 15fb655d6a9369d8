#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/messages.h"
#include "cli/process_host.h"

namespace lockstep::cli {

// Launcher and agent talk through the agent's standard input and output, in lines (cli/messages.h).
//
// The agent says first of all    lockstep-agent VERSION HOST SEEN_FROM
// then                           started I PID CORE...       not-started ERRNO WHAT
//                                out I BYTES                 err I BYTES
//                                out-ended I                 err-ended I
//                                ended I CODE SIGNAL         still-here        done
//                                report I JSON (watch::to_json)
//                                stacks I JSON (stacks/json.h)
//                                clock ASKED RECEIVED REPLIED (ClockExchange)
//                                traced BYTES (ChunkWriter)  trace-ended
// The launcher says              folder F, command WORD..., bind 0|1, silence MS, places FIRST ON_HOST,
//                                process I NAME=VALUE...,
// start then                           signal I NUMBER             still-here        pause
//                                      hold 0|1 (1: read no output until 0 comes)
//                                      trace 1|0 (1: say what the processes do, until 0 comes)
//                                      clock ASKED (while a trace is taken: say what time it is)
//                                      stacks MS (each process's, within so long)
//                                      logs (the next reports shall have the logs of launches)

inline constexpr char kAgentHello[] = "lockstep-agent";
inline constexpr char kAgentVersion[] = "4";

/// What the launcher sends to have a host's processes started.
std::vector<Message> to_messages(const HostJob& job);

/// Takes such messages one by one.
class HostJobReader {
 public:
  /// Whether the message was part of a job; throws Error where it is malformed.
  bool take(const Message& message);

  /// Whether all of it has come, "start" included.
  bool complete() const { return complete_; }
  const HostJob& job() const { return job_; }

 private:
  HostJob job_;
  bool complete_ = false;
};

}  // namespace lockstep::cli
