// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lapack/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/base/find_function.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/lapack/lapack.h"

namespace lockstep::lapack {
namespace {

constexpr const char* kName = "libopenblas.so.0";
std::atomic<int> thread_limit = 0;

/// Sets an environment variable that OpenBLAS reads when it is loaded, unless the user has set it.
class VariableForLoading {
 public:
  VariableForLoading(const char* name, const std::string& value) : name_(name) {
    is_mine_ = std::getenv(name) == nullptr;
    if (is_mine_) setenv(name, value.c_str(), /*overwrite=*/0);
  }
  ~VariableForLoading() {
    if (is_mine_) unsetenv(name_);
  }
  VariableForLoading(const VariableForLoading&) = delete;
  VariableForLoading& operator=(const VariableForLoading&) = delete;

 private:
  const char* name_;
  bool is_mine_;
};

template <class Function>
Function* function(void* handle, const char* name) {
  Function* found = nullptr;
  find_function(handle, name, found);
  return found;
}

std::string core_of(void* handle) {
  auto* core = function<char*()>(handle, "openblas_get_corename");
  return core == nullptr ? "" : core();
}

/// The fastest kernels that this processor certainly supports, by OpenBLAS's name; empty if unknown.
const char* least_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return "";
}

/// Opens the library. If it does not know the processor, it uses kernels for one of 2004, which are a tenth
/// as fast: then it is loaded again, with kernels that the processor supports.
void* open(std::string* why_not) {
  void* handle = load_trusted_library(kName, why_not);
  constexpr std::array<std::string_view, 6> kOld = {"Prescott",  "Core2",  "Generic",
                                                    "Northwood", "Katmai", "Coppermine"};
  const std::string core = handle == nullptr ? "" : core_of(handle);
  const std::string least = least_core();
  if (std::ranges::count(kOld, core) == 0 || least.empty() || std::getenv("OPENBLAS_CORETYPE") != nullptr)
    return handle;
  dlclose(handle);
  VariableForLoading kernels("OPENBLAS_CORETYPE", least);
  return load_trusted_library(kName, why_not);
}

int threads() {
  const auto cpus = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int limit = thread_limit.load();
  return limit > 0 ? std::min(limit, cpus) : cpus;
}

struct Found {
  bool is_there = false;
  Library library;
};

Found load() {
  Found found;
  Library& library = found.library;
  // It starts its threads as it is loaded.
  VariableForLoading number("OPENBLAS_NUM_THREADS", std::to_string(threads()));
  // After a call they wait for the next one for 2^18 cycles and not 2^26, some 0.1 ms: meanwhile XLA's
  // threads cannot use their CPUs.
  VariableForLoading idle("OPENBLAS_THREAD_TIMEOUT", "18");
  void* handle = open(&library.description);
  if (handle == nullptr) return found;
  std::string missing;
  const auto find = [&](auto& routine, const char* name) {
    if (!find_function(handle, name, routine)) missing = name;
  };
#define LOCKSTEP_FIND(name)              \
  find(library.f32.name, "s" #name "_"); \
  find(library.f64.name, "d" #name "_");
  LOCKSTEP_FIND(potrf)
  LOCKSTEP_FIND(trsm)
  LOCKSTEP_FIND(gelqf)
  LOCKSTEP_FIND(orglq)
  LOCKSTEP_FIND(geqrf)
  LOCKSTEP_FIND(orgqr)
  LOCKSTEP_FIND(getrf)
  LOCKSTEP_FIND(syevd)
  LOCKSTEP_FIND(gesdd)
  LOCKSTEP_FIND(geev)
  LOCKSTEP_FIND(gees)
  LOCKSTEP_FIND(omatcopy)
#undef LOCKSTEP_FIND
  find(library.c64.gees, "cgees_");
  find(library.c64.gemm, "cgemm_");
  find(library.c128.gees, "zgees_");
  find(library.c128.gemm, "zgemm_");
  if (!missing.empty()) {
    library.description = fmt::format("{} has no {}: it is built without LAPACK", kName, missing);
    return found;
  }
  auto* config = function<char*()>(handle, "openblas_get_config");
  auto* count = function<int()>(handle, "openblas_get_num_threads");
  if (count != nullptr) library.threads = count();
  library.set_threads = function<void(int)>(handle, "openblas_set_num_threads");
  library.description = fmt::format("{}; kernels of {}; {} threads", config == nullptr ? kName : config(),
                                    core_of(handle), library.threads);
  found.is_there = true;
  return found;
}

const Found& found() {
  static const Found found = load();
  return found;
}

}  // namespace

const Library* find_library() { return found().is_there ? &found().library : nullptr; }

bool is_available() { return find_library() != nullptr; }

std::string description() { return found().library.description; }

void limit_threads(int threads) { thread_limit = threads; }

}  // namespace lockstep::lapack
