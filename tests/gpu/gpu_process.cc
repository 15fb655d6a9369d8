// SPDX-License-Identifier: Apache-2.0
// A process of tests/gpu/check: gpu_process MODE [MIB]. It prints each difference from what should be, and
// ends with status 0 if there is none. Status 77: the plugin does not count memory.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/array/dlpack.h"
#include "lockstep/array/dlpack_layout.h"

namespace ls = lockstep;
using ls::Array, ls::P;

namespace {

int differences = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++differences;
  std::printf("process %d: wrong: %s\n", ls::process_index(), what.c_str());
}

template <class T>
void expect_equal(const std::string& what, const Array& found, const std::vector<T>& wanted) {
  const std::vector<T> values = found.to_host<T>();
  for (std::size_t i = 0; i < std::max(values.size(), wanted.size()); ++i) {
    if (i < values.size() && i < wanted.size() && values[i] == wanted[i]) continue;
    return expect(false, what + ": element " + std::to_string(i) + " is " +
                             (i < values.size() ? std::to_string(values[i]) : "missing") + ", not " +
                             (i < wanted.size() ? std::to_string(wanted[i]) : "there"));
  }
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Small numbers, others for each seed.
template <class T>
std::vector<T> numbers(std::int64_t count, int seed) {
  std::vector<T> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(static_cast<T>((i * 37 + seed * 11) % 101));
  return all;
}

template <class T, class Sum>
void check_product(std::int64_t m, std::int64_t k, std::int64_t n) {
  const std::vector<T> a = numbers<T>(m * k, 1), b = numbers<T>(k * n, 2);
  std::vector<Sum> wanted(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        wanted[static_cast<std::size_t>(i * n + j)] +=
            static_cast<Sum>(a[static_cast<std::size_t>(i * k + l)]) *
            static_cast<Sum>(b[static_cast<std::size_t>(l * n + j)]);
  const Array x = ls::array(a, {m, k}), y = ls::array(b, {k, n});
  const Array product = ls::jit(
      [](Array a, Array b) { return ls::matmul(a, b, {.preferred_element_type = ls::dtype_of<Sum>}); })(x, y);
  expect_equal("the product of " + ls::to_string(x.aval()) + " and " + ls::to_string(y.aval()), product,
               wanted);
}

/// Products of whole numbers, and updates of one element several times: exact, as on CPUs.
void check_integers() {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{2, 5, 3},
                                {16, 16, 16},
                                {17, 33, 9},
                                {64, 128, 32},
                                {128, 256, 64},
                                {256, 64, 256}}) {
    check_product<std::int8_t, std::int32_t>(m, k, n);
    check_product<std::uint8_t, std::uint32_t>(m, k, n);
    check_product<std::int16_t, std::int32_t>(m, k, n);
    check_product<std::int32_t, std::int32_t>(m, k, n);
    check_product<std::int64_t, std::int64_t>(m, k, n);
  }
  constexpr int kUpdates = 1000, kPlaces = 100;
  std::vector<std::int32_t> places;
  std::vector<float> values, last(kPlaces), counts(kUpdates);
  std::map<std::int32_t, int> winners;
  for (int i = 0; i < kUpdates; ++i) {
    places.push_back(i * 7919 % kPlaces);
    values.push_back(static_cast<float>(i));
    last[static_cast<std::size_t>(places.back())] = values.back();
    winners[places.back()] = i;
  }
  for (const auto& [place, winner] : winners) counts[static_cast<std::size_t>(winner)] = 1;
  const auto set = [&](Array x) { return ls::zeros({kPlaces}).at(ls::array(places)).set(x); };
  expect_equal("at.set with repeated places", ls::jit(set)(ls::array(values)), last);
  expect_equal("the gradient of at.set with repeated places",
               ls::grad([&](Array x) { return ls::sum(set(x)); })(ls::array(values)), counts);
}

