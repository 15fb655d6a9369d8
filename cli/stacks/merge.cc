// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/merge.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/stacks/names.h"

namespace lockstep::cli {
namespace {

using Kind = StackNode::Kind;

bool starts_with_one_of(std::string_view text, std::span<const std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return text.starts_with(start); });
}

/// The C and C++ libraries, in which every thread of every library waits.
bool is_system_library(std::string_view module) {
  static constexpr std::string_view kStarts[] = {"libc.so",  "libc-",    "libpthread", "libstdc++",
                                                 "libgcc_s", "ld-linux", "[vdso"};
  return starts_with_one_of(module, kStarts);
}

/// Whose the library is, of those with threads of their own that run a user's functions only through
/// Lockstep's; empty for others.
std::string_view owner_of_library(std::string_view module) {
  static constexpr std::pair<std::string_view, std::string_view> kOwners[] = {
      {"libgrpc", "gRPC"}, {"libgpr", "gRPC"},   {"libabsl_", "gRPC"}, {"libcares", "gRPC"},
      {"libucs", "UCX"},   {"libucp", "UCX"},    {"libuct", "UCX"},    {"libucm", "UCX"},
      {"libcurl", "curl"}, {"libssl", "TLS"},    {"libcrypto", "TLS"}, {"libcuda", "CUDA"},
      {"libnccl", "NCCL"}, {"libnvidia", "CUDA"}};
  for (const auto& [start, owner] : kOwners) {
    if (module.starts_with(start)) return owner;
  }
  return module.find("pjrt") != std::string_view::npos ? "XLA" : "";
}

/// Where threads of Lockstep's own are while they have nothing to do.
bool waits_for_work(std::string_view function) {
  static constexpr std::string_view kLoops[] = {
      "lockstep::coordination::",        "lockstep::runtime::DeviceThreads::",
      "lockstep::runtime::StallWatch::", "lockstep::collectives::Peers",
      "lockstep::collectives::Lane",     "lockstep::storage::",
      "lockstep::data::Loader::",        "lockstep::metrics::"};
  return starts_with_one_of(function, kLoops);
}

bool is_of_standard_library(std::string_view file) {
  return file.find("/include/c++/") != std::string_view::npos;
}

/// The C library's names for a function as its callers have it: "__GI___libc_read" is read.
std::string name_of_call(std::string_view function) {
  if (function.starts_with("__GI_")) function.remove_prefix(5);
  while (function.starts_with('_')) function.remove_prefix(1);
  if (function.starts_with("libc_")) function.remove_prefix(5);
  return std::string(function);
}

/// The thread's activity, by the last function of its stack where that tells more than the system call. As
/// for the stack, a stop in between must not make equal threads differ.
std::string end_of(watch::ThreadState state, const std::vector<StackNode>& path) {
  if (state.state != 'S' || path.empty() || !is_system_library(path.back().module)) return describe(state);
  if (path.back().text != "syscall") return "waiting";
  if (state.syscall == SYS_restart_syscall) state.syscall = SYS_futex;  // others have functions of their own
  return describe(state);
}

