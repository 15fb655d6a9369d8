// SPDX-License-Identifier: Apache-2.0
// A computation with a large sum beside it, STEPS times (30), each compared with the same whose sum is in its
// place.

#include <lockstep/lockstep.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace ls = lockstep;

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 30;
  ls::initialize();
  const ls::Mesh mesh = ls::make_mesh({{"i", ls::device_count()}});
  const auto step = ls::shard_map(
      [](ls::Array w, ls::Array x) {
        const ls::Array sums = ls::psum(w, "i");  // 2 MiB
        ls::Array h = x;
        for (int layer = 0; layer < 4; ++layer) h = ls::tanh(ls::matmul(h, x));
        return ls::pmean(ls::sum(h), "i") + ls::sum(sums);
      },
      {.mesh = mesh, .in_specs = {ls::P("i"), ls::P()}, .out_specs = {ls::P()}});
  const auto beside = ls::jit(step), in_place = ls::jit(step, {.overlap_threshold_bytes = 0});
  const ls::Array x = ls::ones({512, 512}) * 0.001;
  const ls::Array w =
      ls::device_put(ls::arange(ls::device_count() * 512.) / 512, ls::NamedSharding(mesh, ls::P("i")));
  const ls::Array wide = ls::jit([](ls::Array each) {
    return ls::broadcast_to(ls::expand_dims(each, 1), {each.shape()[0], 1024});
  })(w);
  const bool is_beside = beside.lower(wide, x).partitioned.find("collective_done") != std::string::npos;
  std::cout << "the sum is " << (is_beside ? "beside" : "in its place") << std::endl;
  float largest = 0;
  for (int i = 0; i < steps; ++i) {
    const ls::Array scaled = wide * static_cast<float>(i + 1);
    largest =
        std::max(largest, std::abs(beside(scaled, x).item<float>() - in_place(scaled, x).item<float>()));
    std::cout << "loss " << i << std::endl;
  }
  std::cout << "largest difference " << largest << std::endl;
}
