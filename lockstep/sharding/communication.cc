// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/communication.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/named_scope.h"
#include "lockstep/program/primitive.h"

namespace lockstep::sharding {

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string CommunicationLine::to_string() const {
  std::string text = fmt::format("{} {} over {} ({} devices) at {}", kind, bytes_text(bytes),
                                 fmt::join(axes, ","), num_devices, place_of(site));
  if (!times) return text + ", each time";
  return *times == 1 ? text : text + fmt::format(", {} times", *times);
}

std::vector<CommunicationLine> communication(const ir::Program& partitioned, const ir::AxisEnv& axes) {
  std::vector<CommunicationLine> lines;
  for (std::size_t e = 0; e < partitioned.equations.size(); ++e) {
    const ir::Equation& equation = partitioned.equations[e];
    for (const ir::NestedProgram& nested : ir::programs_of(equation)) {
      for (CommunicationLine& line : communication(*nested.program, axes)) {
        line.equation = e;
        line.times = line.times && nested.times ? std::optional(*line.times * *nested.times) : std::nullopt;
        lines.push_back(std::move(line));
      }
    }
    const ir::Exchange found = equation.primitive->exchange(equation.params);
    if (found.kind.empty() || axes.size(found.axes) == 1) continue;
    CommunicationLine& line = lines.emplace_back();
    line.equation = e;
    line.kind = found.kind;
    line.axes = found.axes;
    line.num_devices = axes.size(found.axes);
    for (ir::Var var : equation.inputs) line.bytes = std::max(line.bytes, partitioned.aval(var).bytes());
    for (ir::Var var : equation.outputs) line.bytes = std::max(line.bytes, partitioned.aval(var).bytes());
    line.site = equation.site;
    line.reason = equation.reason;
  }
  return lines;
}

std::string explain(const std::vector<CommunicationLine>& lines) {
  std::string text;
  for (const CommunicationLine& line : lines) {
    text += line.to_string() + "\n  ";
    text += line.reason.empty() ? "as the program says" : line.reason;
    text += "\n";
  }
  return text;
}

std::string describe(const ir::Program& partitioned, const ir::AxisEnv& axes) {
  const std::vector<CommunicationLine> lines = communication(partitioned, axes);
  const std::string text = ir::to_string(partitioned);
  // The text of an equation begins in the line after the previous one's; the text of an equation that
  // contains programs has these between its first and last line.
  std::vector<std::size_t> last_lines;
  std::size_t last = 0;
  for (const ir::Equation& equation : partitioned.equations)
    last_lines.push_back(last +=
                         1 + static_cast<std::size_t>(std::ranges::count(equation.params.text(), '\n')));
  std::string out;
  std::int64_t total = 0;
  auto next = lines.begin();
  std::size_t line_number = 0;
  for (std::size_t start = 0; start < text.size(); ++line_number) {
    const std::size_t end = text.find('\n', start);
    out += text.substr(start, end - start);
    for (bool first = true; next != lines.end() && line_number == last_lines[next->equation]; first = false) {
      out += (first ? "  # " : "; ") + next->to_string();
      total += next->total_bytes();
      ++next;
    }
    out += '\n';
    start = end + 1;
  }
  return out + fmt::format("# {} collective{}, {} on each device\n", lines.size(),
                           lines.size() == 1 ? "" : "s", bytes_text(total));
}

}  // namespace lockstep::sharding
