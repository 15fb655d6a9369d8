#include <limits>
#include <map>
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

/// While it exists, OpenBLAS uses one thread for small matrices: waking another takes longer than what it
/// does. A call on another thread at the same time may find either number, and be slower.
class ThreadsFor {
 public:
  ThreadsFor(const Library& library, std::int64_t rows) : library_(library) {
    constexpr std::int64_t kSmall = 64;
    is_set_ = rows <= kSmall && library.threads > 1 && library.set_threads != nullptr;
    if (is_set_) library.set_threads(1);
  }
  ~ThreadsFor() {
    if (is_set_) library_.set_threads(library_.threads);
  }
  ThreadsFor(const ThreadsFor&) = delete;
  ThreadsFor& operator=(const ThreadsFor&) = delete;

 private:
  const Library& library_;
  bool is_set_;
};

void execute(const XLA_FFI_CallFrame& frame) {
  const Library* library = find_library();
  if (library == nullptr) {
    fail(
        "a compiled program calls LAPACK, which cannot be loaded here: {}. Install OpenBLAS (Debian: "
        "libopenblas0-pthread) on every host",
        description());
  }
  Call call{frame, *library, {}, {}, 1};
  for (std::int64_t i = 0; i < frame.args.size; ++i)
    call.operands.push_back(matrices_of(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[i])));
  for (std::int64_t i = 0; i < frame.rets.size; ++i)
    call.results.push_back(matrices_of(*static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i])));
  const std::vector<std::int64_t>& shape = call.operands.at(0).shape;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) call.count *= shape[d];
  const std::string_view name = collectives::ffi_text(frame, "routine");
  const auto found = routines().find(name);
  const bool is_double =
      static_cast<const XLA_FFI_Buffer*>(frame.args.args[0])->dtype == XLA_FFI_DataType_F64;
  const Routine routine = found == routines().end() ? nullptr
                          : is_double               ? found->second.second
                                                    : found->second.first;
  if (routine == nullptr) fail("a custom call asks for {} of LAPACK, which is not here", name);
  const ThreadsFor threads(*library, call.operands[0].rows());
  routine(call);
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
