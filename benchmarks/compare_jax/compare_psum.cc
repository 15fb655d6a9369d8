// psum over all processes, one device in each. --sizes BYTES:CALLS,... with BYTES for each process.

#include <lockstep/lockstep.h>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;

int main(int argc, char** argv) {
  const auto sizes = compare::parse_sizes(compare::option(argc, argv, "--sizes"));
  ls::initialize();
  const int index = ls::process_index(), count = ls::process_count();
  auto psum = ls::pmap([](ls::Array x) { return ls::psum(x, "i"); }, {.axis_name = "i"});
  ls::Mesh mesh(ls::local_devices(), {1}, {"i"});
  for (const auto& [bytes, calls] : sizes) {
    std::vector<float> local(static_cast<std::size_t>(bytes / 4), static_cast<float>(index + 1));
    ls::Array x = ls::make_array_from_process_local_data(ls::NamedSharding(mesh, ls::P("i")), local,
                                                         {1, static_cast<std::int64_t>(local.size())});
    ls::Array result;
    for (int i = 0; i < calls / 10 + 2; ++i) result = psum(x).block_until_ready();
    if (static_cast<const float*>(result.addressable_shards()[0].data)[0] !=
        static_cast<float>(count * (count + 1) / 2)) {
      std::fprintf(stderr, "compare_psum: the sum is wrong\n");
      return 1;
    }
    std::vector<double> seconds;
    for (int i = 0; i < calls; ++i) {
      const double start = compare::now();
      psum(x).block_until_ready();
      seconds.push_back(compare::now() - start);
    }
    if (index == 0) compare::report_times("psum", seconds, ", \"bytes\": " + std::to_string(bytes));
  }
}
