#pragma once

// For the layers of the library: what an Array is made of. It shows the plugin's buffers.

#include <memory>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/pjrt/buffer.h"

namespace lockstep::internal {

/// All that the compiler must know of an argument. Interned: two arrays have the same type exactly if the
/// pointers are equal, so that the key of a cached call is a list of pointers.
struct ArrayType {
  Aval aval;
  Sharding sharding;

  /// Whether a user put it where it is. What is not committed moves to where the others of a computation are.
  bool committed = false;
};

const ArrayType* intern(Aval aval, const Sharding& sharding, bool committed);

struct ArrayData {
  // Of a concrete array:
  const ArrayType* type = nullptr;
  std::vector<pjrt::Buffer> shards;  ///< on the sharding's local devices, in its order
  CallSite donated_at;               ///< where it was given to a computation for good

  /// Of shards whose memory the host cannot read, what was read of them: by shard, empty where it was not.
  mutable std::unique_ptr<std::vector<std::vector<char>>> host_copies;

  // Of a tracer:
  std::shared_ptr<Trace::Life> trace;
  Var var = 0;
  Aval aval;
  CallSite made_at;
};

/// A concrete array of these buffers.
Array make_array(const ArrayType* type, std::vector<pjrt::Buffer> shards);

/// The data of a concrete array that may be read. Throws Error for no array, a tracer, and one that was
/// deleted or donated, naming `use` ("[to_host]") and where it was donated.
const ArrayData& concrete(const Array& array, std::string_view use);

/// Throws TraceError for a tracer whose function has ended, naming `use`.
void check_not_leaked(const Array& array, std::string_view use);

}  // namespace lockstep::internal
