// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/translate.h"

#include <unordered_map>

#include "lockstep/base/fail.h"
#include "lockstep/interop/bytes.h"
#include "lockstep/interop/translation.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::interop {
namespace {

/// Versions of VHLO's operations above this one may say more than is read here.
constexpr char kNewestOfOperation = '2';

/// From a type of VHLO to MLIR's own, around Shardy's operations.
constexpr std::string_view kCast = "builtin.unrealized_conversion_cast";

std::string where(const Operation& operation) {
  const std::string place = operation.location == nullptr ? "" : operation.location->text;
  return place.empty() ? "" : fmt::format(" ({})", place);
}

/// "vhlo.add_v1" as "add". Throws Error for another dialect and a newer version.
std::string plain_name(const Operation& operation) {
  const std::string& name = operation.name;
  const std::size_t version = name.rfind("_v");
  if (name.starts_with("sdy.") || name == kCast) return name;
  if (!name.starts_with("vhlo.") || version == name.npos || version + 3 != name.size() ||
      name.back() > kNewestOfOperation) {
    fail<Error>("[import_jax_export] the module has the operation {}{}, which this Lockstep does not know",
                name, where(operation));
  }
  return name.substr(5, version - 5);
}

class Run : public Surroundings {
 public:
  Run(const Module& module, int platform_index, const Constrain& constrain)
      : constrain_(constrain),
        platform_index_(platform_index),
        values_(module.num_values),
        constants_(module.num_values),
        producers_(module.num_values) {
    // The builtin module is the one operation of the body.
    const Region* all = &module.body;
    if (all->operations.size() == 1 && all->operations[0].name == "builtin.module" &&
        all->operations[0].regions.size() == 1)
      all = &all->operations[0].regions[0];
    for (const Operation& operation : all->operations) {
      if (operation.name.starts_with("vhlo.func_v")) {
        const Attribute* name = operation.find("sym_name");
        if (name == nullptr || operation.regions.size() != 1) fail_damaged("a function has no name");
        functions_[name->text] = &operation;
      } else if (operation.name == "sdy.mesh") {
        add_mesh(operation);
      }
    }
  }

  std::vector<Array> main(const std::vector<Array>& arguments) {
    const auto found = functions_.find("main");
    if (found == functions_.end()) fail_damaged("the module has no function main");
    std::vector<Array> all = arguments;
    if (found->second->regions[0].arguments.size() == arguments.size() + 1) {
      const Aval first = aval_of(*found->second->regions[0].argument_types[0]);
      if (!first.shape.empty() || !is_integer(first.dtype)) fail_damaged("main takes something unknown");
      all.insert(all.begin(), ir::lax::full(Array(), ir::Scalar::of(platform_index_), first.dtype, {}));
    }
    return call("main", all);
  }

  std::vector<Array> for_each_element(const Region& region, std::span<const Array> arrays) override {
    std::function<std::vector<Array>(const std::vector<Array>&)> all =
        [&](const std::vector<Array>& elements) { return run(region, elements); };
    for (std::int64_t i = arrays.front().ndim(); i > 0; --i) all = vmap(all);
    return all({arrays.begin(), arrays.end()});
  }

  std::optional<ir::Scalar> known(std::size_t value) const override { return constants_.at(value); }

  const Region& function(const std::string& name) const override {
    const auto found = functions_.find(name);
    if (found == functions_.end()) fail_damaged(fmt::format("the function {} is not there", name));
    return found->second->regions[0];
  }

 private:
  struct MeshAxes {
    std::vector<std::string> names;
    std::vector<std::int64_t> sizes;
  };

  void add_mesh(const Operation& operation) {
    std::string name;
    MeshAxes axes;
    for (const AttributePtr& property : operation.properties) {
      if (property->kind == Attribute::Kind::kString) name = property->text;
      if (property->kind != Attribute::Kind::kMesh) continue;
      for (const auto& axis : property->splits) axes.names.push_back(axis.front());
      axes.sizes = property->numbers;
    }
    meshes_[name] = std::move(axes);
  }

