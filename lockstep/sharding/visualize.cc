// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/visualize.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>

#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

struct Cell {
  std::string devices, processes;
  int colour = 0;
};

/// "0-3,6" of rising numbers.
std::string ranges(const std::set<int>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    int first = *it, last = first;
    while (++it != numbers.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ',';
    text += first == last ? std::to_string(first)
                          : fmt::format("{}{}{}", first, last == first + 1 ? "," : "-", last);
  }
  return text;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// The boxes, as rows of cells of one width.
class Picture {
 public:
  explicit Picture(std::vector<std::vector<Cell>> rows) : rows_(std::move(rows)) {
    for (const auto& row : rows_) {
      for (const Cell& cell : row)
        width_ = std::max({width_, cell.devices.size() + 2, cell.processes.size() + 2});
    }
  }

  std::string text(bool colour) const {
    std::string out = rule("┌", "┬", "┐");
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i > 0) out += rule("├", "┼", "┤");
      out += line(rows_[i], &Cell::devices, colour);
      out += line(rows_[i], &Cell::processes, colour);
    }
    return out + rule("└", "┴", "┘");
  }

 private:
  std::string rule(std::string_view left, std::string_view middle, std::string_view right) const {
    std::string dashes;
    for (std::size_t i = 0; i < width_; ++i) dashes += "─";
    std::string out(left);
    for (std::size_t i = 0; i < rows_.front().size(); ++i) {
      if (i > 0) out += middle;
      out += dashes;
    }
    return out + std::string(right) + "\n";
  }

  std::string line(const std::vector<Cell>& row, std::string Cell::*what, bool colour) const {
    constexpr int kColours[] = {44, 42, 45, 46, 41, 43, 104, 102};
    std::string out = "│";
    for (const Cell& cell : row) {
      std::string inside = fmt::format("{:^{}}", cell.*what, width_);
      if (colour) inside = fmt::format("\x1b[30;{}m{}\x1b[0m", kColours[cell.colour % 8], inside);
      out += inside + "│";
    }
    return out + "\n";
  }

  std::vector<std::vector<Cell>> rows_;
  std::size_t width_ = 0;
};

/// The parts by their positions. `function` is the one that errors name.
std::vector<std::vector<Cell>> cells_of(const char* function, const Shape& shape, const Sharding& sharding) {
  const auto indices = sharding.device_indices(shape);
  std::vector<std::size_t> split;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (sharding.shard_shape(shape)[d] != shape[d]) split.push_back(d);
  }
  if (split.size() > 2) {
    fail<ShardingError>("[{}] {} splits {} dimensions of {}, but a picture shows at most two", function,
                        sharding.to_string(), split.size(), to_string(shape));
  }
  auto place = [&](const std::vector<IndexRange>& index) -> std::pair<std::int64_t, std::int64_t> {
    if (split.empty()) return {0, 0};
    const std::int64_t start = index[split[0]].start;
    if (split.size() == 2) return {start, index[split[1]].start};
    const bool last = split[0] + 1 == shape.size();
    return last ? std::pair(std::int64_t{0}, start) : std::pair(start, std::int64_t{0});
  };
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::set<int>, std::set<int>>> parts;
  std::set<std::int64_t> lefts, tops;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = place(indices[i]);
    const Device device = sharding.devices()[i];
    parts[at].first.insert(device.id());
    parts[at].second.insert(device.process_index());
    tops.insert(at.first);
    lefts.insert(at.second);
  }
  const std::string platform = upper(sharding.devices().front().platform());
  std::map<std::set<int>, int> colours;
  std::vector<std::vector<Cell>> rows;
  for (std::int64_t top : tops) {
    auto& row = rows.emplace_back();
    for (std::int64_t left : lefts) {
      const auto& [devices, processes] = parts.at({top, left});
      const int colour = colours.try_emplace(devices, static_cast<int>(colours.size())).first->second;
      row.push_back({fmt::format("{} {}", platform, ranges(devices)),
                     fmt::format("process {}", ranges(processes)), colour});
    }
  }
  return rows;
}

}  // namespace

std::string sharding_picture(const Shape& shape, const Sharding& sharding, PictureOptions options) {
  return Picture(cells_of("visualize_sharding", shape, sharding)).text(options.colour);
}

std::string sharding_svg(const Shape& shape, const Sharding& sharding) {
  constexpr const char* kFills[] = {"#d6e2ff", "#dff2e3", "#fdebd0", "#f3dcf5",
                                    "#d5f0f2", "#f9d8d6", "#e6e3da", "#ececff"};
  constexpr std::size_t kHeight = 52, kOfCharacter = 8, kMargin = 24;
  const std::vector<std::vector<Cell>> rows = cells_of("sharding_svg", shape, sharding);
  std::size_t width = 0;
  for (const auto& row : rows)
    for (const Cell& cell : row)
      width = std::max({width, cell.devices.size() * kOfCharacter, cell.processes.size() * kOfCharacter});
  width += kMargin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"14\" text-anchor=\"middle\">\n",
      rows.front().size() * width + 2, rows.size() * kHeight + 2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      const Cell& cell = rows[i][j];
      const std::size_t x = 1 + j * width, y = 1 + i * kHeight, middle = x + width / 2;
      out +=
          fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#8a93a6\"/>\n",
                      x, y, width, kHeight, kFills[cell.colour % 8]);
      out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", middle, y + 22, cell.devices);
      out +=
          fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\">{}</text>\n", middle, y + 40, cell.processes);
    }
  }
  return out + "</svg>\n";
}

void visualize_sharding(const Shape& shape, const Sharding& sharding) {
  const bool colour = ::isatty(STDOUT_FILENO) == 1 && !Environment::process().get("NO_COLOR");
  const std::string picture = sharding_picture(shape, sharding, {.colour = colour});
  std::fwrite(picture.data(), 1, picture.size(), stdout);
  std::fflush(stdout);
}

}  // namespace lockstep
