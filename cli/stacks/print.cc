// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/base/words.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

using Kind = StackNode::Kind;

constexpr std::string_view kBold = "\033[1m", kDim = "\033[2m", kPlain = "\033[0m";
constexpr std::size_t kLongestRight = 44;

struct Line {
  std::string left, right;
  std::size_t bold_from = std::string::npos;
};

std::string count_of(int number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

std::vector<int> processes_of(const ThreadCounts& threads) {
  std::vector<int> processes;
  for (const auto& [process, count] : threads) processes.push_back(process);
  return processes;
}

int sum_of(const ThreadCounts& threads) {
  int sum = 0;
  for (const auto& [process, count] : threads) sum += count;
  return sum;
}

/// "7 processes: 0-4,6-7", or "all 8 processes"; with the number of threads where some process has several.
std::string describe_set(const ThreadCounts& threads, std::size_t all_processes) {
  const int processes = static_cast<int>(threads.size()), sum = sum_of(threads);
  const std::string some = sum == processes ? "" : fmt::format("{} in ", count_of(sum, "thread", "threads"));
  if (threads.size() == all_processes && processes > 1)
    return fmt::format("{}all {} processes", some, processes);
  return fmt::format("{}{}: {}", some, count_of(processes, "process", "processes"),
                     as_ranges(processes_of(threads)));
}

/// The text without its first character.
std::string_view without_first(std::string_view text) {
  std::size_t end = 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return text.substr(end);
}

/// The text, cut in its middle to so many columns.
std::string shorten(const std::string& text, std::size_t columns) {
  constexpr std::string_view kDots = "...";
  const std::size_t width = width_of(text);
  if (width <= columns) return text;
  if (columns <= kDots.size()) return fit(text, static_cast<int>(columns));
  const std::size_t kept = columns - kDots.size(), end = kept / 2;
  std::string_view rest = text;
  while (width_of(rest) > end) rest = without_first(rest);
  return fit(text, static_cast<int>(kept - end)) + std::string(kDots) + std::string(rest);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  void add_tree(const std::string& title, const StackNode& root) {
    if (root.threads.empty()) return;
    add_sentence(fmt::format("{}: {}", title, describe_set(root.threads, 0)), true);
    all_processes_ = root.threads.size();
    add_callees(root, "  ");
    flush();
  }

  /// A line that may be longer than the others.
  void add_sentence(const std::string& text, bool bold = false) {
    flush();
    if (std::exchange(blank_, false) && !text_.empty()) text_ += '\n';
    text_ += bold ? styled(shown(text), kBold) : shown(text);
    text_ += '\n';
  }

  /// An empty line between what there is and what may come.
  void add_blank() { blank_ = true; }

  void add_threads(const ProcessStacks& stacks) {
    std::map<std::pair<std::string, std::string>, std::pair<int, std::uint64_t>> groups;
    for (const ThreadStack& thread : stacks.threads) {
      auto& [count, ticks] =
          groups[{thread.state.name + (thread.main ? " (main)" : ""), describe(thread.state)}];
      ++count;
      ticks += thread.state.cpu_ticks;
    }
    for (const auto& [what, of_it] : groups) {
      const std::string count = of_it.first == 1 ? "" : fmt::format(" ({} threads)", of_it.first);
      lines_.push_back(
          {.left = fmt::format("    {:<22}  {}{}", what.first, what.second, count),
           .right = fmt::format("{:>8.2f} s of CPU time", watch::seconds_of_ticks(of_it.second))});
    }
    flush();
  }

  std::string take() {
    flush();
    return std::move(text_);
  }

 private:
  void add_chain(const StackNode& first, const std::string& before) {
    const StackNode* at = &first;
    add_node(*at, before);
    while (at->callees.size() == 1 && at->callees[0].threads == at->threads) {
      at = &at->callees[0];
      add_node(*at, before);
    }
    add_callees(*at, before);
  }

  void add_callees(const StackNode& node, const std::string& before) {
    const bool is_one = node.callees.size() == 1 && node.callees[0].threads == node.threads;
    if (is_one) return add_chain(node.callees[0], before);
    for (const StackNode& callee : node.callees) {
      lines_.push_back({.left = before + "+- " + describe_set(callee.threads, all_processes_),
                        .bold_from = before.size() + 3});
      add_chain(callee, before + (&callee == &node.callees.back() ? "     " : "|    "));
    }
  }

  void add_node(const StackNode& node, const std::string& before) {
    Line line{.left = before};
    switch (node.kind) {
      case Kind::kFunction:
        line.left += node.text;
        line.right = node.place.empty() ? node.module : node.place;
        break;
      case Kind::kNameless: {
        const std::string number = node.fewest == node.most
                                       ? count_of(node.most, "frame", "frames")
                                       : fmt::format("{} to {} frames", node.fewest, node.most);
        line.left +=
            fmt::format("... {} in {}", number, node.module.empty() ? "generated code" : node.module);
        break;
      }
      case Kind::kEnd: {
        line.left += "= " + node.text;
        const double least = watch::seconds_of_ticks(node.least_ticks),
                     most = watch::seconds_of_ticks(node.most_ticks);
        if (fmt::format("{:.1f}", most) != "0.0") {
          const std::string from = most - least < 0.1 ? "" : fmt::format("{:.1f} to ", least);
          line.left += fmt::format(" ({}{:.1f} s of CPU time)", from, most);
        }
        break;
      }
      case Kind::kUnknown:
        line.left += fmt::format("(outer functions are not known: {})", node.text);
        break;
    }
    lines_.push_back(std::move(line));
  }

  /// Writes the lines kept so far, with their right parts in one column.
  void flush() {
    const auto columns = static_cast<std::size_t>(std::max(options_.columns, 40));
    std::size_t left = 0, right = 0;
    for (Line& line : lines_) {
      line.left = shown(line.left);
      line.right = shown(line.right);
      if (line.right.empty()) continue;
      left = std::max(left, width_of(line.left));
      right = std::max(right, std::min(width_of(line.right), kLongestRight));
    }
    left = std::min(left, columns - std::min(right + 2, columns / 2));
    for (const Line& line : lines_) {
      std::string text = shorten(line.left, line.right.empty() ? columns : left);
      if (line.bold_from < text.size()) {
        text = text.substr(0, line.bold_from) + styled(text.substr(line.bold_from), kBold);
      } else if (!line.right.empty()) {
        text += std::string(left + 2 - width_of(text), ' ');
        text += styled(shorten(line.right, columns - left - 2), kDim);
      }
      text_ += text + '\n';
    }
    lines_.clear();
  }

  std::string styled(const std::string& text, std::string_view style) const {
    return options_.color ? fmt::format("{}{}{}", style, text, kPlain) : text;
  }

  const PrintOptions options_;
  std::vector<Line> lines_;
  std::string text_;
  bool blank_ = false;
  std::size_t all_processes_ = 0;  // of the tree
};

}  // namespace