/// A tensor of DLPack on the last of this process's devices, and an array in its memory.
void check_dlpack() {
  const ls::Device device = ls::local_devices().back();
  const std::vector<float> values = numbers<float>(1000, 3);
  const Array x = ls::device_put(ls::HostView(values), ls::SingleDeviceSharding(device));
  const auto place_of = [](const Array& array) {
    const auto given = ls::to_dlpack(array);
    return reinterpret_cast<const ls::dlpack::Versioned*>(given.get())->tensor.data;
  };
  Array y = ls::from_dlpack(ls::to_dlpack(x).release());
  expect(place_of(y) == place_of(x), "the tensor was copied");
  expect(y.sharding() == ls::SingleDeviceSharding(device), "the array is on another device");
  const Array z = ls::jit([](Array y) { return y + 1; }, {.donate_argnums = {0}})(y);
  expect(place_of(z) != place_of(x), "another library's memory was overwritten");
  expect_equal("the tensor's elements", x, values);
  expect(z.to_host<float>()[999] == values[999] + 1, "a sum of a tensor");
}

/// Prints how fast arrays get from and to the device, and whether a copy runs beside a computation.
void measure_copies(std::int64_t mib) {
  const std::int64_t count = mib << 18;
  std::vector<float> values(static_cast<std::size_t>(count), 1);
  const auto best_of_3 = [](const std::function<void()>& run) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double start = seconds();
      run();
      best = std::min(best, seconds() - start);
    }
    return best;
  };
  Array x;
  const double to_device = best_of_3([&] {
    x = ls::array(ls::HostView(values));
    x.block_until_ready();
  });
  const double to_host = best_of_3([&] { x.copy_to_host(values.data(), ls::float32); });
  const Array y = x + x;
  y.block_until_ready();
  const double start = seconds();
  y.copy_to_host_async();
  const double begun = seconds() - start;
  expect(y.to_host<float>().back() == 2, "a copy that was begun before");
  std::printf(
      "{\"mib\": %ld, \"to_device_gb_s\": %.2f, \"to_host_gb_s\": %.2f, \"copy_to_host_async_ms\": %.3f}\n",
      static_cast<long>(mib), 1e-9 * 4 * static_cast<double>(count) / to_device,
      1e-9 * 4 * static_cast<double>(count) / to_host, 1e3 * begun);
}

/// Takes memory until there is none, and goes on without it.
int check_memory() {
  const ls::Device device = ls::local_devices().front();
  const auto before = device.memory_stats();
  if (!before || !before->bytes_limit) return 77;
  expect(*before->bytes_limit > before->bytes_in_use, "more memory is in use than there is");
  const std::int64_t part = *before->bytes_limit / 4;
  std::string message;
  {
    std::vector<Array> all;
    const auto fill = ls::jit([part] { return ls::ones({part / 4}); });
    try {
      while (all.size() < 8) {
        all.push_back(fill());
        all.back().block_until_ready();
      }
    } catch (const ls::OutOfMemoryError& error) {
      message = error.what();
    }
    const auto full = device.memory_stats();
    expect(full && full->bytes_in_use > *before->bytes_limit / 2, "memory in use is not counted");
  }
  std::printf("%s\n", message.c_str());
  expect(message.find("no memory left") != message.npos, "no OutOfMemoryError of a computation");
  expect(message.find("in use") != message.npos, "the error does not say what is in use");
  expect(message.find("gpu_process.cc:") != message.npos, "the error does not name a line");
  expect(ls::sum(ls::ones({1000})).item<float>() == 1000, "no computation after the memory was full");
  return 0;
}

double largest_difference(const Array& a, const Array& b) {
  return ls::max(ls::abs(ls::astype(a, ls::float32) - ls::astype(b, ls::float32))).item<float>();
}

