// SPDX-License-Identifier: Apache-2.0
#include "cli/base/output.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <utility>

#include "cli/base/words.h"

namespace lockstep::cli {
namespace {

constexpr std::array<int, 6> kColors = {36, 33, 32, 35, 34, 31};
constexpr std::size_t kKeptEnd = 8192;
constexpr std::string_view kClearLine = "\r\033[K";

}  // namespace

Output::Output(int num_processes, std::vector<std::string> hosts, OutputTarget out, OutputTarget err)
    : targets_{std::move(out), std::move(err)}, hosts_(std::move(hosts)) {
  for (auto& splitters : splitters_) splitters.resize(num_processes);
}

void Output::keep_logs(const std::filesystem::path& folder, int attempt) {
  std::vector<int> all(splitters_[0].size());
  std::iota(all.begin(), all.end(), 0);
  logs_.emplace(folder, all, attempt, LogFiles::Earlier::kAll);
}

void Output::show_only(const std::set<int>& processes) { shown_ = processes; }

std::string_view Output::end_of(int process) const {
  if (ends_.empty()) return "";
  const std::string_view all = ends_[process];
  if (all.size() <= kKeptEnd) return all;
  const std::string_view last = all.substr(all.size() - kKeptEnd);
  const std::size_t line = last.find('\n');
  return line == last.npos ? last : last.substr(line + 1);
}

std::string Output::prefix(int process, const OutputTarget& target) const {
  const std::string name =
      hosts_.empty() ? fmt::format("[{}]", process) : fmt::format("[{}@{}]", process, hosts_[process]);
  return target.color ? fmt::format("\033[{}m{}\033[0m ", kColors[process % kColors.size()], name)
                      : name + " ";
}

std::string Output::progress_line() const {
  for (int stream = 0; stream < 2; ++stream) {
    const std::string_view progress = splitters_[stream].empty() ? "" : splitters_[stream][0].progress();
    if (!targets_[stream].terminal || progress.empty()) continue;
    return fit(prefix(0, targets_[stream]) + std::string(progress), targets_[stream].columns - 1) +
           (targets_[stream].color ? "\033[0m" : "");
  }
  return "";
}

// The progress line stands on the terminal's last line without an end, so it makes way for other lines there.
void Output::print(Stream stream, std::string_view text) {
  const OutputTarget& target = targets_[static_cast<int>(stream)];
  const std::string progress = progress_line();
  if (!text.empty()) {
    const bool make_way = target.terminal && !shown_progress_.empty();
    target.write(make_way ? std::string(kClearLine) + std::string(text) : std::string(text));
    if (make_way) shown_progress_.clear();
  }
  if (progress == shown_progress_) return;
  const OutputTarget& terminal = targets_[0].terminal ? targets_[0] : targets_[1];
  terminal.write((shown_progress_.empty() ? "" : std::string(kClearLine)) + progress);
  shown_progress_ = progress;
}

void Output::feed(int process, Stream stream, std::string_view bytes) {
  if (logs_) {
    if (const auto trouble = logs_->write(process, bytes)) say(*trouble);
  }
  if (!ends_.empty()) {
    std::string& end = ends_[process];
    end += bytes;
    if (end.size() > 4 * kKeptEnd)
      end.erase(0, end.size() - kKeptEnd - 1);  // one more, which tells that it is cut
  }
  if (!shown(process)) return;
  std::string text;
  for (const std::string& line : splitters_[static_cast<int>(stream)][process].feed(bytes)) {
    text += prefix(process, targets_[static_cast<int>(stream)]) + line + "\n";
  }
  print(stream, text);
}

void Output::finish(int process, Stream stream) {
  const std::optional<std::string> rest = splitters_[static_cast<int>(stream)][process].finish();
  print(stream, rest ? prefix(process, targets_[static_cast<int>(stream)]) + *rest + "\n" : "");
}

void Output::say(std::string_view line) {
  if (heard_) heard_(line);
  print(Stream::kErr, own_line("lockstep", line));
}

}  // namespace lockstep::cli