std::string as_ranges(const std::vector<int>& sorted) {
  std::string text;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(sorted[first]);
    if (last > first) text += fmt::format("-{}", sorted[last]);
    first = last + 1;
  }
  return text;
}

std::string print_stacks(const MergedStacks& merged, const PrintOptions& options) {
  Printer printer(options);
  for (const auto& [process, stacks] : merged.refused) {
    printer.add_sentence(
        fmt::format("No stacks of process {} (pid {}): {}.", process, stacks.pid, stacks.refused));
    printer.add_sentence("  What its threads do:");
    printer.add_threads(stacks);
  }
  if (!merged.ended.empty()) {
    printer.add_sentence(fmt::format(
        "{} ended: {}",
        merged.ended.size() == 1 ? "1 process has" : fmt::format("{} processes have", merged.ended.size()),
        as_ranges(merged.ended)));
  }
  printer.add_blank();
  printer.add_tree("Main threads", merged.main);
  printer.add_blank();
  printer.add_tree("Other threads", merged.others);
  if (!merged.idle.empty()) {
    int sum = 0;
    std::string owners;
    for (const auto& [owner, threads] : merged.idle) {
      sum += sum_of(threads);
      owners += fmt::format("{}{} of {}", owners.empty() ? "" : ", ", sum_of(threads), owner);
    }
    printer.add_blank();
    printer.add_sentence(fmt::format("Not shown: {} that wait for work: {}; --all shows them",
                                     count_of(sum, "thread", "threads"), owners));
  }
  return printer.take();
}

}  // namespace lockstep::cli
