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
#include "lockstep/base/call_site.h"
#include "lockstep/base/kept.h"
#include "lockstep/jit/signature.h"

namespace lockstep::internal {

class CallCache;

/// One compiled form of a function of jit or pmap; or, where jit is disabled, one trace of a function, which
/// runs operation by operation and is not kept.
struct CallEntry : Kept {
  const CallCache* function = nullptr;
  std::vector<std::uint64_t> signature;
  std::vector<Signature::Word> kinds;
  std::shared_ptr<const Computation> computation;  ///< holds the array types that the signature points to
  std::shared_ptr<const Program> traced;           ///< in place of it, where jit is disabled
  std::vector<Array> captures;     ///< arrays from outside of the function: inputs that follow the arguments'
  std::shared_ptr<void> exemplar;  ///< a result, with empty arrays, of the C++ type in the signature

  /// Whether argument i is an Array, though a number may be given.
  bool takes_array(std::size_t i) const;

  /// Runs it on the leaves, and the captures. Donated arrays remember `site`.
  std::vector<Array> run(const std::vector<const Array*>& leaves, const CallSite& site) const;
};

/// The compiled forms of one function of jit or pmap. They are kept with those of all other functions, the
/// max_kept() that were used last. May be used by several threads.
class CallCache {
 public:
  /// `operation` is "jit" or "pmap", `name` the function's, for messages.
  CallCache(std::string operation, std::string name, const CallSite& site);
  ~CallCache();
  CallCache(const CallCache&) = delete;
  CallCache& operator=(const CallCache&) = delete;

  const std::string& name() const { return name_; }
  const CallSite& site() const { return site_; }

  /// The form for this signature, or null. To be called once in a call.
  std::shared_ptr<const CallEntry> find(const Signature& signature);

  /// Keeps what was compiled for the (described) signature, with the captures where the computation needs
  /// them; or gives what another thread has added for it meanwhile. With log_compiles it is a line of the
  /// log, with the time that tracing took. Warns, once, of a function that is compiled for the fifth time
  /// within a hundred calls.
  std::shared_ptr<const CallEntry> add(const Signature& signature,
                                       std::shared_ptr<const Computation> computation,
                                       std::vector<Array> captures, std::shared_ptr<void> exemplar,
                                       std::chrono::duration<double> tracing);

 private:
  /// How the signature differs from the nearest that is kept, in words; nothing where no other is.
  std::optional<std::string> nearest_difference(const CallEntry& made) const;
  void log_compiled(const CallEntry& made, std::chrono::duration<double> tracing);
  void warn_if_often(const CallEntry& made);

  /// " (made at train.cc:12)", where the name does not say it.
  std::string made_at() const;

  const std::string operation_, name_;
  const CallSite site_;

  std::mutex mutex_;
  std::weak_ptr<const CallEntry> last_;
  std::vector<std::weak_ptr<const CallEntry>> mine_;
  std::size_t look_at_ = 16;  ///< at this many it looks for those that are no more
  std::uint64_t calls_ = 0;
  bool compiled_before_ = false;
  std::vector<std::uint64_t> compiled_at_;  ///< the calls, as long as it has not warned
  bool warned_ = false;
};

}  // namespace lockstep::internal
