// SPDX-License-Identifier: Apache-2.0
// An all-to-all in which each device gives 16 MiB, for the tests of a slow network and of what carries its
// bytes.

#include <lockstep/lockstep.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

namespace ls = lockstep;

int main() {
  ls::initialize();
  const std::int64_t n = ls::device_count(), part = (std::int64_t{1} << 22) / n;
  const ls::Mesh mesh = ls::make_mesh({{"i", n}});
  const auto exchange = ls::jit(ls::shard_map(
      [&] {
        const ls::Array me = ls::astype(ls::axis_index("i"), ls::float32);
        const ls::Array place = ls::arange(part, ls::float32),
                        device = ls::reshape(ls::arange(n, ls::float32), {n, 1});
        // To each device, its own number before the place, and the sender's behind it.
        const ls::Array got = ls::all_to_all(place * 2 + device * 10 + me, "i", 0, 0);
        return ls::pmax(ls::max(ls::abs(got - (place * 2 + me * 10 + device))), "i");
      },
      {.mesh = mesh, .in_specs = {}, .out_specs = {ls::P()}}));
  std::cout << "largest difference " << exchange().item<float>() << std::endl;
  std::ifstream maps("/proc/self/maps");
  const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
  std::cout << "UCX is " << (mapped.find("libucp") == std::string::npos ? "not loaded" : "loaded")
            << std::endl;
}
