// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/agent_protocol.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>

#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

using Variables = std::map<std::string, std::string>;

// Most are the same for all processes, and hosts may be many.
Variables common_variables(const HostJob& job) {
  Variables common;
  if (job.processes.empty()) return common;
  for (const auto& [name, value] : job.processes.front().variables) {
    const bool everywhere = std::ranges::all_of(job.processes, [&](const HostJob::Process& process) {
      const auto own = process.variables.find(name);
      return own != process.variables.end() && own->second == value;
    });
    if (everywhere) common[name] = value;
  }
  return common;
}

void take_variables(const Message& message, std::size_t from, Variables& variables) {
  for (std::size_t i = from; i < message.size(); ++i) {
    const std::size_t equals = message[i].find('=');
    if (equals == std::string::npos) fail("the launcher sent the variable '{}' without a value", message[i]);
    variables[message[i].substr(0, equals)] = message[i].substr(equals + 1);
  }
}

}  // namespace

std::optional<AddressedLine> addressed_line(std::string_view line, std::string_view begin) {
  if (!line.starts_with(begin)) return std::nullopt;
  line.remove_prefix(begin.size());
  AddressedLine addressed;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), addressed.host);
  if (error != std::errc() || end == line.data() + line.size() || *end != '\t') return std::nullopt;
  addressed.line = line.substr(static_cast<std::size_t>(end - line.data()) + 1);
  return addressed;
}

std::vector<Message> to_messages(const AgentTreeOptions& hosts) {
  Message starts = {"starts", hosts.by_slurm ? "srun" : "rsh", hosts.tool};
  starts.insert(starts.end(), hosts.rsh.begin(), hosts.rsh.end());
  Message names = {"hosts", std::to_string(hosts.first)};
  names.insert(names.end(), hosts.hosts.begin(), hosts.hosts.end());
  return {{"limits", std::to_string(hosts.fan_out), std::to_string(hosts.silence.count())},
          {"folder", hosts.folder},
          std::move(starts),
          std::move(names)};
}

bool RelayJobReader::take(const Message& message) {
  const std::string& kind = message.front();
  const bool known = kind == "limits" || kind == "folder" || kind == "starts" || kind == "hosts";
  if (!known) return false;
  const std::size_t least = kind == "folder" ? 2 : 3;
  if (message.size() < least) fail("the launcher sent '{}' to a relay with too few values", kind);
  if (kind == "limits") {
    hosts_.fan_out = int_of(message[1]);
    hosts_.silence = std::chrono::milliseconds(number_of(message[2]));
    if (hosts_.fan_out < 1)
      fail("the launcher sent a relay the fan-out {}, expected 1 or more", hosts_.fan_out);
  }
  if (kind == "folder") hosts_.folder = message[1];
  if (kind == "starts") {
    hosts_.by_slurm = message[1] == "srun";
    hosts_.tool = message[2];
    hosts_.rsh.assign(message.begin() + 3, message.end());
    if (!hosts_.by_slurm && hosts_.rsh.empty())
      fail("the launcher did not send a relay the command that reaches other hosts");
  }
  if (kind == "hosts") {
    hosts_.first = int_of(message[1]);
    hosts_.hosts.assign(message.begin() + 2, message.end());
    hosts_.from = hosts_.hosts.front();
    hosts_.here = 1;
  }
  return true;
}

std::vector<Message> to_messages(const HostJob& job) {
  std::vector<Message> messages = {
      {"folder", job.folder},
      {"bind", job.bind ? "1" : "0"},
      {"silence", std::to_string(job.silence.count())},
      {"places", std::to_string(job.first_on_host), std::to_string(job.on_host)}};
  Message command = {"command"};
  command.insert(command.end(), job.command.begin(), job.command.end());
  messages.push_back(std::move(command));
  const Variables common = common_variables(job);
  Message for_all = {"variables"};
  for (const auto& [name, value] : common) for_all.push_back(name + "=" + value);
  if (!common.empty()) messages.push_back(std::move(for_all));
  for (const HostJob::Process& process : job.processes) {
    Message message = {"process", std::to_string(process.number)};
    for (const auto& [name, value] : process.variables)
      if (!common.contains(name)) message.push_back(name + "=" + value);
    messages.push_back(std::move(message));
    if (!process.send_output) messages.push_back({"unsent", std::to_string(process.number)});
  }
  if (!job.log_folder.empty()) messages.push_back({"log-files", job.log_folder, std::to_string(job.attempt)});
  messages.push_back({"start"});
  return messages;
}

bool HostJobReader::take(const Message& message) {
  const std::string& kind = message.front();
  const bool known = kind == "folder" || kind == "bind" || kind == "silence" || kind == "places" ||
                     kind == "command" || kind == "variables" || kind == "process" || kind == "unsent" ||
                     kind == "log-files" || kind == "start";
  if (!known) return false;
  if (kind != "start" && message.size() < 2) fail("the launcher sent '{}' without a value", kind);
  if (kind == "folder") job_.folder = message[1];
  if (kind == "bind") job_.bind = message[1] == "1";
  if (kind == "silence") job_.silence = std::chrono::milliseconds(number_of(message[1]));
  if (kind == "places" && message.size() == 3) {
    job_.first_on_host = int_of(message[1]);
    job_.on_host = int_of(message[2]);
  }
  if (kind == "command") job_.command.assign(message.begin() + 1, message.end());
  if (kind == "variables") take_variables(message, 1, common_);
  if (kind == "process") {
    HostJob::Process process{.number = int_of(message[1]), .variables = common_};
    take_variables(message, 2, process.variables);
    job_.processes.push_back(std::move(process));
  }
  if (kind == "unsent") {
    const int number = int_of(message[1]);
    for (HostJob::Process& process : job_.processes)
      if (process.number == number) process.send_output = false;
  }
  if (kind == "log-files" && message.size() == 3) {
    job_.log_folder = message[1];
    job_.attempt = int_of(message[2]);
  }
  if (kind == "start") {
    if (job_.command.empty() || job_.processes.empty())
      fail("the launcher sent a job without a program or processes");
    if (job_.on_host < job_.first_on_host + static_cast<std::int64_t>(job_.processes.size()))
      fail("the launcher sent {} processes for places {} to {} of the host", job_.processes.size(),
           job_.first_on_host, job_.on_host);
    complete_ = true;
  }
  return true;
}

}  // namespace lockstep::cli
