// SPDX-License-Identifier: Apache-2.0
#include "cli/status/status_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "cli/base/words.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr int kBetween = 2;     // columns of space
constexpr int kLeastText = 16;  // columns of a text that is cut
constexpr std::size_t kMostStalls = 4, kMostStragglers = 4;

std::string cut(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  return width < 2 ? fit(text, static_cast<int>(width)) : fit(text, static_cast<int>(width) - 1) + "…";
}

struct Column {
  std::string title;
  bool right = false;
  /// A text may be cut down to kLeastText; those with the highest number go first where that does not
  /// suffice, 0 never.
  bool text = false;
  int dispensable = 0;
};

struct Line {
  std::vector<std::string> cells;
  std::string color;  ///< Of an escape sequence; empty: none.
};

class Table {
 public:
  Table(std::vector<Column> columns, std::vector<Line> lines)
      : columns_(std::move(columns)), lines_(std::move(lines)) {
    for (Line& line : lines_)
      for (std::string& cell : line.cells) cell = shown(cell);
  }

  std::string print(const TableStyle& style) {
    drop_empty();
    measure();
    while (style.columns > 0 && least_width() > style.columns && drop_one()) measure();
    if (style.columns > 0) shrink(style.columns);
    std::string text = print_line({titles(), style.color ? "1" : ""});
    for (const Line& line : lines_) text += print_line({line.cells, style.color ? line.color : ""});
    return text;
  }

 private:
  std::vector<std::string> titles() const {
    std::vector<std::string> all;
    for (const Column& column : columns_) all.push_back(column.title);
    return all;
  }

  void drop(std::size_t place) {
    columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(place));
    for (Line& line : lines_) line.cells.erase(line.cells.begin() + static_cast<std::ptrdiff_t>(place));
  }

  // Drops the columns that are empty in every line.
  void drop_empty() {
    for (std::size_t i = columns_.size(); i-- > 0;)
      if (std::ranges::all_of(lines_, [&](const Line& line) { return line.cells[i].empty(); })) drop(i);
  }

  bool drop_one() {
    const auto most = std::ranges::max_element(columns_, {}, &Column::dispensable);
    if (most->dispensable == 0) return false;
    drop(static_cast<std::size_t>(most - columns_.begin()));
    return true;
  }

  void measure() {
    widths_.assign(columns_.size(), 0);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      widths_[i] = width_of(columns_[i].title);
      for (const Line& line : lines_) widths_[i] = std::max(widths_[i], width_of(line.cells[i]));
    }
  }

  int total() const {
    return static_cast<int>(std::accumulate(widths_.begin(), widths_.end(), std::size_t{0})) +
           kBetween * (static_cast<int>(columns_.size()) - 1);
  }

  int least_width() const {
    int width = total();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].text) width -= std::max(0, static_cast<int>(widths_[i]) - kLeastText);
    return width;
  }

  // Takes from the widest text first.
  void shrink(int columns) {
    while (total() > columns) {
      std::size_t widest = columns_.size();
      for (std::size_t i = 0; i < columns_.size(); ++i)
        if (columns_[i].text && (widest == columns_.size() || widths_[i] > widths_[widest])) widest = i;
      if (widest == columns_.size() || widths_[widest] <= 1) return;
      --widths_[widest];
    }
  }

  std::string print_line(const Line& line) const {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = cut(line.cells[i], widths_[i]);
      const std::string space(widths_[i] - std::min(width_of(cell), widths_[i]), ' ');
      text += columns_[i].right ? space + cell : cell + space;
      if (i + 1 < columns_.size()) text += std::string(kBetween, ' ');
    }
    while (text.ends_with(' ')) text.pop_back();
    return (line.color.empty() ? text : fmt::format("\033[{}m{}\033[0m", line.color, text)) + "\n";
  }

  std::vector<Column> columns_;
  std::vector<Line> lines_;
  std::vector<std::size_t> widths_;
};

