// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declarations shared by the sources of lockstep_programs.cc. The programs are those of jax_programs.py, with
// the same names.

#include <lockstep/lockstep.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace communication {

namespace ls = lockstep;
using ls::Array, ls::P;

/// Whether programs are also run, so that compare.py and check_devices.py can tell that results are the same.
inline bool check_values = false;

/// Two means that tell results apart: of the absolute values, and of the elements times numbers that depend
/// on their places.
using Digest = std::pair<double, double>;
Digest digest(const Array& result);

/// Values for an argument, the same as JAX's side gives it.
Array wave(const ls::Shape& shape, ls::DType dtype);

/// Measurements of a compiled program.
struct Measured {
  std::vector<ls::sharding::CommunicationLine> collectives;
  ls::Cost cost;
  std::string explanation;
  std::vector<Digest> values;  ///< of its results, where they are checked
};

/// A program is traced, partitioned and compiled when its function is called; it is run only to be checked.
struct NamedProgram {
  std::string name;
  std::function<Measured()> measure;
};
using Programs = std::vector<NamedProgram>;

/// The mesh's axes on all devices; where there is only one, each is of size 1.
using MeshAxes = std::vector<std::pair<std::string, std::int64_t>>;
inline MeshAxes on_all_devices(MeshAxes axes) {
  if (ls::device_count() > 1) return axes;
  for (auto& [name, size] : axes) size = 1;
  return axes;
}

/// Arguments and shardings over one mesh.
class Placed {
 public:
  explicit Placed(const MeshAxes& axes) : mesh_(ls::make_mesh(on_all_devices(axes))) {}

  const ls::Mesh& mesh() const { return mesh_; }
  ls::NamedSharding on(const P& spec) const { return ls::NamedSharding(mesh_, spec); }

  /// An argument.
  Array operator()(const ls::Shape& shape, const P& spec = P(), ls::DType dtype = ls::float32) const {
    return ls::device_put(check_values ? wave(shape, dtype) : ls::zeros(shape, dtype), on(spec));
  }

  /// For JitOptions::out_shardings.
  std::vector<std::optional<ls::Sharding>> results(const std::vector<P>& specs) const {
    std::vector<std::optional<ls::Sharding>> shardings;
    for (const P& spec : specs) shardings.push_back(on(spec));
    return shardings;
  }

  Array constrain(const Array& x, const P& spec) const { return ls::with_sharding_constraint(x, on(spec)); }

 private:
  ls::Mesh mesh_;
};

/// Measures a jitted function with its arguments.
template <class F, class... Args>
Measured measure(const ls::Jitted<F>& jitted, const Args&... arguments) {
  const auto lowered = jitted.lower(arguments...);
  Measured measured{lowered.communication(), lowered.compile().cost(), lowered.explain(), {}};
  if (check_values) {
    const auto results = lowered.compile()(arguments...);
    for (const Array& result : ls::tree::leaves(results)) measured.values.push_back(digest(result));
  }
  return measured;
}

/// Measures a function with its arguments; `specs` place its results.
template <class F, class... Args>
Measured measure(const Placed& at, F&& function, const std::vector<P>& specs, const Args&... arguments) {
  return measure(ls::jit(std::forward<F>(function), {.out_shardings = at.results(specs)}), arguments...);
}

/// The mean of the squares.
inline Array mean_square(const Array& x) { return ls::mean(ls::square(x)); }

void add_training(Programs& programs);
void add_fsdp(Programs& programs);
void add_layers(Programs& programs);
void add_experts(Programs& programs);
void add_operations(Programs& programs);

}  // namespace communication
