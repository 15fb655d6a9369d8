// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/planned.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/base/call_site.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/primitive.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {
namespace {

using runtime::LargeValue;
using runtime::PlannedCollective;

/// The number of values that are reported for a program.
constexpr std::size_t kLargest = 8;

/// Whether devices that differ in these axes only have, anywhere in the mesh, different numbers. Of an axis
/// that is taken in parts, "x:(2)2", the whole counts.
bool crosses(const Mesh& mesh, std::vector<std::string> axes, int (Device::*number)() const) {
  for (std::string& axis : axes) axis = axis.substr(0, axis.find(':'));
  const std::vector<std::string>& names = mesh.axis_names();
  std::map<std::vector<std::int64_t>, int> groups;  // By their places along the other axes.
  for (std::int64_t position = 0; position < mesh.size(); ++position) {
    std::vector<std::int64_t> group;
    std::int64_t rest = position;
    for (std::size_t axis = names.size(); axis-- > 0;) {
      const std::int64_t size = mesh.shape()[axis];
      if (std::ranges::find(axes, names[axis]) == axes.end()) group.push_back(rest % size);
      rest /= size;
    }
    const int mine = (mesh.devices()[static_cast<std::size_t>(position)].*number)();
    if (groups.emplace(std::move(group), mine).first->second != mine) return true;
  }
  return false;
}

/// The largest values, by each device's part, that the program and the programs inside its equations compute
/// or get.
std::vector<LargeValue> largest_of(const ir::Program& program) {
  std::vector<LargeValue> all;
  const auto add = [&](const Aval& aval, std::string operation, std::string site) {
    all.push_back({aval.bytes(), to_string(aval), std::move(operation), std::move(site)});
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    add(program.aval(program.inputs[i]), fmt::format("argument {}", i), "");
  const std::function<void(const ir::Program&)> visit = [&](const ir::Program& holder) {
    for (const ir::Equation& equation : holder.equations) {
      for (const ir::Var output : equation.outputs)
        add(holder.aval(output), std::string(equation.primitive->name), equation.site.to_string());
      for (const ir::NestedProgram& nested : ir::programs_of(equation)) visit(*nested.program);
    }
  };
  visit(program);
  std::ranges::stable_sort(all, [](const LargeValue& a, const LargeValue& b) { return a.bytes > b.bytes; });
  // A line that makes many equal values is reported once.
  std::set<std::string> told;
  std::erase_if(all, [&](const LargeValue& value) {
    return !told.insert(value.type + value.operation + value.site).second;
  });
  all.resize(std::min(all.size(), kLargest));
  return all;
}

}  // namespace

std::shared_ptr<runtime::PlannedComputation> plan_computation(
    const std::string& name, const ir::Program& per_device, const ir::LoweredProgram& lowered,
    const Mesh& mesh, const std::vector<sharding::CommunicationLine>& collectives,
    const CompilerOptions& options) {
  auto planned = std::make_shared<runtime::PlannedComputation>();
  planned->name = name;
  planned->site = CallSiteScope::current().to_string();
  planned->mesh = mesh.to_string();
  planned->num_devices = mesh.size();
  for (const sharding::CommunicationLine& line : collectives) {
    planned->collectives.push_back({.kind = line.kind,
                                    .axes = line.axes,
                                    .num_devices = line.num_devices,
                                    .bytes = line.bytes,
                                    .times = line.times,
                                    .crosses_hosts = crosses(mesh, line.axes, &Device::process_index),
                                    .crosses_slices = crosses(mesh, line.axes, &Device::slice_index),
                                    .site = line.site.to_string()});
  }
  planned->largest = largest_of(per_device);
  planned->has_loops = lowered.traits.loops;
  planned->counted_flops = cost_of(per_device).flops;
  runtime::Plan& plan = runtime::Runtime::get().plan();
  plan.compile(*planned, lowered, mesh, options);
  plan.add(planned);
  return planned;
}

}  // namespace lockstep::internal