std::string color_of(RowState state) {
  switch (state) {
    case RowState::kFailed:
    case RowState::kStopped:
      return "31";
    case RowState::kWaits:
    case RowState::kTransfers:
      return "33";
    case RowState::kComputes:
    case RowState::kCompiles:
      return "32";
    case RowState::kEnded:
    case RowState::kNotStarted:
      return "2";
    default:
      return "36";
  }
}

std::string percent(double part) { return fmt::format("{:.0f}%", 100 * part); }

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

// "3-7" of numbers from 3 to 7.
std::string range(std::uint64_t least, std::uint64_t most) {
  return least == most ? with_commas(least) : with_commas(least) + "-" + with_commas(most);
}

/// The processes of a line: one, or several that do the same.
class Rows {
 public:
  explicit Rows(std::vector<const ProcessRow*> rows) : rows_(std::move(rows)) {}

  std::size_t size() const { return rows_.size(); }
  bool single() const { return rows_.size() == 1; }
  /// For what they have in common.
  const ProcessRow& first() const { return *rows_.front(); }
  bool started() const { return first().state != RowState::kNotStarted; }

  template <typename Value>
  auto all(Value value) const {
    std::vector<std::decay_t<std::invoke_result_t<Value, const ProcessRow&>>> values;
    for (const ProcessRow* row : rows_) values.push_back(std::invoke(value, *row));
    return values;
  }

  template <typename Value>
  auto most(Value value) const {
    return std::ranges::max(all(value));
  }

  /// "12%", the mean of a share.
  template <typename Share>
  std::string mean_percent(Share share) const {
    const std::vector<double> shares = all(share);
    return percent(std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size()));
  }

 private:
  std::vector<const ProcessRow*> rows_;
};

std::string host_of(const Rows& rows) {
  const std::vector<std::string> hosts = rows.all(&ProcessRow::host);
  const std::set<std::string> different(hosts.begin(), hosts.end());
  return different.size() == 1 ? hosts.front() : fmt::format("{} hosts", different.size());
}

std::string pid_of(const Rows& rows) {
  if (!rows.single()) return cut(watch::describe_processes(rows.all(&ProcessRow::process)), 20);
  return rows.first().pid == 0 ? "" : std::to_string(rows.first().pid);
}

std::string step_of(const Rows& rows) {
  std::vector<std::int64_t> steps = rows.all(&ProcessRow::step);
  std::erase_if(steps, [](std::int64_t step) { return step < 0; });
  if (steps.empty()) return "";
  const auto [least, most] = std::ranges::minmax(steps);
  return range(static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most));
}

std::string launches_of(const Rows& rows) {
  if (!rows.started()) return "";
  const auto [least, most] = std::ranges::minmax(rows.all(&ProcessRow::launches));
  return range(least, most);
}

std::string state_of(const Rows& rows) {
  const ProcessRow& row = rows.first();
  return row.words + (rows.single() && !row.detail.empty() ? "; " + row.detail : "");
}

std::string site_of(const Rows& rows) {
  const ProcessRow& row = rows.first();
  const std::vector<std::string> sites = rows.all(&ProcessRow::site);
  // Names of computations may contain the place already.
  const bool named = row.words.find(row.site) != std::string::npos;
  return named || std::ranges::count(sites, row.site) != std::ssize(sites) ? "" : row.site;
}

std::string wait_of(const Rows& rows) {
  return fmt::format("{} ({})",
                     rows.mean_percent([](const ProcessRow& row) { return row.recent_share.wait; }),
                     rows.mean_percent([](const ProcessRow& row) { return row.share.wait; }));
}

std::string transfer_of(const Rows& rows) {
  return rows.mean_percent([](const ProcessRow& row) { return row.recent_share.transfer; });
}

