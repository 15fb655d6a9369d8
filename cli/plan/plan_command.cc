// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "cli/base/words.h"
#include "cli/children/child_process.h"
#include "cli/plan/plan_report.h"
#include "cli/run/job.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/own_file.h"
#include "lockstep/base/scratch_folder.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

struct Options {
  std::string topology, svg, search;
  bool json = false;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// How a run of the program ended.
struct Run {
  int status = 0;                  ///< as waitpid gives it
  std::string json;                ///< empty where no plan was begun
  std::optional<PlanReport> plan;  ///< the same, read
  std::string last_words;          ///< the last line on standard error; where that was kept

  bool as_planned() const { return plan && (status == 0 || !plan->ended_at.empty()); }

  std::string end() const {
    if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
    return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  }
};

/// Runs the program. Its output goes to standard error, or, where `quiet`, nowhere.
Run run_program(const std::vector<std::string>& command, const std::string& topology, const std::string& mesh,
                bool quiet) {
  const ScratchFolder scratch("lockstep-plan");
  const std::string file = scratch.path() / "plan.json", words = scratch.path() / "stderr";
  const std::string program = find_program(command.front());
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "starting the program");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("LOCKSTEP_TOPOLOGY", topology.c_str(), 1);
    setenv("LOCKSTEP_PLAN_FILE", file.c_str(), 1);
    if (!mesh.empty()) setenv("LOCKSTEP_PLAN_MESH", mesh.c_str(), 1);
    if (quiet) {
      const int kept = open(words.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      if (kept >= 0) dup2(kept, STDERR_FILENO);
      const int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
      if (none >= 0) dup2(none, STDOUT_FILENO);
    } else {
      dup2(STDERR_FILENO, STDOUT_FILENO);
    }
    execv(program.c_str(), arguments.data());
    _exit(kNotExecutable);
  }
  Run run;
  while (waitpid(child, &run.status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waiting for the program");
  run.json = read_file(file);
  if (!run.json.empty()) run.plan = read_plan(run.json);
  std::istringstream lines(read_file(words));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) run.last_words = line;
  return run;
}

int plan(const Options& options, const std::vector<std::string>& command) {
  const Run run = run_program(command, options.topology, "", false);
  if (!run.plan) {
    say("lockstep plan",
        fmt::format("the program {} before it called initialize() or used a device", run.end()));
    return 1;
  }
  std::fputs((options.json ? run.json : plan_text(*run.plan)).c_str(), stdout);
  if (!options.svg.empty()) {
    const std::string why = write_own_file(options.svg, plan_svg(*run.plan), kReadableFile);
    if (!why.empty()) fail("the picture cannot be written to {}: {}", options.svg, why);
  }
  if (run.as_planned()) return run.plan->fits() ? 0 : 1;
  say("lockstep plan", fmt::format("the program {}: the plan has what it did before", run.end()));
  return 1;
}

/// All ways to write `size` as a product of so many whole numbers.
std::vector<std::vector<std::int64_t>> products(std::int64_t size, std::size_t factors) {
  if (factors == 1) return {{size}};
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 1; first <= size; ++first) {
    if (size % first != 0) continue;
    for (std::vector<std::int64_t>& rest : products(size / first, factors - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

std::vector<std::string> axes_in(const std::string& text) {
  std::vector<std::string> axes;
  std::istringstream words(text);
  for (std::string axis; std::getline(words, axis, ',');) {
    axis.erase(0, axis.find_first_not_of(' '));
    axis.erase(axis.find_last_not_of(' ') + 1);
    if (axis.empty() || axis.find('=') != std::string::npos)
      fail("--search is '{}': expected the names of the axes of the program's mesh, such as data,tensor",
           text);
    axes.push_back(axis);
  }
  if (axes.empty()) fail("--search is empty: expected the names of the axes of the program's mesh");
  return axes;
}

struct Tried {
  std::string mesh;
  Run run;
  bool fits() const { return run.as_planned() && run.plan->fits(); }
  int rank() const { return fits() ? 0 : run.as_planned() ? 1 : 2; }
};

int search(const Options& options, const std::vector<std::string>& command) {
  const std::vector<std::string> axes = axes_in(options.search);
  // How many devices there are is known from a first run.
  const Run probe = run_program(command, options.topology, "", true);
  if (!probe.plan)
    fail("the program {} before it called initialize() or used a device: {}", probe.end(), probe.last_words);
  const auto shapes = products(probe.plan->devices, axes.size());
  std::vector<Tried> all;
  for (const std::vector<std::int64_t>& shape : shapes) {
    Tried tried;
    for (std::size_t i = 0; i < axes.size(); ++i)
      tried.mesh += fmt::format("{}{}={}", i == 0 ? "" : ",", axes[i], shape[i]);
    if (isatty(STDERR_FILENO) != 0)
      std::fprintf(stderr, "\r%zu of %zu: %-40s", all.size() + 1, shapes.size(), shown(tried.mesh).c_str());
    tried.run = run_program(command, options.topology, tried.mesh, true);
    if (tried.run.plan && !tried.run.plan->tried_mesh && tried.run.as_planned()) {
      fail(
          "the program made no mesh over all devices with the axes {}: call make_mesh with these axes, or "
          "give "
          "--search others",
          options.search);
    }
    all.push_back(std::move(tried));
  }
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%60s\r", "");
  std::ranges::stable_sort(all, [](const Tried& a, const Tried& b) {
    if (a.rank() != b.rank()) return a.rank() < b.rank();
    if (a.rank() == 2) return false;
    const double first = a.run.plan->estimate(), second = b.run.plan->estimate();
    return first > 0 && (second <= 0 || first < second);
  });
  std::vector<std::vector<std::string>> rows{{"mesh", "estimate", "peak", "sent", "compiled in", ""}};
  for (const Tried& tried : all) {
    if (!tried.run.as_planned()) {
      rows.push_back({tried.mesh, "", "", "", "", "refused: " + tried.run.last_words});
      continue;
    }
    const PlanReport& plan = *tried.run.plan;
    std::int64_t sent = 0;
    for (const PlanComputation& each : plan.computations) sent += each.sent();
    rows.push_back({tried.mesh, seconds_text(plan.estimate()),
                    amount_of_bytes(static_cast<std::uint64_t>(plan.peak())),
                    amount_of_bytes(static_cast<std::uint64_t>(sent)),
                    fmt::format("{:.2f} s", plan.compile_seconds()), plan.fits() ? "" : "does not fit"});
  }
  std::fputs(aligned(rows, "lrrrrl").c_str(), stdout);
  return all.front().fits() ? 0 : 1;
}

}  // namespace

void add_plan_command(CLI::App& tool, const std::vector<std::string>& command, int* status) {
  auto options = std::make_shared<Options>();
  CLI::App* plan_command = tool.add_subcommand(
      "plan", "Show what a program needs on described devices: memory, work, communication, time");
  plan_command
      ->add_option("-t,--topology", options->topology, "Devices: v5e:16x16, 2*v5e:16x16, h100:16x8, cpu:64x4")
      ->required();
  plan_command->add_flag("--json", options->json, "All figures, as JSON (docs/plan.md)");
  plan_command->add_option("--svg", options->svg, "Draw bars of memory and time into this file");
  plan_command->add_option("--search", options->search,
                           "Try all sizes of the mesh with these axes: data,fsdp,tensor");
  plan_command->footer("lockstep plan --topology v5e:16x16 -- PROGRAM [ARGUMENTS]");
  plan_command->callback([options, &command, status] {
    if (command.empty()) throw CLI::RequiredError("-- PROGRAM");
    if (!options->search.empty() && (options->json || !options->svg.empty()))
      throw CLI::ValidationError("--search", "cannot be given with --json or --svg");
    try {
      *status = options->search.empty() ? plan(*options, command) : search(*options, command);
    } catch (const std::system_error& error) {
      say("lockstep plan", fmt::format("{}: {}", command.front(), error.code().message()));
      *status = error.code().value() == ENOENT ? kNotFound : kNotExecutable;
    } catch (const Error& error) {
      say("lockstep plan", error.what());
      *status = 1;
    }
  });
}

}  // namespace lockstep::cli
