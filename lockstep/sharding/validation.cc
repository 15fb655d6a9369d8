// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/validation.h"

#include <set>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"

namespace lockstep::sharding {
namespace {

std::string tag(std::string_view what) { return what.empty() ? std::string() : fmt::format("[{}] ", what); }

/// The user's line, if it is known and `what` does not contain it.
std::string at(std::string_view what) {
  const CallSite& site = CallSiteScope::current();
  if (!site.known() || what.find("(at ") != std::string_view::npos) return "";
  return fmt::format(" (at {})", site.to_string());
}

/// "'data'" or "'data' and 'model'".
std::string quoted(const std::vector<std::string>& axes) {
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i)
    text += (i == 0 ? "'" : i + 1 == axes.size() ? " and '" : ", '") + axes[i] + "'";
  return text;
}

std::string mesh_text(const ir::AxisEnv& env) {
  std::string text;
  for (const auto& [name, size] : env.axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return "Mesh(" + text + ")";
}

}  // namespace

void check_spec(const PartitionSpec& spec, const ir::AxisEnv& env, std::string_view what) {
  std::set<std::string> seen;
  for (const auto& axes : spec.entries()) {
    for (const std::string& axis : axes) {
      if (!env.has(axis)) {
        fail<ShardingError>("{}{} names the axis '{}', which {} does not have{}; name one of its axes",
                            tag(what), spec.to_string(), axis, mesh_text(env), at(what));
      }
      if (!seen.insert(axis).second) {
        fail<ShardingError>("{}{} names the axis '{}' twice{}; an axis splits an array once", tag(what),
                            spec.to_string(), axis, at(what));
      }
    }
  }
}

void check_divisible(const Aval& aval, const PartitionSpec& spec, const ir::AxisEnv& env,
                     std::string_view what) {
  check_spec(spec, env, what);
  if (spec.normalized().entries().size() > aval.shape.size()) {
    fail<ShardingError>("{}{} has {} entries, but {} has {} dimensions{}; give at most one entry for each",
                        tag(what), spec.to_string(), spec.entries().size(), to_string(aval),
                        aval.shape.size(), at(what));
  }
  if (!spec.unconstrained().empty()) {
    fail<ShardingError>(
        "{}{} leaves dimension {} unconstrained, which only with_sharding_constraint may do{}; name mesh "
        "axes, or none",
        tag(what), spec.to_string(), spec.unconstrained().front(), at(what));
  }
  for (std::size_t d = 0; d < aval.shape.size(); ++d) {
    const auto& axes = spec.axes(d);
    const std::int64_t n = env.size(axes), size = aval.shape[d];
    if (size % n == 0) continue;
    const std::int64_t below = size / n * n, above = below + n;
    fail<ShardingError>(
        "{}dimension {} of {} has {} elements, which mesh {} {} of {} devices {} not divide (remainder "
        "{}){}; the nearest {}",
        tag(what), d, to_string(aval), size, axes.size() == 1 ? "axis" : "axes", quoted(axes), n,
        axes.size() == 1 ? "does" : "do", size % n, at(what),
        below == 0 ? fmt::format("size that fits is {}", above)
                   : fmt::format("sizes that fit are {} and {}", below, above));
  }
}

}  // namespace lockstep::sharding