/// The stack as nodes from the outermost on, without callees and threads.
std::vector<StackNode> path_of(const ThreadStack& thread, bool all) {
  std::vector<StackNode> path;
  if (!thread.missing.empty()) path.push_back({.kind = Kind::kUnknown, .text = thread.missing});
  std::string_view inside;  // the system library that the frame before is in
  for (auto frame = thread.frames.rbegin(); frame != thread.frames.rend(); ++frame) {
    if (!all && (is_glue(frame->function) || is_of_standard_library(frame->file))) continue;
    if (!all && is_system_library(frame->module)) {
      // Only what was called of it; what that calls within is its own affair.
      if (frame->function.empty() || inside == frame->module) continue;
      inside = frame->module;
      path.push_back({.text = name_of_call(frame->function), .module = frame->module});
      continue;
    }
    inside = "";
    const std::string module = frame->of_program ? "" : frame->module;
    if (frame->function.empty() && !frame->of_program) {
      if (!path.empty() && path.back().kind == Kind::kNameless && path.back().module == module) {
        path.back().fewest = ++path.back().most;
      } else {
        path.push_back({.kind = Kind::kNameless, .module = module});
      }
      continue;
    }
    path.push_back(
        {.text = frame->function.empty() ? "(a function without a name)" : frame->function,
         .module = module,
         .place = frame->file.empty()
                      ? ""
                      : fmt::format("{}:{}", std::filesystem::path(frame->file).filename().string(),
                                    frame->line)});
  }
  path.push_back({.kind = Kind::kEnd,
                  .text = all ? describe(thread.state) : end_of(thread.state, path),
                  .least_ticks = thread.state.cpu_ticks,
                  .most_ticks = thread.state.cpu_ticks});
  return path;
}

auto what_it_is(const StackNode& node) { return std::tie(node.kind, node.text, node.module, node.place); }

void add_stack(StackNode& root, int process, const std::vector<StackNode>& path) {
  StackNode* at = &root;
  ++at->threads[process];
  for (const StackNode& next : path) {
    auto found = std::find_if(at->callees.begin(), at->callees.end(), [&](const StackNode& callee) {
      return what_it_is(callee) == what_it_is(next);
    });
    if (found == at->callees.end()) found = at->callees.insert(found, next);
    found->fewest = std::min(found->fewest, next.fewest);
    found->most = std::max(found->most, next.most);
    found->least_ticks = std::min(found->least_ticks, next.least_ticks);
    found->most_ticks = std::max(found->most_ticks, next.most_ticks);
    ++found->threads[process];
    at = &*found;
  }
}

/// Among equally many, those of the lower process first, and then in the order of their names.
void put_minority_first(StackNode& node) {
  const auto order = [](const StackNode& callee) {
    return std::tuple(callee.threads.size(), callee.threads.begin()->first, what_it_is(callee));
  };
  std::sort(node.callees.begin(), node.callees.end(),
            [&](const StackNode& one, const StackNode& other) { return order(one) < order(other); });
  for (StackNode& callee : node.callees) put_minority_first(callee);
}

}  // namespace

std::string idle_owner(const ThreadStack& thread) {
  constexpr std::string_view kOwn = "Lockstep";
  const bool rests = thread.state.state == 'S' || thread.state.state == 'T' || thread.state.state == 't';
  if (thread.main || !rests || thread.frames.empty() || !thread.missing.empty()) return "";
  std::string_view owner;
  for (const Frame& frame : thread.frames) {
    if (is_system_library(frame.module) || is_glue(frame.function)) continue;
    const std::string_view here = !frame.of_program                ? owner_of_library(frame.module)
                                  : waits_for_work(frame.function) ? kOwn
                                                                   : "";
    if (here.empty()) return "";
    if (owner != kOwn) owner = here;  // otherwise the outermost's
  }
  return std::string(owner);
}

MergedStacks merge_stacks(std::span<const NumberedStacks> processes, bool all) {
  MergedStacks merged{.num_processes = static_cast<int>(processes.size())};
  for (const auto& [process, stacks] : processes) {
    if (!stacks.process.exists || stacks.process.state == 'Z') {
      merged.ended.push_back(process);
    } else if (!stacks.refused.empty()) {
      merged.refused.push_back({process, stacks});
    } else {
      for (const ThreadStack& thread : stacks.threads) {
        const std::string owner = all ? "" : idle_owner(thread);
        if (!owner.empty())
          ++merged.idle[owner][process];
        else
          add_stack(thread.main ? merged.main : merged.others, process, path_of(thread, all));
      }
    }
  }
  std::sort(merged.ended.begin(), merged.ended.end());
  put_minority_first(merged.main);
  put_minority_first(merged.others);
  return merged;
}

}  // namespace lockstep::cli
