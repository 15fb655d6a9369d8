// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "cli/base/words.h"
#include "cli/children/group_guard.h"
#include "cli/ckpt/ckpt_command.h"
#include "cli/coordinator/coordinator_command.h"
#include "cli/hosts/host_agent.h"
#include "cli/hosts/host_relay.h"
#include "cli/plan/plan_command.h"
#include "cli/run/job.h"
#include "cli/run/run_command.h"
#include "cli/stacks/stacks_command.h"
#include "cli/status/status_command.h"
#include "cli/trace/trace_command.h"
#include "lockstep/base/limits.h"

namespace {

int usage_error(const CLI::App& tool, const CLI::ParseError& error) {
  std::string name = "lockstep";
  for (const CLI::App* command : tool.get_subcommands()) name += " " + command->get_name();
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  lockstep::cli::say(name, message + " (see " + name + " --help)");
  return lockstep::cli::kUsage;
}

// Opens /dev/null for closed standard streams, so that no other file gets their descriptors. This must happen
// before libraries are initialized, since gRPC opens descriptors then; sanitizers are not ready yet, so no
// function is called that they replace.
__attribute__((no_sanitize("address", "thread", "undefined"))) void open_standard_streams(int, char**,
                                                                                          char**) {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (syscall(SYS_fcntl, descriptor, F_GETFD) < 0) syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
  }
}

__attribute__((section(".preinit_array"),
               used)) void (*const before_libraries)(int, char**, char**) = open_standard_streams;

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> command(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them

  int status = 0;
  CLI::App tool("Lockstep: one C++ program, many processes, the same computation", "lockstep");
  tool.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  tool.require_subcommand(1);
  lockstep::cli::add_run_command(tool, command, &status);
  lockstep::cli::add_plan_command(tool, command, &status);
  lockstep::cli::add_coordinator_command(tool, &status);
  lockstep::cli::add_ckpt_command(tool, &status);
  lockstep::cli::add_stacks_command(tool, &status);
  lockstep::cli::add_status_command(tool, &status);
  lockstep::cli::add_trace_command(tool, &status);
  // Commands that the launcher runs on other hosts, and at its end; they are not for users.
  tool.add_subcommand("host-agent")->group("")->callback([&] { status = lockstep::cli::run_host_agent(); });
  tool.add_subcommand("host-relay")->group("")->callback([&] { status = lockstep::cli::run_host_relay(); });
  pid_t group = 0;
  std::string job;
  CLI::App* end_group = tool.add_subcommand("end-group")->group("");
  end_group->add_option("group", group)->required();
  end_group->add_option("job", job)->required();
  end_group->callback([&] { status = lockstep::cli::end_group_members(group, job); });
  try {
    tool.parse(arguments);
  } catch (const CLI::Success& asked_for_text) {
    return tool.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    return usage_error(tool, error);
  } catch (const std::system_error& error) {
    lockstep::cli::say("lockstep", error.what() + lockstep::limit_behind(error.code().value()));
    return lockstep::cli::kLauncherFailed;
  } catch (const std::exception& error) {
    lockstep::cli::say("lockstep", error.what());
    return lockstep::cli::kLauncherFailed;
  }
  return status;
}