/// Of the fullest device.
std::string device_memory_of(const Rows& rows) {
  std::optional<watch::DeviceMemoryReport> fullest;
  const auto share = [](const watch::DeviceMemoryReport& of) {
    return static_cast<double>(of.in_use) / static_cast<double>(of.limit);
  };
  for (const auto& devices : rows.all(&ProcessRow::device_memory)) {
    for (const watch::DeviceMemoryReport& each : devices)
      if (each.limit != 0 && (!fullest || share(each) > share(*fullest))) fullest = each;
  }
  if (!fullest) return "";
  return fmt::format("{} of {}", amount_of_bytes(fullest->in_use), amount_of_bytes(fullest->limit));
}

/// A column of the table of processes, with its cells.
struct ProcessColumn {
  Column column;
  std::function<std::string(const Rows&)> cell;
};

const std::vector<ProcessColumn> kColumns = {
    {{.title = "PROCESS", .right = true},
     [](const Rows& rows) {
       return rows.single() ? std::to_string(rows.first().process)
                            : fmt::format("{} of them", with_commas(rows.size()));
     }},
    {{.title = "HOST", .text = true, .dispensable = 3}, host_of},
    {{.title = "PID", .right = true, .dispensable = 4}, pid_of},
    {{.title = "STEP", .right = true}, step_of},
    {{.title = "LAUNCHES", .right = true, .dispensable = 2}, launches_of},
    {{.title = "STATE", .text = true}, state_of},
    {{.title = "AT", .text = true, .dispensable = 6}, site_of},
    {{.title = "FOR", .right = true},
     [](const Rows& rows) {
       const double seconds = rows.most(&ProcessRow::seconds);
       return seconds < 0 ? "" : describe_duration(seconds);
     }},
    {{.title = "WAIT (ALL)", .right = true},
     [](const Rows& rows) { return rows.started() ? wait_of(rows) : ""; }},
    {{.title = "TRANSFER", .right = true, .dispensable = 5},
     [](const Rows& rows) { return rows.started() ? transfer_of(rows) : ""; }},
    {{.title = "MEMORY", .right = true, .dispensable = 1},
     [](const Rows& rows) {
       const std::uint64_t bytes = rows.most(&ProcessRow::memory_bytes);
       return bytes == 0 ? "" : amount_of_bytes(bytes);
     }},
    {{.title = "DEVICE MEMORY", .right = true, .dispensable = 1}, device_memory_of},
    {{.title = "RESTARTS", .right = true, .dispensable = 7},
     [](const Rows& rows) {
       return rows.first().restarts == 0 ? "" : std::to_string(rows.first().restarts);
     }},
    {{.title = "METRICS", .text = true, .dispensable = 8},
     [](const Rows& rows) { return rows.single() ? describe_metrics(rows.first().metrics) : ""; }},
};

Line line_of(const Rows& rows) {
  Line line{{}, color_of(rows.first().state)};
  for (const ProcessColumn& each : kColumns) line.cells.push_back(each.cell(rows));
  return line;
}

std::string headline(const ReadView& status) {
  const JobView& view = status.view;
  std::set<std::string> hosts;
  for (const ProcessRow& row : view.processes) hosts.insert(row.host);
  return fmt::format("job {}: {}, {} for {}, {} {}{}{}", shown(view.job_id), shown(view.command),
                     shown(view.state), describe_duration(view.time - view.started), status.num_processes,
                     status.num_processes == 1 ? "process" : "processes",
                     hosts.size() > 1 ? fmt::format(" on {} hosts", hosts.size()) : "",
                     view.attempt > 0 ? fmt::format(", restart {}", view.attempt) : "");
}

std::string colored(const std::string& text, std::string_view color, const TableStyle& style) {
  return style.color ? fmt::format("\033[{}m{}\033[0m", color, text) : text;
}

