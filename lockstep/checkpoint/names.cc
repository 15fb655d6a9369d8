// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kOne = "{}", kAny = "{*}";

bool match_from(std::string_view pattern, std::string_view name, std::vector<std::string>& captures) {
  for (; !pattern.empty(); pattern.remove_prefix(1), name.remove_prefix(1)) {
    const bool any = pattern.starts_with(kAny);
    if (any || pattern.starts_with(kOne)) {
      pattern.remove_prefix(any ? kAny.size() : kOne.size());
      for (std::size_t length = 1; length <= name.size() && (any || name[length - 1] != '.'); ++length) {
        captures.emplace_back(name.substr(0, length));
        if (match_from(pattern, name.substr(length), captures)) return true;
        captures.pop_back();
      }
      return false;
    }
    if (name.empty() || name[0] != pattern[0]) return false;
  }
  return name.empty();
}

/// Calls text(string) and brace(string) for what is outside and within { }.
template <class Text, class Brace>
void for_each_brace(std::string_view whole, const Text& text, const Brace& brace) {
  for (std::size_t at = 0;;) {
    const std::size_t open = whole.find('{', at);
    text(whole.substr(at, open - at));
    if (open == std::string_view::npos) return;
    const std::size_t close = whole.find('}', open);
    if (close == std::string_view::npos) fail<CheckpointError>("\"{}\" has a {{ without }}", shown(whole));
    brace(whole.substr(open + 1, close - open - 1));
    at = close + 1;
  }
}

}  // namespace

std::string dotted(std::string_view path) {
  std::string text;
  for (std::size_t at = 0; at < path.size();) {
    if (path[at] != '[') {
      text += path[at++];
      continue;
    }
    const bool key = path.substr(at).starts_with("[\"");
    const std::size_t end = path.find(key ? "\"]" : "]", at + 1);
    if (end == std::string_view::npos) return std::string(path);
    const std::size_t from = at + (key ? 2 : 1);
    if (!text.empty()) text += '.';
    text += path.substr(from, end - from);
    at = end + (key ? 2 : 1);
  }
  return text;
}

std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
  std::vector<std::string> captures;
  return match_from(pattern, name, captures) ? std::optional(captures) : std::nullopt;
}

std::string with_captures(std::string_view text, const std::vector<std::string>& captures) {
  std::string all;
  std::size_t next = 0;
  for_each_brace(
      text, [&](std::string_view each) { all += each; },
      [&](std::string_view brace) {
        std::size_t capture = next;
        if (brace.empty() || brace == "*") {
          ++next;
        } else {
          const auto [end, error] = std::from_chars(brace.data(), brace.data() + brace.size(), capture);
          if (error != std::errc() || end != brace.data() + brace.size()) {
            all += fmt::format("{{{}}}", brace);
            return;
          }
        }
        if (capture >= captures.size()) {
          fail<CheckpointError>("\"{}\" needs {} {{}} in the path, which has {}", shown(text), capture + 1,
                                captures.size());
        }
        all += captures[capture];
      });
  return all;
}

TensorName::TensorName(const std::string& text, bool literal) {
  if (literal) {
    between_.push_back(text);
    return;
  }
  for_each_brace(
      text, [&](std::string_view each) { between_.emplace_back(each); },
      [&](std::string_view brace) {
        const std::size_t colon = brace.find(':');
        Running running{std::string(brace.substr(0, colon)), {}};
        if (colon != std::string_view::npos) {
          for (std::string_view rest = brace.substr(colon + 1);;) {
            const std::size_t comma = rest.find(',');
            running.texts.emplace_back(rest.substr(0, comma));
            if (comma == std::string_view::npos) break;
            rest.remove_prefix(comma + 1);
          }
        }
        running_.push_back(std::move(running));
      });
}

std::vector<std::string> TensorName::axes() const {
  std::vector<std::string> all;
  for (const Running& running : running_) all.push_back(running.axis);
  return all;
}

std::string TensorName::at(const std::vector<std::size_t>& indices) const {
  std::string name = between_.front();
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const std::vector<std::string>& texts = running_[i].texts;
    name += texts.empty() ? std::to_string(indices[i]) : texts[indices[i]];
    name += between_[i + 1];
  }
  return name;
}

Named named(const hf::Rules& rules, const std::string& path) {
  const std::string name = dotted(path);
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    const hf::Rule& rule = rules.rules()[i];
    const auto captures = match(rule.path, name);
    if (!captures) continue;
    Named found{i + 1, "", "", rule.sizes, rule.tied, ""};
    found.why = fmt::format("rule {}, \"{}\" from \"{}\"", i + 1, shown(rule.path), shown(rule.tensor));
    try {
      found.tensor = with_captures(rule.tensor, *captures);
      found.layout = with_captures(rule.layout, *captures);
    } catch (const CheckpointError& error) {
      fail<CheckpointError>("[checkpoint] {} ({}): {}", shown(path), found.why, error.what());
    }
    return found;
  }
  return {0, name, "", {}, false, "no rule is for its path"};
}

bool ignores(const hf::Rules& rules, const std::string& tensor) {
  return std::ranges::any_of(rules.ignored(),
                             [&](const std::string& pattern) { return match(pattern, tensor).has_value(); });
}

}  // namespace lockstep::checkpoint
