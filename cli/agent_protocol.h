#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/messages.h"
#include "cli/process_host.h"

namespace lockstep::cli {

// The protocol between launcher and agent: lines (cli/messages.h) on the agent's standard input and output.
//
//   Agent, first:                lockstep-agent VERSION HOST SEEN_FROM
//   agent, then:                 started I PID CORE...       not-started ERRNO WHAT
//                                out I BYTES                 err I BYTES
//                                out-ended I                 err-ended I
//                                ended I CODE SIGNAL         still-here        done
//                                report I JSON (watch::to_json)
//                                stacks I JSON (stacks/json.h)
//                                clock ASKED RECEIVED REPLIED (ClockExchange)
//                                traced BYTES (ChunkWriter)  trace-ended
//   Launcher, first:             folder F, command WORD..., bind 0|1, silence MS, places FIRST ON_HOST,
//                                process I NAME=VALUE..., start
//   launcher, then:              signal I NUMBER             still-here        pause
//                                hold 0|1 (1: read no output until 0 comes)
//                                trace 1|0 (1: report what the processes do, until 0 comes)
//                                clock ASKED (while a trace is taken: send the time)
//                                stacks MS (of each process, within this time)
//                                logs (the next reports must contain the logs of launches)

inline constexpr char kAgentHello[] = "lockstep-agent";
inline constexpr char kAgentVersion[] = "4";

/// The launcher's messages to start a host's processes.
std::vector<Message> to_messages(const HostJob& job);

/// Reads such messages one by one.
class HostJobReader {
 public:
  /// Whether the message was part of a job; throws Error if it is malformed.
  bool take(const Message& message);

  /// Whether all messages have arrived, including "start".
  bool complete() const { return complete_; }
  const HostJob& job() const { return job_; }

 private:
  HostJob job_;
  bool complete_ = false;
};

}  // namespace lockstep::cli
