// SPDX-License-Identifier: Apache-2.0
// Costs of recording: an event, and the calls around it that a launch makes.
//
//     build/release/benchmarks/recorder_bench
//
// An event (Doing) shall take 40 ns at most.

#include <benchmark/benchmark.h>

#include "lockstep/watch/clock.h"
#include "lockstep/watch/phase.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::watch {
namespace {

void clock_itself(benchmark::State& state) {
  const Clock clock = machine_clock();
  state.SetLabel(clock == Clock::kTsc ? "processor's counter" : "CLOCK_MONOTONIC");
  for (auto _ : state) benchmark::DoNotOptimize(ticks(clock));
}
BENCHMARK(clock_itself);

void event(benchmark::State& state) {
  const TextId what = text("step"), site = text("train.cc:3");
  for (auto _ : state) const Doing doing(Kind::kLaunch, what, site, 7);
}
BENCHMARK(event);

void event_within_another(benchmark::State& state) {
  const TextId what = text("psum"), site = text("train.cc:3");
  const Doing launching(Kind::kLaunch, what, site, 7);
  for (auto _ : state) {
    const Doing waiting(Kind::kCollective, what, 0);
    all_arrived();
  }
}
BENCHMARK(event_within_another);

void count_of_a_launch(benchmark::State& state) {
  MeshPlace* const place = mesh_place(11, "0-3");
  const ProgramTexts program{5, text("step"), text("module {}")};
  const TextId site = text("train.cc:3");
  for (auto _ : state) benchmark::DoNotOptimize(count_launch(*place, program, site));
}
BENCHMARK(count_of_a_launch);

void place_in_the_source(benchmark::State& state) {
  const CallSite site = CallSite::from(std::source_location::current());
  for (auto _ : state) benchmark::DoNotOptimize(text(site));
}
BENCHMARK(place_in_the_source);

void users_phase(benchmark::State& state) {
  for (auto _ : state) const Phase phase("load");
}
BENCHMARK(users_phase);

}  // namespace
}  // namespace lockstep::watch

BENCHMARK_MAIN();
