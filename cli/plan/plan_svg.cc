// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cli/plan/plan_report.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr int kWidth = 900, kLabels = 220, kBar = 20, kRow = 30, kTitle = 40, kValues = 130;
constexpr const char *kArguments = "#4477aa", *kOutputs = "#66ccee", *kTemporary = "#ccbb44",
                     *kTime = "#228833", *kTooMuch = "#cc3311";

std::string xml_escaped(const std::string& text) {
  std::string copy;
  for (const char c : text) {
    if (c == '<')
      copy += "&lt;";
    else if (c == '&')
      copy += "&amp;";
    else
      copy += c;
  }
  return copy;
}

std::string text_at(int x, int y, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, more, xml_escaped(shown(text)));
}

std::string bar(double x, int y, double width, const char* color) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n", x, y,
                     std::max(0.0, width), kBar, color);
}

}  // namespace

std::string plan_svg(const PlanReport& plan) {
  const int room = kWidth - kLabels - kValues;
  const int rows = static_cast<int>(plan.computations.size());
  const int height = 2 * (kTitle + rows * kRow) + kTitle;
  std::string picture = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  const auto bytes = [](std::int64_t count) { return amount_of_bytes(static_cast<std::uint64_t>(count)); };

  std::int64_t most = plan.memory;
  double longest = 0;
  for (const PlanComputation& each : plan.computations) {
    most = std::max({most, each.peak, each.arguments + each.outputs + each.temporary});
    longest = std::max(longest, each.estimate);
  }
  int y = kTitle;
  picture += text_at(10, y - 14,
                     fmt::format("{}: memory of each device{}", plan.topology,
                                 plan.memory > 0 ? ", of " + bytes(plan.memory) : ""),
                     " font-weight=\"bold\"");
  const double scale = most > 0 ? static_cast<double>(room) / static_cast<double>(most) : 0;
  for (const PlanComputation& each : plan.computations) {
    picture += text_at(10, y + 15, each.name);
    double x = kLabels;
    for (const auto& [count, color] :
         {std::pair(each.arguments, kArguments), std::pair(each.outputs, kOutputs),
          std::pair(each.temporary, kTemporary)}) {
      const double width = static_cast<double>(count) * scale;
      picture += bar(x, y, width, each.does_not_fit.empty() ? color : kTooMuch);
      x += width;
    }
    picture +=
        text_at(kWidth - kValues + 10, y + 15, each.does_not_fit.empty() ? bytes(each.peak) : "does not fit");
    y += kRow;
  }
  if (plan.memory > 0) {
    const double x = kLabels + static_cast<double>(plan.memory) * scale;
    picture += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"black\"/>\n",
                           x, kTitle - 6, y);
  }
  y += kTitle;
  picture += text_at(10, y - 14, "time of a call, by the compiler's estimate", " font-weight=\"bold\"");
  for (const PlanComputation& each : plan.computations) {
    picture += text_at(10, y + 15, each.name);
    picture += bar(kLabels, y, longest > 0 ? each.estimate / longest * room : 0, kTime);
    picture += text_at(kWidth - kValues + 10, y + 15, seconds_text(each.estimate));
    y += kRow;
  }
  int x = kLabels;
  y += 10;
  for (const auto& [name, color] : {std::pair("arguments", kArguments), std::pair("results", kOutputs),
                                    std::pair("temporary", kTemporary), std::pair("time", kTime)}) {
    picture += bar(x, y, kBar, color) + text_at(x + kBar + 5, y + 15, name);
    x += 130;
  }
  return picture + "</svg>\n";
}

}  // namespace lockstep::cli