/// cuDNN's attention and its gradients beside XLA's. Status 77: there is no cuDNN.
int check_attention() {
  struct Case {
    const char* name;
    ls::nn::AttentionOptions options;
    bool has_bias = false;
  };
  const Array lengths = ls::array({std::int32_t{100}, std::int32_t{0}}),
              mask = ls::random::uniform(ls::random::key(5), {2, 1, 384, 384}) > 0.3f,
              hides_all = ls::reshape(ls::arange(384) != 2, {1, 1, 384, 1});
  const Case cases[] = {
      {"all keys", {}},
      {"causal", {.is_causal = true}},
      {"a window", {.is_causal = true, .local_window_size = {31, 0}}},
      {"lengths", {.key_value_seq_lengths = lengths}},
      {"causal with lengths", {.is_causal = true, .key_value_seq_lengths = lengths}},
      {"a window with lengths",
       {.is_causal = true, .local_window_size = {31, 0}, .key_value_seq_lengths = lengths}},
      {"a mask", {.mask = mask}},
      {"a mask that hides all keys of a query, causal", {.is_causal = true, .mask = hides_all & mask}},
      {"a bias", {}, true},
      {"a bias and a mask, causal with lengths",
       {.is_causal = true, .mask = mask, .key_value_seq_lengths = lengths},
       true}};
  for (const ls::DType dtype : {ls::bfloat16, ls::float16}) {
    const auto random = [&](std::uint64_t seed, const ls::Shape& shape) {
      return ls::astype(ls::random::normal(ls::random::key(seed), shape), dtype);
    };
    const Array weights = random(4, {2, 384, 8, 64});
    for (const Case& each : cases) {
      using Arrays = std::vector<Array>;
      Arrays operands = {random(1, {2, 384, 8, 64}), random(2, {2, 384, 4, 64}), random(3, {2, 384, 4, 64})};
      if (each.has_bias) operands.push_back(random(6, {1, 8, 384, 384}));
      const auto results = [&](ls::nn::AttentionImplementation implementation) {
        const auto attended = [&](const Arrays& x) {
          ls::nn::AttentionOptions options = each.options;
          options.implementation = implementation;
          if (each.has_bias) options.bias = x[3];
          return ls::nn::dot_product_attention(x[0], x[1], x[2], options);
        };
        Arrays all = ls::jit(ls::grad([&](const Arrays& x) {
          return ls::sum(ls::astype(attended(x) * weights, ls::float32));
        }))(operands);
        all.insert(all.begin(), ls::jit(attended)(operands));
        return all;
      };
      Arrays by_cudnn;
      try {
        by_cudnn = results(ls::nn::AttentionImplementation::kCudnn);
      } catch (const ls::Error& error) {
        if (std::string(error.what()).find("only where there is a GPU") != std::string::npos) return 77;
        throw;
      }
      const Arrays by_xla = results(ls::nn::AttentionImplementation::kXla);
      for (std::size_t i = 0; i < by_xla.size(); ++i) {
        // Both round scores' powers and the result to the dtype's 8 or 11 bits.
        const double size = ls::max(ls::abs(ls::astype(by_xla[i], ls::float32))).item<float>(),
                     apart = largest_difference(by_cudnn[i], by_xla[i]);
        expect(apart <= (dtype == ls::bfloat16 ? 0.03 : 0.005) * std::max(size, 1.0),
               std::string(each.name) + ", " + std::string(ls::name(dtype)) + ", array " + std::to_string(i) +
                   ": " + std::to_string(apart) + " apart, of " + std::to_string(size));
      }
    }
  }
  return 0;
}

