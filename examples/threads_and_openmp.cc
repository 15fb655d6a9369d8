// SPDX-License-Identifier: Apache-2.0
// OpenMP's threads make the data, one thread runs the program, and another one looks at the results.
//
//   $ lockstep run -n 2 -- build/release/examples/threads_and_openmp
//   [0] the threads of 2 processes filled 2048 rows
//   [0] after step 1 the sum is 0.5
//   [0] after step 2 the sum is 1
//   [0] after step 3 the sum is 1.5

#include <lockstep/lockstep.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace ls = lockstep;
using ls::Array, ls::HostMemory, ls::P;

/// Results on their way from the thread that computes to the one that looks at them.
class Queue {
 public:
  void push(std::optional<Array> result) {
    {
      std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    }
    changed_.notify_one();
  }

  std::optional<Array> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !results_.empty(); });
    std::optional<Array> result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<Array>> results_;
};

int main() {
  ls::initialize();
  const std::int64_t rows = 1024, columns = 1024;  // of each process

  // The threads of OpenMP write the elements where the array will use them.
  HostMemory memory = HostMemory::allocate(ls::float32, {rows, columns});
  float* const elements = memory.elements<float>().data();
#pragma omp parallel for
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      elements[row * columns + column] = static_cast<float>(column % 2);

  const ls::Mesh mesh = ls::make_mesh({{"rows", ls::device_count()}});
  const Array x = ls::make_array_from_process_local_data(ls::NamedSharding(mesh, P("rows")), memory);
  if (ls::process_index() == 0)
    std::printf("the threads of %d processes filled %d rows\n", ls::process_count(),
                static_cast<int>(x.shape()[0]));

  // This thread only reads results, which every process has as a whole, so it moves nothing between
  // processes.
  Queue results;
  std::thread watcher([&] {
    for (int step = 1; const std::optional<Array> sum = results.pop(); ++step)
      if (ls::process_index() == 0) std::printf("after step %d the sum is %g\n", step, sum->item<float>());
  });

  // Only this thread launches programs over several processes.
  const auto step = ls::jit([](const Array& sum, const Array& x) { return sum + ls::mean(x); });
  Array sum = ls::full({}, 0.0f);
  for (int i = 0; i < 3; ++i) results.push(sum = step(sum, x));
  results.push(std::nullopt);
  watcher.join();
}