  std::vector<Array> call(const std::string& name, std::span<const Array> arguments) {
    const Region& body = function(name);
    if (++depth_ > kDeepest) fail_damaged("functions call each other without an end");
    std::vector<Array> results = run(body, arguments);
    --depth_;
    return results;
  }

  /// The results of the region for these arguments.
  std::vector<Array> run(const Region& region, std::span<const Array> arguments) {
    if (arguments.size() != region.arguments.size()) fail_damaged("a call has another number of arguments");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Aval aval = aval_of(*region.argument_types[i]);
      if (aval.shape != arguments[i].shape() || aval.dtype != arguments[i].dtype())
        fail_damaged("a call's argument is of another type");
      set(region.arguments[i], arguments[i]);
    }
    for (const Operation& operation : region.operations) {
      const std::string name = plain_name(operation);
      std::vector<Array> operands;
      for (const std::size_t value : operation.operands) operands.push_back(values_.at(value));
      if (name == "return") return operands;
      std::vector<Array> results = results_of(operation, name, std::move(operands));
      if (results.size() != operation.results.size()) fail_damaged(fmt::format("{} has other results", name));
      for (std::size_t i = 0; i < results.size(); ++i) {
        const Aval aval = aval_of(*operation.result_types[i]);
        if (aval.shape != results[i].shape() || aval.dtype != results[i].dtype()) {
          fail<Error>("[import_jax_export] the module's {}{} gives {}; here it gives {}", name,
                      where(operation), to_string(aval), to_string(results[i].aval()));
        }
        set(operation.results[i], std::move(results[i]));
        producers_.at(operation.results[i]) = &operation;
      }
      if (name == "constant") constants_[operation.results[0]] = splat_of(*operation.find("value"));
      if (name == "broadcast_in_dim" || name == "reshape")
        constants_[operation.results[0]] = constants_[operation.operands.at(0)];
    }
    fail_damaged("a region does not return");
  }

  void set(std::size_t value, Array array) {
    values_.at(value) = std::move(array);
    constants_.at(value).reset();
  }

  std::vector<Array> results_of(const Operation& operation, const std::string& name,
                                std::vector<Array> operands) {
    if (name == "call" || name == "composite") {
      const Attribute* callee = operation.find(name == "call" ? "callee" : "decomposition");
      if (callee == nullptr) fail_damaged("a call names no function");
      return call(callee->text, operands);
    }
    if (name == kCast) return operands;
    if (name == "while") return loop(operation, operands);
    if (name == "case" || name == "if") return choice(operation, name == "if", operands);
    if (name == "sdy.sharding_constraint") return {constrained(operation, operands)};
    if (name.starts_with("sdy.")) {
      fail<Error>(
          "[import_jax_export] the module has {}{}, a program of single devices (shard_map), which is not "
          "read here; export the function without it",
          name, where(operation));
    }
    std::vector<std::optional<ir::Scalar>> constants;
    std::vector<const Operation*> producers;
    for (const std::size_t value : operation.operands) {
      constants.push_back(constants_.at(value));
      producers.push_back(producers_.at(value));
    }
    const Call call(operation, std::move(operands), std::move(constants), std::move(producers), *this);
    return is_reduction(name) ? reduction_results(call) : plain_results(call);
  }

  /// `case` counts its branches; `if` has the one for true first.
  std::vector<Array> choice(const Operation& operation, bool is_if, const std::vector<Array>& operands) {
    if (operands.size() != 1 || operation.regions.empty()) fail_damaged("a choice has no branches");
    std::vector<std::function<std::vector<Array>()>> branches;
    for (const Region& region : operation.regions)
      branches.push_back([this, &region] { return run(region, {}); });
    if (!is_if) return switch_(operands[0], branches);
    if (branches.size() != 2) fail_damaged("an if has other branches than two");
    return cond(operands[0], branches[0], branches[1]);
  }

  std::vector<Array> loop(const Operation& operation, const std::vector<Array>& operands) {
    if (operation.regions.size() != 2) fail_damaged("a loop has no condition and body");
    const Region &condition = operation.regions[0], &body = operation.regions[1];
    return while_loop([&](const std::vector<Array>& carry) -> Array { return run(condition, carry).at(0); },
                      [&](const std::vector<Array>& carry) { return run(body, carry); }, operands);
  }