/// Calls of the host in order, and decompositions that give their matrices.
void check_calls() {
  const Array x = ls::array(numbers<float>(12, 1), {3, 4});
  std::vector<float> seen;
  auto f = ls::jit([&](Array x) {
    for (int i = 0; i < 3; ++i) {
      x = ls::io_callback(
          [&](const ls::HostArray& given) {
            seen.push_back(given.values<float>()[0]);
            return given;
          },
          ls::ResultType({4, 3}), ls::transpose(ls::transpose(x) + 1));
    }
    return x;
  });
  expect_equal("io_callback", f(ls::transpose(x)), [&] {
    std::vector<float> wanted = ls::transpose(x).to_host<float>();
    for (float& value : wanted) value += 3;
    return wanted;
  }());
  expect(seen == std::vector<float>{numbers<float>(1, 1)[0] + 1, numbers<float>(1, 1)[0] + 2,
                                    numbers<float>(1, 1)[0] + 3},
         "the order of calls");
  for (const ls::Shape& shape :
       {ls::Shape{3, 5, 5}, ls::Shape{64, 48}, ls::Shape{48, 64}, ls::Shape{1100, 1030}}) {
    const Array a = ls::random::normal(ls::random::key(5), shape, ls::float32);
    const auto close = [&](const char* name, const Array& again, const Array& given) {
      const double apart = largest_difference(again, given);
      expect(apart < 2e-3,
             std::string(name) + " of " + ls::to_string(shape) + ": " + std::to_string(apart) + " apart");
    };
    const auto product = [](const Array& a, const Array& b) {
      return ls::matmul(a, b, {.precision = ls::Precision::kHighest});
    };
    const auto svd = ls::linalg::svd(a);
    close("svd", product(svd.u * ls::expand_dims(svd.s, -2), svd.vh), a);
    const auto qr = ls::linalg::qr(a);
    close("qr", product(qr.q, qr.r), a);
    const auto lu = ls::linalg::lu(a);
    close("lu", product(lu.p, product(lu.l, lu.u)), a);
    if (shape.back() != shape[shape.size() - 2]) continue;
    const Array symmetric = a + ls::swapaxes(a, -1, -2);
    const auto eigh = ls::linalg::eigh(symmetric);
    close("eigh",
          product(eigh.eigenvectors * ls::expand_dims(eigh.eigenvalues, -2),
                  ls::swapaxes(eigh.eigenvectors, -1, -2)),
          symmetric);
  }
}

/// Every kind of collective over the devices of all processes, of whole numbers.
void check_collectives() {
  const std::int64_t n = ls::device_count();
  const ls::Mesh mesh = ls::make_mesh({{"i", n}});
  std::vector<float> given = numbers<float>(n * n * 3, 5);
  const Array x = ls::device_put(ls::HostView(given, {n * n, 3}), ls::NamedSharding(mesh, P("i")));
  const auto part = [&](std::int64_t device, std::int64_t row, std::int64_t column) {
    return given[static_cast<std::size_t>((device * n + row) * 3 + column)];
  };
  using Wanted = std::function<float(std::int64_t device, std::int64_t row, std::int64_t column)>;
  const auto check = [&](const std::string& name, const std::function<Array(Array)>& f, std::int64_t rows,
                         const Wanted& wanted) {
    const Array result = ls::device_put(
        ls::jit(ls::shard_map(f, {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P("i")}}))(x),
        ls::NamedSharding(mesh, P()));
    std::vector<float> all;
    for (std::int64_t d = 0; d < n; ++d)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < 3; ++c) all.push_back(wanted(d, r, c));
    expect_equal(name, result, all);
  };
  const auto over_devices = [&](const std::function<float(float, float)>& join) {
    return Wanted([&, join](std::int64_t, std::int64_t row, std::int64_t column) {
      float all = part(0, row, column);
      for (std::int64_t d = 1; d < n; ++d) all = join(all, part(d, row, column));
      return all;
    });
  };
  const Wanted sums = over_devices(std::plus<>());
  check(
      "psum", [](Array x) { return ls::psum(x, "i"); }, n, sums);
  check(
      "pmax", [](Array x) { return ls::pmax(x, "i"); }, n,
      over_devices([](float a, float b) { return std::max(a, b); }));
  check(
      "pmin", [](Array x) { return ls::pmin(x, "i"); }, n,
      over_devices([](float a, float b) { return std::min(a, b); }));
  check(
      "psum_scatter", [](Array x) { return ls::psum_scatter(x, "i", {.tiled = true}); }, 1,
      [&](std::int64_t device, std::int64_t, std::int64_t column) { return sums(0, device, column); });
  check(
      "all_gather", [](Array x) { return ls::all_gather(x, "i", {.tiled = true}); }, n * n,
      [&](std::int64_t, std::int64_t row, std::int64_t column) { return part(row / n, row % n, column); });
  check(
      "all_to_all", [](Array x) { return ls::all_to_all(x, "i", 0, 0); }, n,
      [&](std::int64_t device, std::int64_t row, std::int64_t column) { return part(row, device, column); });
  std::vector<std::pair<int, int>> ring;
  for (int d = 0; d < n; ++d) ring.emplace_back(d, (d + 1) % static_cast<int>(n));
  check(
      "ppermute", [&](Array x) { return ls::ppermute(x, "i", ring); }, n,
      [&](std::int64_t device, std::int64_t row, std::int64_t column) {
        return part((device + n - 1) % n, row, column);
      });
}

