// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "lockstep/array/device_put.h"
#include "lockstep/array/disable_jit.h"
#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/rounds.h"
#include "tests/golden/functions.h"
#include "tests/golden/stored.h"

// Functions against what JAX gives for them (generate.py). For each: its values; where it has derivatives,
// those forwards and backwards; under vmap, on two examples, what it gives for each; with operands split over
// two devices, what it gives on one. docs/operations.md is the table of what was compared.
namespace lockstep::golden {
namespace {

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kTwoDevices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

const Functions& functions() {
  static const Functions all = [] {
    Functions all;
    add_elementwise(all);
    add_special(all);
    add_reductions(all);
    add_linear_algebra(all);
    add_decompositions(all);
    add_signal(all);
    add_neural(all);
    add_arrays(all);
    add_windows(all);
    add_control_flow(all);
    add_random(all);
    add_optim(all);
    return all;
  }();
  return all;
}

void expect_same(const Array& x, const Array& y, const Tolerance& tolerance) {
  expect_stored(x, Stored(y.dtype(), y.shape(), doubles(y)), tolerance);
}

/// The numbers that generate.py's weights() and directions() are.
Array numbers(const Shape& shape, int factor, int modulus, double middle, double scale, double shift) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * factor % modulus - middle) * scale + shift);
  }
  return array(values, shape);
}

struct Case {
  const Json& json;
  Function function;
  Arrays arguments;
  Tolerance tolerance;

  explicit Case(const Json& json)
      : json(json), function(functions().at(json["name"].get<std::string>())), tolerance(json) {
    for (const Json& name : json["args"])
      arguments.push_back(Stored(file()["inputs"][name.get<std::string>()]).array());
  }
};

/// Whether it says that a function is for CPUs only.
bool is_for_cpus(const std::exception& error) {
  return std::string_view(error.what()).find("and this program is for other devices") !=
         std::string_view::npos;
}

/// Calls `check` for groups of cases, each `every`-th, whose computations are one program each: a compilation
/// takes longer than what it computes. Cases for CPUs only are left out on other devices.
template <class Check>
void for_each_group(int every, Check check) {
  std::vector<const Json*> cases;
  int number = 0;
  for (const Json& json : file()["cases"])
    if (number++ % every == 0) cases.push_back(&json);
  const std::function<void(std::size_t, std::size_t)> check_some = [&](std::size_t first, std::size_t count) {
    std::vector<Case> group;
    for (std::size_t i = first; i < std::min(first + count, cases.size()); ++i) group.emplace_back(*cases[i]);
    SCOPED_TRACE("cases from " + group.front().json["name"].get<std::string>());
    try {
      check(group);
    } catch (const std::exception& error) {
      if (!is_for_cpus(error)) {
        ADD_FAILURE() << error.what();
      } else if (group.size() > 1) {
        for (std::size_t i = 0; i < group.size(); ++i) check_some(first + i, 1);
      }
    }
  };
  constexpr std::size_t kSize = 12;
  for (std::size_t first = 0; first < cases.size(); first += kSize) check_some(first, kSize);
}

using Results = std::vector<Arrays>;  // of each case of a group

/// The functions of a group, each on its own arguments.
auto all_of(const std::vector<Case>& group) {
  return [&group](const Results& arguments) {
    Results results;
    for (std::size_t i = 0; i < group.size(); ++i) results.push_back(group[i].function(arguments[i]));
    return results;
  };
}

TEST(Golden, TheFileAndThisTest_NameTheSameFunctions) {
  std::set<std::string> stored, named;
  for (const Json& json : file()["cases"]) EXPECT_TRUE(stored.insert(json["name"].get<std::string>()).second);
  for (const auto& [name, function] : functions()) named.insert(name);
  EXPECT_EQ(stored, named);
}

struct Derivatives {
  Arrays values, forwards, backwards;
};

Derivatives derivatives_of(const Case& c, const Arrays& arguments) {
  Arrays tangents, weights;
  for (const Array& x : arguments) {
    tangents.push_back(is_floating(x.dtype()) ? numbers(x.shape(), 5, 7, 3, 0.25, 0.125) : x);
  }
  Derivatives all;
  if (c.json.contains("jvp")) {
    std::tie(all.values, all.forwards) = jvp(c.function, std::tuple(arguments), std::tuple(tangents));
  }
  if (c.json.contains("vjp")) {
    auto [values, pull] = vjp(c.function, arguments);
    for (const Array& x : values) weights.push_back(numbers(x.shape(), 7, 5, 2, 0.5, 0.25));
    all.backwards = std::get<0>(pull(weights));
    all.values = values;
  }
  if (all.values.empty()) all.values = c.function(arguments);
  return all;
}

