// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/messages.h"
#include "cli/hosts/agent_tree.h"
#include "cli/hosts/process_host.h"

namespace lockstep::cli {

// The protocol between launcher and agent: lines (cli/base/messages.h) on the agent's standard input and
// output.
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
//                                variables NAME=VALUE... (of all processes that follow),
//                                process I NAME=VALUE..., start
//                                log-files FOLDER ATTEMPT    unsent I (its output stays on its host)
//   launcher, then:              signal I NUMBER             still-here        pause
//                                hold 0|1 (1: read no output until 0 comes)
//                                trace 1|0 (1: report what the processes do, until 0 comes)
//                                clock ASKED (while a trace is taken: send the time)
//                                stacks MS (of each process, within this time)
//                                logs (the next reports must contain the logs of launches)
//
// With many hosts there are relays between them (cli/hosts/host_relay.h). A relay begins as an agent does;
// then it is told which hosts it is to reach, its own first. What launcher and agents say passes through it
// unread, behind the host's number in the job. Beside `of` and `to`, each connection has its own still-here,
// pause and done.
//
//   Parent of a relay, first:    limits FAN_OUT MS           folder F
//                                starts rsh|srun TOOL WORD... (how agents are started on other hosts)
//                                hosts FIRST NAME...
//   then:                        to HOST LINE...             still-here        pause
//   Relay:                       of HOST LINE...             still-here        done
//
// The launcher or relay that reaches a host says further lines in its agent's place:
//
//                                remark LINE (of the agent's standard error; agents say it, too)
//                                lost WHY                    lost WHY with-another (with its relay)

inline constexpr char kAgentHello[] = "lockstep-agent";
inline constexpr char kAgentVersion[] = "5";

/// How a line begins that a relay passes on, before the host's number.
inline constexpr std::string_view kToHost = "to\t", kOfHost = "of\t";

/// Such a line without this beginning; nullopt if it has another one.
struct AddressedLine {
  int host = 0;
  std::string_view line;
};
std::optional<AddressedLine> addressed_line(std::string_view line, std::string_view begin);

/// The messages to a relay that is to reach these hosts, the first of which is its own.
std::vector<Message> to_messages(const AgentTreeOptions& hosts);

/// Reads such messages one by one.
class RelayJobReader {
 public:
  /// Whether the message was one of them; throws Error if it is malformed.
  bool take(const Message& message);

  /// Whether all have arrived.
  bool complete() const { return !hosts_.hosts.empty(); }
  const AgentTreeOptions& hosts() const { return hosts_; }

 private:
  AgentTreeOptions hosts_;
};

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
  std::map<std::string, std::string> common_;
  bool complete_ = false;
};

}  // namespace lockstep::cli
