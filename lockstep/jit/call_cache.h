// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/computation.h"
#include "lockstep/array/exact_number.h"
#include "lockstep/array/executable_file.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/kept.h"
#include "lockstep/jit/signature.h"

namespace lockstep::internal {

class CallCache;

/// One compiled form of a function of jit or pmap. If jit is disabled: one trace of a function, which runs
/// operation by operation and is not kept.
struct CallEntry : Kept {
  const CallCache* function = nullptr;
  std::vector<std::uint64_t> signature;
  std::vector<Signature::Word> kinds;
  std::shared_ptr<const Computation> computation;  ///< keeps the array types alive to which the signature
                                                   ///< points
  std::shared_ptr<const ir::Program> traced;       ///< instead of it, if jit is disabled
  NumberInputs::Places doubles;    ///< captures in whose place a call gives the double of a leaf
  std::vector<Array> captures;     ///< outside arrays that the function uses: inputs after the arguments'
  std::shared_ptr<void> exemplar;  ///< a result of the C++ type in the signature, with empty arrays

  /// Set for one that load_executable made: it has no signature until a call had the described arguments.
  struct Loaded {
    CallDescription call;
    mutable std::mutex mutex;
    mutable std::vector<std::uint64_t> signature;  ///< of the last call that was right
  };
  std::unique_ptr<Loaded> loaded;

  /// Whether argument i is an Array, which may be given as a number.
  bool takes_array(std::size_t i) const;

  /// Runs it on the leaves and the captures. Donated arrays remember `site`.
  std::vector<Array> run(const std::vector<const Array*>& leaves, const CallSite& site) const;
};

/// The compiled forms of one function of jit or pmap. The max_kept() most recently used forms of all
/// functions together are kept. Thread-safe.
class CallCache {
 public:
  /// `operation` is "jit" or "pmap", `name` the function's name, for messages.
  CallCache(std::string operation, std::string name, const CallSite& site);
  ~CallCache();
  CallCache(const CallCache&) = delete;
  CallCache& operator=(const CallCache&) = delete;

  const std::string& name() const { return name_; }
  const CallSite& site() const { return site_; }

  /// The form for this signature, or null. Call it once for each call of the function.
  std::shared_ptr<const CallEntry> find(const Signature& signature);

  /// Adds what was compiled for the (described) signature, with the captures if the computation needs them,
  /// and those in whose place a call gives a number's double; if another thread has added a form for it
  /// meanwhile, returns that one. With log_compiles, logs a line with the time of tracing. Warns, once, if a
  /// function is compiled for the fifth time within a hundred calls.
  std::shared_ptr<const CallEntry> add(const Signature& signature,
                                       std::shared_ptr<const Computation> computation,
                                       std::vector<Array> captures, NumberInputs::Places doubles,
                                       std::shared_ptr<void> exemplar, std::chrono::duration<double> tracing);

 private:
  /// The difference of the signature from the nearest one that is kept, in words; nullopt if there is no
  /// other.
  std::optional<std::string> nearest_difference(const CallEntry& made) const;
  void log_compiled(const CallEntry& made, std::chrono::duration<double> tracing);
  void warn_if_often(const CallEntry& made);

  /// " (made at train.cc:12)", unless the name contains it.
  std::string made_at() const;

  const std::string operation_, name_;
  const CallSite site_;

  std::mutex mutex_;
  std::weak_ptr<const CallEntry> last_;
  std::vector<std::weak_ptr<const CallEntry>> mine_;
  std::size_t look_at_ = 16;  ///< at this size, entries that no longer exist are removed
  std::uint64_t calls_ = 0;
  bool compiled_before_ = false;
  std::vector<std::uint64_t> compiled_at_;  ///< the numbers of the calls that compiled, until it has warned
  bool warned_ = false;
};

}  // namespace lockstep::internal