void expect_jaxs(const Case& c, const Derivatives& found) {
  SCOPED_TRACE(c.json["name"].get<std::string>());
  ASSERT_EQ(found.values.size(), c.json["values"].size());
  for (std::size_t i = 0; i < found.values.size(); ++i)
    expect_stored(found.values[i], Stored(c.json["values"][i]), c.tolerance);
  // A derivative adds up terms that may cancel: absolute to the size of what is added.
  const Tolerance wider(std::max(c.tolerance.rtol, 1e-5), 5 * std::max(c.tolerance.atol, 1e-6));
  for (std::size_t i = 0; i < found.forwards.size(); ++i)
    expect_stored(found.forwards[i], Stored(c.json["jvp"][i]), wider);
  std::size_t next = 0;
  for (std::size_t i = 0; i < found.backwards.size(); ++i) {
    if (is_floating(c.arguments[i].dtype()))
      expect_stored(found.backwards[i], Stored(c.json["vjp"][next++]), wider);
  }
}

TEST(Golden, ValuesAndDerivatives_EqualJaxs) {
  for_each_group(1, [](const std::vector<Case>& group) {
    Results arguments;
    for (const Case& c : group) arguments.push_back(c.arguments);
    const std::vector<Derivatives> found = jit([&](const Results& arguments) {
      std::vector<Derivatives> all;
      for (std::size_t i = 0; i < group.size(); ++i) all.push_back(derivatives_of(group[i], arguments[i]));
      return all;
    })(arguments);
    for (std::size_t i = 0; i < group.size(); ++i) expect_jaxs(group[i], found[i]);
  });
}

/// Another example: the leading dimension's parts the other way round; of a square matrix itself.
Array other_example(const Array& x) {
  if (x.ndim() > 1 && x.shape()[0] == x.shape().back()) return x;
  std::vector<Array> parts = split(x, x.shape()[0], 0);
  std::reverse(parts.begin(), parts.end());
  return concatenate(parts);
}

TEST(Golden, UnderVmapAndSplitOverDevices_EachFunctionGivesTheSame) {
  const Mesh mesh = make_mesh({{"data", 2}});
  for_each_group(testing::rounds("LOCKSTEP_GOLDEN_EVERY", 5, 1), [&](const std::vector<Case>& group) {
    Results arguments, others, both, spread;
    for (const Case& c : group) {
      arguments.push_back(c.arguments);
      Arrays &other = others.emplace_back(), &pair = both.emplace_back(), &parts = spread.emplace_back();
      for (const Array& x : c.arguments) {
        other.push_back(other_example(x));
        pair.push_back(stack({x, other.back()}));
        parts.push_back(device_put(x, NamedSharding(mesh, x.shape()[0] % 2 == 0 ? P("data") : P())));
      }
    }
    // Random numbers have little to be split by but themselves.
    auto split = [&](const Results& arguments) {
      Results results = all_of(group)(arguments);
      for (std::size_t k = 0; k < group.size(); ++k) {
        if (!group[k].json["name"].get<std::string>().starts_with("random::")) continue;
        for (Array& x : results[k]) x = with_sharding_constraint(x, NamedSharding(mesh, P("data")));
      }
      return results;
    };
    if (std::ranges::all_of(arguments, &Arrays::empty)) return;  // then there is nothing to map
    auto alone = jit(all_of(group));
    const Results first = alone(arguments), second = alone(others), parts = jit(split)(spread);
    const Results together = vmap(all_of(group))(both);
    for (std::size_t k = 0; k < group.size(); ++k) {
      const Case& c = group[k];
      SCOPED_TRACE(c.json["name"].get<std::string>());
      ASSERT_EQ(together[k].size(), first[k].size());
      for (std::size_t i = 0; i < first[k].size(); ++i) {
        expect_same(index(together[k][i], 0), first[k][i], c.tolerance);
        expect_same(index(together[k][i], 1), second[k][i], c.tolerance);
        expect_same(parts[k][i], first[k][i], c.tolerance);
      }
    }
  });
}

/// Operation by operation: the cases that hold programs, and each so-many-th of the others.
TEST(Golden, WithoutJit_FunctionsAndTheirDerivativesEqualJaxs) {
  const int every = testing::rounds("LOCKSTEP_GOLDEN_EVERY", 24, 1);
  const DisableJit here;
  int number = 0;
  for (const Json& json : file()["cases"]) {
    bool holds_programs = false;
    for (const char* word : {"cond", "switch_", "while", "fori", "scan", "map", "remat", "custom"})
      holds_programs = holds_programs || json["name"].get<std::string>().starts_with(word);
    if (number++ % every != 0 && !holds_programs) continue;
    const Case c(json);
    try {
      expect_jaxs(c, derivatives_of(c, c.arguments));
    } catch (const std::exception& error) {
      if (!is_for_cpus(error)) ADD_FAILURE() << json["name"] << ": " << error.what();
    }
  }
}

