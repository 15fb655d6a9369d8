// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/planned.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lockstep/base/call_site.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/large_values.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {
namespace {

using runtime::PlannedCollective;

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
  planned->largest = ir::largest_values(per_device);
  planned->has_loops = lowered.traits.loops;
  planned->counted_flops = cost_of(per_device).flops;
  runtime::Plan& plan = runtime::Runtime::get().plan();
  plan.compile(*planned, lowered, mesh, options);
  plan.add(planned);
  return planned;
}

}  // namespace lockstep::internal
