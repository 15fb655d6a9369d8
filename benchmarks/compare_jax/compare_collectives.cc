// SPDX-License-Identifier: Apache-2.0
// Collectives of all processes, one device in each. --kinds KIND,... --sizes BYTES:CALLS,... with BYTES for
// each process.

#include <lockstep/lockstep.h>

#include <functional>
#include <map>
#include <sstream>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;

namespace {

using Program = std::function<ls::Array(ls::Array)>;

/// The collectives of f32[n] in each process, by their names.
std::map<std::string, Program> programs(int count) {
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < count; ++i) ring.emplace_back(i, (i + 1) % count);
  const auto over_i = [](auto body) { return ls::pmap(body, {.axis_name = "i"}); };
  return {
      {"all-reduce", over_i([](ls::Array x) { return ls::psum(x, "i"); })},
      {"all-gather", over_i([](ls::Array x) { return ls::all_gather(x, "i", {.tiled = true}); })},
      {"reduce-scatter", over_i([](ls::Array x) { return ls::psum_scatter(x, "i", {.tiled = true}); })},
      {"all-to-all", over_i([](ls::Array x) { return ls::all_to_all(x, "i", 0, 0); })},
      {"permute", over_i([ring](ls::Array x) { return ls::ppermute(x, "i", ring); })},
  };
}

/// The first element of process 0's result, where process i gives i + 1 everywhere.
float expected(const std::string& kind, int count) {
  if (kind == "all-reduce" || kind == "reduce-scatter") return static_cast<float>(count * (count + 1) / 2);
  return kind == "permute" ? static_cast<float>(count) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto sizes = compare::parse_sizes(compare::option(argc, argv, "--sizes"));
  std::istringstream kinds(compare::option(argc, argv, "--kinds"));
  ls::initialize();
  const int index = ls::process_index(), count = ls::process_count();
  const auto all = programs(count);
  ls::Mesh mesh(ls::local_devices(), {1}, {"i"});
  for (std::string kind; std::getline(kinds, kind, ',');) {
    const Program& program = all.at(kind);
    for (const auto& [bytes, calls] : sizes) {
      std::vector<float> local(static_cast<std::size_t>(bytes / 4), static_cast<float>(index + 1));
      ls::Array x = ls::make_array_from_process_local_data(ls::NamedSharding(mesh, ls::P("i")), local,
                                                           {1, static_cast<std::int64_t>(local.size())});
      ls::Array result;
      for (int i = 0; i < calls / 10 + 2; ++i) result = program(x).block_until_ready();
      if (index == 0 &&
          static_cast<const float*>(result.addressable_shards()[0].data)[0] != expected(kind, count)) {
        std::fprintf(stderr, "compare_collectives: the %s is wrong\n", kind.c_str());
        return 1;
      }
      std::vector<double> seconds;
      for (int i = 0; i < calls; ++i) {
        const double start = compare::now();
        program(x).block_until_ready();
        seconds.push_back(compare::now() - start);
      }
      if (index == 0)
        compare::report_times("collective", seconds,
                              ", \"kind\": \"" + kind + "\", \"bytes\": " + std::to_string(bytes));
    }
  }
}