/// "sum" of "sum(axis=1, keepdims)".
std::string base(const std::string& name) { return name.substr(0, name.find('(', 1)); }

TEST(Golden, EveryNameOfTheVocabulary_IsComparedOrListedAsMissing) {
  std::set<std::string> compared;
  for (const auto& [name, function] : functions()) compared.insert(base(name));
  for (const std::string& name : vocabulary()) {
    const bool lacks = std::ranges::count(lacking(), name) > 0;
    EXPECT_NE(compared.contains(name), lacks) << name;
  }
  for (const std::string& name : lacking()) EXPECT_EQ(std::ranges::count(vocabulary(), name), 1) << name;
}

/// How near the values are to JAX's.
std::string nearness(const Json& json) {
  if (json.value("exact", false)) return "equal";
  if (json.contains("ulp")) return json["ulp"] == 0 ? "equal" : json["ulp"].dump() + " ulp";
  std::ostringstream number;
  number << json["rtol"].get<double>() << ", " << json["atol"].get<double>();
  return number.str();
}

/// A row for each function; behind its name the other forms of which the row is true.
std::string table() {
  std::vector<std::pair<std::string, std::string>> rows;  // name, what follows it
  std::map<std::pair<std::string, std::string>, std::string> forms;
  for (const Json& json : file()["cases"]) {
    const std::string name = json["name"].get<std::string>(), first = base(name);
    const std::string marks = " | " + nearness(json) + " | " + (json.contains("jvp") ? "yes" : "-") + " | " +
                              (json.contains("vjp") ? "yes" : "-") + " | " +
                              (json["args"].empty() ? "-" : "yes") + " | yes |";
    const std::pair row(first, marks);
    if (std::ranges::count(rows, row) == 0) rows.push_back(row);
    if (name != first)
      forms[row] +=
          (forms[row].empty() ? "" : "; ") + name.substr(first.size() + 1, name.size() - first.size() - 2);
  }
  std::string text;
  for (const auto& row : rows) {
    text += "| `" + row.first + "`" + (forms[row].empty() ? "" : ": " + forms[row]) + row.second + "\n";
  }
  return text;
}

/// The results that are farther from JAX's numbers than the rest, and why.
std::string exceptions() {
  std::vector<std::string> reasons;
  std::map<std::string, std::string> names;
  for (const Json& json : file()["cases"]) {
    if (!json.contains("why")) continue;
    const std::string why = "| " + nearness(json) + " | " + json["why"].get<std::string>() + " |";
    if (std::ranges::count(reasons, why) == 0) reasons.push_back(why);
    std::string& all = names[why];
    all += (all.empty() ? "`" : ", `") + json["name"].get<std::string>() + "`";
  }
  std::string text;
  for (const std::string& why : reasons) text += "| " + names[why] + " " + why + "\n";
  return text;
}

std::string not_here() {
  if (lacking().empty()) return "Not supported: none of the names that the test looks for.\n";
  std::string text = "Not supported:";
  for (const std::string& name : lacking()) text += (text.back() == ':' ? " `" : ", `") + name + "`";
  return text + ".\n";
}

/// With LOCKSTEP_WRITE_DOCS set, the page is written anew and not compared.
TEST(Golden, TheTablesOfThePage_AreUpToDate) {
  std::ifstream in(LOCKSTEP_OPERATIONS_PAGE);
  std::stringstream page;
  page << in.rdbuf();
  std::string text = page.str();
  auto replace = [&text](const std::string& head, const std::string& begin, const std::string& by) {
    const std::size_t at = text.find(head);
    ASSERT_NE(at, std::string::npos) << head;
    const std::size_t from = at + head.size();
    std::size_t to = from;
    while (to < text.size() && text.compare(to, begin.size(), begin) == 0) to = text.find('\n', to) + 1;
    text.replace(from, to - from, by);
  };
  replace("| functions | value | why |\n| --- | --- | --- |\n", "|", exceptions());
  replace("| --- | --- | --- | --- | --- | --- |\n", "|", table());
  replace("<!-- what golden_test lacks -->\n", "Not supported:", not_here());
  if (std::getenv("LOCKSTEP_WRITE_DOCS") != nullptr) {
    std::ofstream(LOCKSTEP_OPERATIONS_PAGE) << text;
    return;
  }
  EXPECT_TRUE(page.str() == text)
      << "the page differs from what is compared; write it with LOCKSTEP_WRITE_DOCS=1";
}

}  // namespace
}  // namespace lockstep::golden
