// SPDX-License-Identifier: Apache-2.0
// Trees written as the tensors that rules name.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/elements.h"
#include "lockstep/checkpoint/exporting.h"
#include "lockstep/checkpoint/hf.h"
#include "lockstep/checkpoint/names.h"

namespace lockstep::checkpoint::hf {
namespace {

/// An array, and what of it is known before the sizes of all tensors are.
struct Planned {
  std::size_t leaf = 0;
  Named named;
  TensorName name;
  Layout layout;
  Sizes sizes;
};

/// Calls visit(tensor's name, indices of the running axes).
template <class Visit>
void for_each_tensor(const Planned& planned, const Visit& visit) {
  const auto& running = planned.name.running();
  std::vector<std::size_t> at(running.size(), 0);
  for (bool more = true; more;) {
    Sizes indices;
    for (std::size_t i = 0; i < at.size(); ++i) indices[running[i].axis] = static_cast<std::int64_t>(at[i]);
    visit(planned.name.at(at), indices);
    more = false;
    for (std::size_t i = at.size(); i-- > 0 && !more;) {
      more = static_cast<std::int64_t>(++at[i]) < planned.sizes.at(running[i].axis);
      if (!more) at[i] = 0;
    }
  }
}

/// Whether the links cannot have a common element of the tensor.
bool disjoint(const Link& a, const Link& b) {
  for (std::size_t d = 0; d < a.tensor.size(); ++d) {
    if (a.tensor[d].size() != b.tensor[d].size()) continue;
    for (std::size_t t = 0; t < a.tensor[d].size(); ++t) {
      const Term &x = a.tensor[d][t], &y = b.tensor[d][t];
      if (x.full != y.full) break;
      auto count = [](const Link& link, const Term& term) {
        return term.axis < 0 ? 1 : link.axes[static_cast<std::size_t>(term.axis)];
      };
      if (x.from + count(a, x) <= y.from || y.from + count(b, y) <= x.from) return true;
    }
  }
  return false;
}

class Planning {
 public:
  Planning(const Contents& contents, const Rules& rules, const SaveOptions& options)
      : contents_(contents), options_(options) {
    std::vector<Planned> all;
    for (std::size_t i = 0; i < contents.arrays.size(); ++i) {
      Named found = named(rules, contents.arrays[i].path);
      in_context(i, found, [&] { all.push_back(plan(i, found)); });
    }
    for (const Planned& each : all) {
      for_each_tensor(each, [&](const std::string& tensor, const Sizes&) {
        for (const auto& [name, least] : each.layout.open()) {
          std::int64_t& whole = open_[{tensor, name}];
          whole = std::max(whole, least);
        }
      });
    }
    for (const Planned& each : all)
      if (!each.named.tied) in_context(each.leaf, each.named, [&] { add(each); });
    for (const ExportTensor& tensor : tensors_) check(tensor);
    for (const Planned& each : all) {
      if (!each.named.tied) continue;
      for_each_tensor(each, [&](const std::string& tensor, const Sizes&) {
        if (!numbers_.contains(tensor))
          fail<CheckpointError>(
              "[checkpoint] {} is tied to {}, but no other array is written to that tensor ({}): remove "
              "`tied` from the rule",
              shown(contents.arrays[each.leaf].path), shown(tensor), each.named.why);
      });
    }
  }

  const std::vector<ExportTensor>& tensors() const { return tensors_; }

 private:
  template <class Call>
  void in_context(std::size_t leaf, const Named& found, const Call& call) const {
    try {
      call();
    } catch (const CheckpointError& error) {
      const std::string& path = contents_.arrays[leaf].path;
      fail<CheckpointError>("[checkpoint] {} ({}): {}", path.empty() ? "the root" : shown(path), found.why,
                            error.what());
    }
  }

