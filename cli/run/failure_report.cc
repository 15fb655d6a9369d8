// SPDX-License-Identifier: Apache-2.0
#include "cli/run/failure_report.h"

#include <fmt/format.h>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/own_file.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  if (const std::string why = write_own_file(file, text); !why.empty())
    fail("cannot write {}: {}", file.string(), why);
}

std::string describe(const watch::ProcessReport& report) {
  std::string text = fmt::format("{}: {} launches, {} collectives", watch::name_process(report),
                                 report.launches, report.collectives);
  if (report.step >= 0) text += fmt::format(", step {}", report.step);
  text += report.ended.empty() ? "" : "; it " + report.ended;
  text += "\n";
  for (const watch::ThreadReport& thread : report.threads) {
    std::string indent = "  ";
    for (const watch::Activity& in : thread.doing) {
      text += fmt::format("{}in {} {}{} for {:.1f} s\n", indent, watch::name_of(in.kind), in.what,
                          in.site.empty() ? "" : " at " + in.site, in.seconds);
      indent += "  ";
    }
    if (thread.missing_count > 0)
      text += fmt::format("{}waiting for processes {}\n", indent, watch::describe_processes(thread.missing));
    if (thread.doing.empty() && thread.last.kind != watch::Kind::kNone) {
      text += fmt::format("  in its own code since {} {}{}, {:.1f} s ago\n", watch::name_of(thread.last.kind),
                          thread.last.what, thread.last.site.empty() ? "" : " at " + thread.last.site,
                          thread.last.seconds_ago);
    }
  }
  for (const watch::MeshReport& mesh : report.meshes) {
    text += fmt::format("  over the mesh of processes {}: {} launches, the last:\n", mesh.processes,
                        mesh.launches);
    const std::size_t shown = std::min<std::size_t>(mesh.log.size(), 5);
    for (std::size_t i = mesh.log.size() - shown; i < mesh.log.size(); ++i) {
      const watch::LaunchReport& launch = mesh.log[i];
      text += fmt::format("    {:8}  {}{}\n", launch.number, launch.what,
                          launch.site.empty() ? "" : " at " + launch.site);
    }
  }
  return text;
}

}  // namespace

std::filesystem::path write_failure_report(const std::filesystem::path& folder, const FailureReport& report) {
  const std::filesystem::path wanted = folder / fmt::format("{}.attempt-{}", report.job_id, report.attempt);
  std::string why = make_own_folders(folder);
  if (!why.empty()) fail("cannot make the folder {}: {}", wanted.string(), why);
  NewFolder made = make_new_folder(wanted);
  if (!made.why_not.empty()) fail("cannot make the folder {}: {}", wanted.string(), made.why_not);
  const std::filesystem::path place = made.path;
  std::string summary = report.words + "\n";
  if (!report.difference.empty() && report.words.find(report.difference) == std::string::npos)
    summary += report.difference + "\n";
  auto all = nlohmann::json::array();
  for (const watch::ProcessReport& process : report.processes) {
    summary += "\n" + describe(process);
    all.push_back(watch::to_json(process));
  }
  std::string log_ends;
  for (std::size_t i = 0; i < report.log_ends.size(); ++i) {
    const std::string& end = report.log_ends[i];
    log_ends += fmt::format("== process {}{}\n{}{}", i, end.empty() ? " wrote nothing" : "", end,
                            end.empty() || end.ends_with('\n') ? "" : "\n");
  }
  write_text(place / "summary.txt", shown_lines(summary));
  write_text(place / "log-ends.txt", log_ends);
  if (!report.stacks.empty()) write_text(place / "stacks.txt", report.stacks);
  write_text(place / "processes.json", json_text_of_any(all, 1) + "\n");
  return place;
}

}  // namespace lockstep::cli