  Array constrained(const Operation& operation, const std::vector<Array>& operands) {
    if (operands.size() != 1 || operation.properties.empty()) fail_damaged("a sharding is not there");
    const Attribute& sharding = *operation.properties.front();
    if (sharding.kind != Attribute::Kind::kSharding) {
      fail<Error>("[import_jax_export] the module asks for {}{}, which Lockstep does not have", sharding.text,
                  where(operation));
    }
    const auto mesh = meshes_.find(sharding.text);
    if (mesh == meshes_.end()) fail_damaged(fmt::format("the mesh {} is not there", sharding.text));
    return constrain_(operands[0], mesh->second.names, mesh->second.sizes, sharding.splits, sharding.open);
  }

  static constexpr int kDeepest = 200;

  const Constrain& constrain_;
  const int platform_index_;
  std::unordered_map<std::string, const Operation*> functions_;
  std::unordered_map<std::string, MeshAxes> meshes_;
  std::vector<Array> values_;
  std::vector<std::optional<ir::Scalar>> constants_;  ///< of values that are one number in every element
  std::vector<const Operation*> producers_;
  int depth_ = 0;
};

}  // namespace

Call::Call(const Operation& of, std::vector<Array> given, std::vector<std::optional<ir::Scalar>> known,
           std::vector<const Operation*> made_by, Surroundings& around)
    : operation(of),
      module(around),
      name(plain_name(of)),
      operands(std::move(given)),
      constants(std::move(known)),
      producers(std::move(made_by)) {}

const Array& Call::operand(std::size_t i) const {
  if (i >= operands.size()) refuse("an operand is missing");
  return operands[i];
}

std::span<const Array> Call::operands_from(std::size_t i) const {
  if (i > operands.size()) refuse("an operand is missing");
  return std::span<const Array>(operands).subspan(i);
}

Aval Call::result(std::size_t i) const {
  if (i >= operation.result_types.size()) refuse("a result is missing");
  return aval_of(*operation.result_types[i]);
}

const Attribute& Call::attribute(const std::string& attribute) const {
  const Attribute* found = operation.find(attribute);
  if (found == nullptr) refuse(fmt::format("it has no {}", attribute));
  return *found;
}

std::int64_t Call::integer(const std::string& attribute) const { return this->attribute(attribute).integer; }

std::int64_t Call::integer(const std::string& attribute, std::int64_t otherwise) const {
  const Attribute* found = operation.find(attribute);
  return found == nullptr ? otherwise : found->integer;
}

std::vector<std::int64_t> Call::numbers(const std::string& attribute) const {
  return integers_of(this->attribute(attribute));
}

std::vector<std::int64_t> Call::numbers(const std::string& attribute,
                                        std::vector<std::int64_t> otherwise) const {
  const Attribute* found = operation.find(attribute);
  return found == nullptr ? std::move(otherwise) : integers_of(*found);
}

std::string Call::text(const std::string& attribute) const { return this->attribute(attribute).text; }

const Region& Call::region(std::size_t i) const {
  if (i >= operation.regions.size()) refuse("a region is missing");
  return operation.regions[i];
}

std::optional<std::int64_t> Call::configured(const std::string& name) const {
  const Attribute* all = operation.find("backend_config");
  if (const Attribute* named = operation.find("mhlo.backend_config")) all = named;
  if (all == nullptr) return std::nullopt;
  const auto found = all->entries.find(name);
  return found == all->entries.end() ? std::nullopt : std::optional(found->second->integer);
}

void Call::refuse(std::string_view why) const {
  fail<Error>("[import_jax_export] the module's {}{} is not supported: {}", name, where(operation), why);
}

std::vector<Array> run_module(const Module& module, const std::vector<Array>& arguments, int platform_index,
                              const Constrain& constrain) {
  return Run(module, platform_index, constrain).main(arguments);
}

}  // namespace lockstep::interop