  Planned plan(std::size_t leaf, const Named& found) const {
    const Array& array = contents_.arrays[leaf].array;
    const TensorName name(found.tensor, found.rule == 0);
    Planned planned{leaf, found, name, Layout(found.layout, name.axes()),
                    Sizes(found.sizes.begin(), found.sizes.end())};
    for (const TensorName::Running& running : name.running())
      if (!running.texts.empty()) planned.sizes[running.axis] = std::ssize(running.texts);
    const Shape shape = array.shape();
    planned.layout.set_rank_of_array(shape.size());
    planned.layout.deduce(nullptr, &shape, planned.sizes);
    for (const TensorName::Running& running : name.running()) {
      if (!planned.sizes.contains(running.axis))
        fail<CheckpointError>("the size of {} is not known; give it in `sizes`", running.axis);
    }
    return planned;
  }

  void add(const Planned& planned) {
    const Leaf& leaf = contents_.arrays[planned.leaf];
    const DType dtype =
        options_.dtype && is_floating(leaf.array.dtype()) ? *options_.dtype : leaf.array.dtype();
    if (!can_convert(leaf.array.dtype(), dtype))
      fail<CheckpointError>("SaveOptions::dtype must be a floating-point dtype, got {}", name(dtype));
    if (num_elements(leaf.array.shape()) > 0 || planned.name.running().empty()) {
      for_each_tensor(planned, [&](const std::string& tensor, const Sizes& indices) {
        Sizes sizes = planned.sizes;
        for (const auto& [name, least] : planned.layout.open()) sizes[name] = open_.at({tensor, name});
        Link link = planned.layout.link(sizes, indices);
        const auto [number, is_new] = numbers_.try_emplace(tensor, tensors_.size());
        if (is_new) tensors_.push_back({tensor, dtype, tensor_shape(link), {}});
        ExportTensor& whole = tensors_[number->second];
        if (whole.dtype != dtype || whole.shape != tensor_shape(link)) {
          fail<CheckpointError>(
              "the tensor {} would be {} by this array, but is {} by another one; check their rules",
              shown(tensor), lockstep::to_string(Aval{dtype, tensor_shape(link)}),
              lockstep::to_string(Aval{whole.dtype, whole.shape}));
        }
        whole.parts.push_back({planned.leaf, std::move(link)});
      });
    }
  }

  void check(const ExportTensor& tensor) const {
    std::int64_t elements = 0;
    auto path = [&](const ExportTensor::Part& part) { return shown(contents_.arrays[part.leaf].path); };
    for (std::size_t i = 0; i < tensor.parts.size(); ++i) {
      elements += num_elements(tensor.parts[i].link.axes);
      for (std::size_t j = 0; j < i; ++j) {
        if (!disjoint(tensor.parts[i].link, tensor.parts[j].link)) {
          fail<CheckpointError>(
              "[checkpoint] {} and {} would both be written to {}; if they are the same, set `tied` in the "
              "rule of one",
              path(tensor.parts[j]), path(tensor.parts[i]), shown(tensor.name));
        }
      }
    }
    if (elements != num_elements(tensor.shape)) {
      fail<CheckpointError>("[checkpoint] {} is {}, but only {} of its elements would be written, from {}{}",
                            shown(tensor.name), lockstep::to_string(Aval{tensor.dtype, tensor.shape}),
                            elements, path(tensor.parts.front()),
                            tensor.parts.size() > 1 ? " and others" : "");
    }
  }

  const Contents& contents_;
  const SaveOptions& options_;
  std::map<std::pair<std::string, std::string>, std::int64_t> open_;  ///< by tensor and Layout::open
  std::map<std::string, std::size_t> numbers_;
  std::vector<ExportTensor> tensors_;
};

}  // namespace

void save_tree(const std::string& folder, tree::TreeRef tree, const Rules& rules,
               const SaveOptions& options) {
  const Contents contents = contents_of(tree);
  check_values(contents);
  const Planning planning(contents, rules, options);
  std::map<std::string, std::string> texts;
  if (!options.config.empty()) texts["config.json"] = options.config;
  ExportOptions exporting;
  exporting.largest_file = options.largest_file;
  exporting.timeout = options.timeout;
  export_contents(folder, contents, planning.tensors(), texts, exporting);
}

}  // namespace lockstep::checkpoint::hf
