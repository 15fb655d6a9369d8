// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/collectives/plan.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"

namespace lockstep::ir {

/// A program that only does collectives: their data goes from operand to result as it is, so that the program
/// needs no compiler. Its values are numbered: its inputs, then the result of each step.
struct CollectiveSteps {
  struct Step {
    std::size_t collective;  ///< its number in LoweredProgram::collectives
    std::size_t operand;     ///< an input, or the result of an earlier step
    std::size_t operand_bytes;
    Aval result;
  };
  std::vector<Step> steps;           ///< in the order in which they run
  std::vector<std::size_t> outputs;  ///< values; each is the result of a step, and none appears twice
};

/// What decides how XLA should compile a program for CPUs.
struct CodeTraits {
  bool transposes =
      false;  ///< has a transpose that moves the minor dimension and does not belong to a dot product
  bool loops = false;    ///< contains a program that runs more than once
  bool running = false;  ///< has a running sum, product, maximum, minimum or logarithm of sums
  bool padding = false;  ///< a program that runs more than once pads a large array by little, as stencils do
  bool fft = false;      ///< has a Fourier transform, which waits for other threads of XLA's pool

  /// Whether XLA's older loop emitters would make slow code of it.
  bool needs_newer_emitters() const { return transposes || loops || running || padding; }
};

/// How a program is written.
struct LowerOptions {
  AxisEnv axes;

  /// For each input whether its memory may be reused by results of the same shape and dtype.
  std::vector<bool> donated;

  /// Use StableHLO's own collectives between replicas, whose numbers are the positions, instead of custom
  /// calls.
  bool native_collectives = false;

  /// Lower for XLA's CPU compiler.
  bool for_cpu = true;

  /// Lower for XLA's compiler for CUDA, which makes twice the product of 8-bit integers, and for which any of
  /// several updates of one element may be the last (docs/cuda.md).
  bool for_cuda = false;

  /// For CUDA, compute attention by cuDNN where it takes the operands, of heads with at most this many
  /// features; 0: by XLA. XLA's compiler asks cuDNN for the kernels, which takes a GPU.
  std::int64_t cudnn_features = 0;

  /// For CUDA, compute decompositions with cuSOLVER, if it is installed.
  bool solver = false;

  /// Compute decompositions with LAPACK, if it is installed; for CUDA only those that nothing else computes.
  bool lapack = true;

  /// On CPUs, compute convolutions and products with oneDNN where it is faster, if it is installed.
  bool onednn = true;

  /// On CPUs, compute functions of single elements with SLEEF where it is faster, if it is installed.
  bool sleef = true;

  /// Other things that must agree between processes, besides the program: the mesh, options.
  Fingerprint salt = 0;
};

/// A program ready for compilation.
struct LoweredProgram {
  std::string stablehlo;                             ///< a module with one public function, main
  Fingerprint fingerprint = 0;                       ///< of the program's text and the salt
  std::vector<collectives::Collective> collectives;  ///< in the order in which they run
  bool native_collectives = false;
  bool takes_position = false;  ///< main's first argument is the device's position, i32[]
  CodeTraits traits;
  std::optional<CollectiveSteps> only_collectives = {};  ///< if it does nothing else, by custom calls
};

/// Writes a per-device program as StableHLO text.
LoweredProgram lower(const Program& program, const LowerOptions& options);

}  // namespace lockstep::ir