// The groups with what needs to be looked at first; of each its processes.
std::vector<std::vector<const ProcessRow*>> group(const JobView& view) {
  std::set<int> alone;
  for (const Straggler& each : view.stragglers) alone.insert(each.process);
  std::map<std::tuple<RowState, std::string, int>, std::vector<const ProcessRow*>> by_state;
  for (const ProcessRow& row : view.processes)
    by_state[{row.state, row.words, alone.contains(row.process) ? row.process : -1}].push_back(&row);
  // Processes whose words differ only by a name share a line, if there are too many lines.
  if (by_state.size() > kMostRows) {
    std::map<std::tuple<RowState, std::string, int>, std::vector<const ProcessRow*>> coarser;
    for (auto& [key, rows] : by_state) {
      const auto& [state, words, process] = key;
      auto& target = rows.size() > 1 || process >= 0 ? coarser[key] : coarser[{state, "", -1}];
      target.insert(target.end(), rows.begin(), rows.end());
    }
    by_state = std::move(coarser);
  }
  std::vector<std::vector<const ProcessRow*>> groups;
  for (auto& [key, rows] : by_state) groups.push_back(std::move(rows));
  // The smallest first: the many do what is right.
  std::ranges::stable_sort(groups, {}, [](const auto& rows) { return rows.size(); });
  if (groups.size() > kMostRows) {
    // The rest in a line for each state.
    std::map<RowState, std::vector<const ProcessRow*>> rest;
    for (std::size_t i = kMostRows; i < groups.size(); ++i)
      rest[groups[i].front()->state].insert(rest[groups[i].front()->state].end(), groups[i].begin(),
                                            groups[i].end());
    groups.resize(kMostRows);
    for (auto& [state, rows] : rest) groups.push_back(std::move(rows));
  }
  return groups;
}

}  // namespace

std::string status_table(const ReadView& status, const TableStyle& style) {
  const JobView& view = status.view;
  std::string text = colored(headline(status), "1", style) + "\n";
  if (!view.failure.empty()) text += colored("failed: " + shown_words(view.failure), "31", style) + "\n";
  std::vector<Column> columns;
  for (const ProcessColumn& each : kColumns) columns.push_back(each.column);
  std::vector<Line> lines;
  if (style.all || view.processes.size() <= kMostRows) {
    for (const ProcessRow& row : view.processes) lines.push_back(line_of(Rows({&row})));
  } else {
    for (auto& rows : group(view)) lines.push_back(line_of(Rows(std::move(rows))));
    *std::ranges::find(columns, "PID", &Column::title) = {.title = "WHICH, PID", .dispensable = 4};
  }
  text += Table(std::move(columns), std::move(lines)).print(style);
  for (std::size_t i = 0; i < std::min(status.stalls.size(), kMostStalls); ++i)
    text += colored(shown_words(status.stalls[i]), "33", style) + "\n";
  if (status.stalls.size() > kMostStalls)
    text += fmt::format("and {} more stalls\n", status.stalls.size() - kMostStalls);
  for (std::size_t i = 0; i < std::min(view.stragglers.size(), kMostStragglers); ++i) {
    const Straggler& each = view.stragglers[i];
    text += colored(fmt::format("process {} waits {} of its time, the others {}: they wait for it",
                                each.process, percent(each.wait_share), percent(each.others_wait_share)),
                    "33", style) +
            "\n";
  }
  return text;
}

std::string jobs_table(const std::vector<ReadView>& jobs, const TableStyle& style) {
  std::vector<Line> lines;
  for (const ReadView& job : jobs) {
    const JobView& view = job.view;
    lines.push_back(
        {{view.job_id, std::to_string(view.pid), std::to_string(job.num_processes), view.state,
          describe_duration(view.time - view.started), std::to_string(view.attempt), view.command},
         ""});
  }
  return Table({{.title = "JOB"},
                {.title = "LAUNCHER", .right = true},
                {.title = "PROCESSES", .right = true},
                {.title = "STATE"},
                {.title = "FOR", .right = true},
                {.title = "RESTARTS", .right = true, .dispensable = 1},
                {.title = "COMMAND", .text = true}},
               std::move(lines))
      .print(style);
}

}  // namespace lockstep::cli
