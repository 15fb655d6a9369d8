// SPDX-License-Identifier: Apache-2.0
// Benchmark of random numbers: the first call, which compiles, of a function that makes some normal arrays of
// different sizes; and the median time of 21 calls that make 4 million words, and as many normal numbers.
//
//   $ NPROC=1 taskset -c 0 build/release/benchmarks/random_on_cpus

#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace ls = lockstep;

namespace {

template <class F>
double seconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  ls::block_until_ready(f());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class F>
double median(const F& f) {
  std::vector<double> all;
  for (int i = 0; i < 24; ++i) all.push_back(seconds(f));
  std::sort(all.begin() + 3, all.end());  // the first ones compile and warm up
  return all[13];
}

}  // namespace

int main() {
  ls::initialize();
  const ls::Array key = ls::random::key(0).data();
  for (const int count : {1, 10, 40}) {
    const auto f = ls::jit([count](const ls::Array& key) {
      std::vector<ls::Array> all;
      for (int i = 0; i < count; ++i)
        all.push_back(ls::random::normal(ls::random::fold_in(ls::random::Key(key), i), {3, 3, 16 + i, 8}));
      return all;
    });
    fmt::print("the first call that makes {:2} normal arrays  {:6.2f} s\n", count,
               seconds([&] { return f(key); }));
  }
  const auto words =
      ls::jit([](const ls::Array& k) { return ls::random::bits(ls::random::Key(k), {4'000'000}); });
  const auto normals =
      ls::jit([](const ls::Array& k) { return ls::random::normal(ls::random::Key(k), {4'000'000}); });
  fmt::print("4 million words                           {:6.2f} ms\n",
             1e3 * median([&] { return words(key); }));
  fmt::print("4 million normal numbers                  {:6.2f} ms\n",
             1e3 * median([&] { return normals(key); }));
}
