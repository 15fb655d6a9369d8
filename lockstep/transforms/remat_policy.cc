// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/remat_policy.h"

#include <algorithm>
#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/name.h"

namespace lockstep::transforms {
namespace {

using Names = std::vector<std::string>;

/// The equation's name among those given, and whether it has any.
struct Named {
  bool any, given;
};
Named named(const ir::Equation& equation, const Names& names) {
  if (equation.primitive != &ir::name_p()) return {false, false};
  return {true, std::ranges::count(names, equation.params.as<ir::NameParams>().name) > 0};
}

bool is_dot(const ir::Equation& equation) { return equation.primitive == &ir::dot_general_p(); }

struct Policy {
  std::string name;
  bool (*saves)(const ir::Equation& equation, const Names& names);
};

const auto& policies() {
  static const std::array<Policy, 7> all = {{
      {"nothing_saveable", nullptr},
      {"everything_saveable", [](const ir::Equation&, const Names&) { return true; }},
      {"dots_saveable", [](const ir::Equation& e, const Names&) { return is_dot(e); }},
      {"dots_with_no_batch_dims_saveable",
       [](const ir::Equation& e, const Names&) {
         return is_dot(e) && e.params.as<ir::DotGeneralParams>().lhs_batch.empty();
       }},
      {"save_only_these_names",
       [](const ir::Equation& e, const Names& names) { return named(e, names).given; }},
      {"save_any_names_but_these",
       [](const ir::Equation& e, const Names& names) {
         const Named name = named(e, names);
         return name.any && !name.given;
       }},
      {"save_anything_except_these_names",
       [](const ir::Equation& e, const Names& names) { return !named(e, names).given; }},
  }};
  return all;
}

const Policy& policy_of(const std::string& name) {
  const auto found = std::ranges::find(policies(), name, &Policy::name);
  if (found != policies().end()) return *found;
  fail("[remat] expected a policy of lockstep/transforms/remat_policy.h, got \"{}\"", name);
}

}  // namespace

void check_policy(const std::string& policy) { policy_of(policy); }

EquationFilter saved_by(const RematParams& params) {
  if (!params.policy) return nullptr;
  const auto saves = policy_of(*params.policy).saves;
  if (saves == nullptr) return nullptr;
  return [saves, names = params.names.value_or(Names())](const ir::Equation& equation) {
    return saves(equation, names);
  };
}

}  // namespace lockstep::transforms