/// The processes exchange two launches. Ends with status 0 only if none has noticed.
void diverge() {
  const ls::Mesh mesh = ls::make_mesh({{"i", ls::device_count()}});
  const Array x = ls::make_array_from_process_local_data(
      ls::NamedSharding(mesh, P("i")),
      ls::HostMemory(std::vector<float>(ls::local_devices().size(), 1), {ls::local_device_count()}));
  const auto over = [&](const std::function<Array(Array)>& f) {
    return ls::jit(ls::shard_map(f, {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P()}}));
  };
  auto sums = over([](Array x) { return ls::psum(x, "i"); });
  auto most = over([](Array x) { return ls::pmax(x, "i"); });
  if (ls::process_index() == 0) {
    sums(x).block_until_ready();
    most(x).block_until_ready();
  } else {
    most(x).block_until_ready();
    sums(x).block_until_ready();
  }
  ls::shutdown();
}

/// A sum over all devices, again and again; process 1 does something else before launch number 50. Process 0
/// says after which time it heard of it.
void with_a_fault(const std::function<void()>& fault) {
  const ls::Mesh mesh = ls::make_mesh({{"i", ls::device_count()}});
  const Array x = ls::make_array_from_process_local_data(
      ls::NamedSharding(mesh, P("i")),
      ls::HostMemory(std::vector<float>(ls::local_devices().size(), 1), {ls::local_device_count()}));
  auto sums = ls::jit(ls::shard_map([](Array x) { return ls::psum(x, "i"); },
                                    {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P()}}));
  double last = seconds();
  try {
    for (int i = 0; i < 1000; ++i) {
      if (i == 50 && ls::process_index() == 1) {
        fault();
        if (!ls::is_initialized()) return;
      }
      sums(x).block_until_ready();
      last = seconds();
    }
  } catch (const ls::PeerFailure& failure) {
    std::printf("heard after %.2f s: %s\n", seconds() - last, failure.what());
    std::fflush(stdout);
    std::_Exit(0);
  }
  std::printf("went on\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  ls::initialize();
  int status = 0;
  if (mode == "device") {
    const ls::Device device = ls::local_devices().front();
    std::printf("{\"platform\": \"%s\", \"kind\": \"%s\", \"devices\": %d, \"memory_bytes\": %lld}\n",
                device.platform().c_str(), device.device_kind().c_str(), ls::device_count(),
                static_cast<long long>(device.memory_bytes()));
  } else if (mode == "integers") {
    check_integers();
  } else if (mode == "dlpack") {
    check_dlpack();
  } else if (mode == "copies") {
    measure_copies(argc > 2 ? std::atoll(argv[2]) : 512);
  } else if (mode == "memory") {
    status = check_memory();
  } else if (mode == "attention") {
    status = check_attention();
  } else if (mode == "calls") {
    check_calls();
  } else if (mode == "collectives") {
    check_collectives();
  } else if (mode == "divergence") {
    diverge();
  } else if (mode == "death") {
    with_a_fault([] { std::raise(SIGKILL); });
  } else if (mode == "leaves") {
    with_a_fault([] { ls::shutdown(); });
  } else if (mode == "stall") {
    with_a_fault([] { std::this_thread::sleep_for(std::chrono::seconds(6)); });
  } else {
    std::fprintf(stderr, "gpu_process: there is no mode '%s'\n", mode.c_str());
    return 2;
  }
  return differences > 0 ? 1 : status;
}
