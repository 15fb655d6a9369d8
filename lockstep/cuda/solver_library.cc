// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cuda/solver_library.h"

#include <string>
#include <string_view>

#include "lockstep/base/find_function.h"
#include "lockstep/cuda/libraries.h"
#include "lockstep/cuda/solver.h"

namespace lockstep::cuda {
namespace {

struct FoundSolver {
  bool is_there = false;
  Solver solver{};
  std::string description;
};

/// The cuBLAS that comes with this cuSOLVER: versions 13 and 12, 12 and 11.
Blas load_blas(std::string_view solver) {
  std::string description;
  void* const library =
      load_library({solver.ends_with(".12") ? "libcublas.so.13" : "libcublas.so.12"}, description);
  Blas blas{};
  auto& [f32, f64] = blas.routines;
  const bool is_whole = library != nullptr && find_function(library, "cublasCreate_v2", blas.create) &&
                        find_function(library, "cublasSetStream_v2", blas.set_stream) &&
                        find_function(library, "cublasSgetrfBatched", f32.getrf) &&
                        find_function(library, "cublasDgetrfBatched", f64.getrf) &&
                        find_function(library, "cublasSgeqrfBatched", f32.geqrf) &&
                        find_function(library, "cublasDgeqrfBatched", f64.geqrf);
  return is_whole ? blas : Blas{};
}

FoundSolver load_solver() {
  FoundSolver found;
  void* const library = load_library({"libcusolver.so.12", "libcusolver.so.11"}, found.description);
  if (library == nullptr) return found;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    if (!find_function(library, name, function)) missing = name;
  };
  Solver& solver = found.solver;
  auto& [f32, f64] = solver.routines;
  find(solver.create, "cusolverDnCreate");
  find(solver.set_stream, "cusolverDnSetStream");
  find(solver.create_gesvdj, "cusolverDnCreateGesvdjInfo");
  find(solver.destroy_gesvdj, "cusolverDnDestroyGesvdjInfo");
#define LOCKSTEP_FIND(name)                                 \
  find(f32.name, "cusolverDnS" #name);                      \
  find(f64.name, "cusolverDnD" #name);                      \
  find(f32.name##_size, "cusolverDnS" #name "_bufferSize"); \
  find(f64.name##_size, "cusolverDnD" #name "_bufferSize");
  LOCKSTEP_FIND(getrf)
  LOCKSTEP_FIND(geqrf)
  LOCKSTEP_FIND(orgqr)
  LOCKSTEP_FIND(syevd)
  LOCKSTEP_FIND(gesvdj)
  LOCKSTEP_FIND(gesvd)
#undef LOCKSTEP_FIND
  find(f32.gesvdj_batched, "cusolverDnSgesvdjBatched");
  find(f64.gesvdj_batched, "cusolverDnDgesvdjBatched");
  find(f32.gesvdj_batched_size, "cusolverDnSgesvdjBatched_bufferSize");
  find(f64.gesvdj_batched_size, "cusolverDnDgesvdjBatched_bufferSize");
  const bool batches =
      find_function(library, "cusolverDnCreateParams", solver.of_batches.create_params) &&
      find_function(library, "cusolverDnXsyevBatched_bufferSize", solver.of_batches.syev_size) &&
      find_function(library, "cusolverDnXsyevBatched", solver.of_batches.syev);
  if (!batches) solver.of_batches = {};
  solver.blas = load_blas(found.description);
  if (missing.empty())
    found.is_there = true;
  else
    found.description += " has no " + missing;
  return found;
}

const FoundSolver& found() {
  static const FoundSolver& found = *new FoundSolver(load_solver());
  return found;
}

}  // namespace

const Solver* find_solver() { return found().is_there ? &found().solver : nullptr; }

bool has_solver() { return find_solver() != nullptr; }

std::string describe_solver() { return found().description; }

}  // namespace lockstep::cuda
