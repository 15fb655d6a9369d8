// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/lapack/call.h"
#include "lockstep/lapack/lapack.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::lapack {
namespace {

using Routine = void (*)(const Call&);

const std::map<std::string, std::pair<Routine, Routine>, std::less<>>& routines() {
  static const std::map<std::string, std::pair<Routine, Routine>, std::less<>> all = {
      {"cholesky", {cholesky<float>, cholesky<double>}},
      {"triangular_solve", {triangular_solve<float>, triangular_solve<double>}},
      {"qr", {qr<float>, qr<double>}},
      {"geqrf", {geqrf<float>, geqrf<double>}},
      {"householder_product", {householder_product<float>, householder_product<double>}},
      {"lu", {lu<float>, lu<double>}},
      {"eigh", {eigh<float>, eigh<double>}},
      {"svd", {svd<float>, svd<double>}},
      {"eig", {eig<float>, eig<double>}},
      {"schur", {schur<float>, schur<double>}},
      {"complex_schur", {complex_schur<float>, complex_schur<double>}},
      {"sqrtm", {sqrtm<float>, sqrtm<double>}},
  };
  return all;
}

Matrices matrices_of(const XLA_FFI_Buffer& buffer) {
  return {buffer.data, std::vector<std::int64_t>(buffer.dims, buffer.dims + buffer.rank)};
}

/// While it exists, OpenBLAS uses one thread. A call on another thread at the same time may find either
/// number, and be slower.
class OneThread {
 public:
  explicit OneThread(const Library& library) : library_(library) {
    is_set_ = library.threads > 1 && library.set_threads != nullptr;
    if (is_set_) library.set_threads(1);
  }
  ~OneThread() {
    if (is_set_) library_.set_threads(library_.threads);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const Library& library_;
  bool is_set_;
};

/// Runs the routine: on the threads of XLA for many matrices, on those of OpenBLAS for a large one, and on
/// one thread where waking another takes longer than what it does.
void run(Routine routine, const Call& call) {
  constexpr std::int64_t kSmall = 128;                 // rows
  constexpr double kMuch = 1 << 19, kPiece = 1 << 17;  // multiplications
  const Matrices& x = call.operands[0];
  const std::int64_t count = call.end;
  const double each = static_cast<double>(x.rows()) * static_cast<double>(x.columns()) *
                      static_cast<double>(std::min(x.rows(), x.columns()));
  const std::int64_t threads = collectives::ffi_threads(call.frame);
  const bool are_many = count >= threads || x.rows() <= kSmall;
  if (threads > 1 && count > 1 && are_many && each * static_cast<double>(count) >= kMuch) {
    OneThread one(call.library);
    const auto enough = static_cast<std::int64_t>(kPiece / std::max(each, 1.0)) + 1;
    const std::int64_t piece = std::min(enough, (count + threads - 1) / threads);
    collectives::ffi_for_each(call.frame, (count + piece - 1) / piece, [&](std::int64_t i) {
      Call part = call;
      part.first = i * piece;
      part.end = std::min(count, part.first + piece);
      routine(part);
    });
    return;
  }
  std::optional<OneThread> one;
  if (x.rows() <= kSmall) one.emplace(call.library);
  routine(call);
}

void execute(const XLA_FFI_CallFrame& frame) {
  const Library* library = find_library();
  if (library == nullptr) {
    fail(
        "a compiled program calls LAPACK, which cannot be loaded here: {}. Install OpenBLAS (Debian: "
        "libopenblas0-pthread) on every host",
        description());
  }
  Call call{frame, *library, {}, {}, 0, 1};
  for (std::int64_t i = 0; i < frame.args.size; ++i)
    call.operands.push_back(matrices_of(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[i])));
  for (std::int64_t i = 0; i < frame.rets.size; ++i)
    call.results.push_back(matrices_of(*static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i])));
  const std::vector<std::int64_t>& shape = call.operands.at(0).shape;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) call.end *= shape[d];
  const std::string_view name = collectives::ffi_text(frame, "routine");
  const auto found = routines().find(name);
  const bool is_double =
      static_cast<const XLA_FFI_Buffer*>(frame.args.args[0])->dtype == XLA_FFI_DataType_F64;
  const Routine routine = found == routines().end() ? nullptr
                          : is_double               ? found->second.second
                                                    : found->second.first;
  if (routine == nullptr) fail("a custom call asks for {} of LAPACK, which Lockstep does not call", name);
  run(routine, call);
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

bool Call::flag(std::string_view name) const { return collectives::ffi_number(frame, name) != 0; }

Int size_of_matrix(std::int64_t size) {
  if (size > std::numeric_limits<Int>::max()) fail("a matrix of {} rows is too large for LAPACK", size);
  return static_cast<Int>(size);
}

void* lapack_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::lapack
