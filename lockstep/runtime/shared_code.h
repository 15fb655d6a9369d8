#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lockstep/collectives/sealed_bytes.h"
#include "lockstep/program/lowering.h"
#include "lockstep/runtime/code_tree.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// The machine code of one program on its way between the processes of its mesh, as code_tree says: over
/// their own sockets (collectives::Handouts), not through the coordinator. Machine code is run as it comes:
/// it carries an HMAC of the job's secret, and a job without one shares none. To be used by one thread.
class SharedCode {
 public:
  SharedCode(const LoweredProgram& program, const Mesh& mesh, std::string_view options);

  /// Who waits for what was begun and not given waits no more.
  ~SharedCode();
  SharedCode(const SharedCode&) = delete;
  SharedCode& operator=(const SharedCode&) = delete;

  /// The process to take it from; -1: this one compiles.
  int giver() const { return tree_.giver; }
  bool comes_from_another_host() const;
  bool has_takers() const { return !tree_.takers.empty(); }

  /// Tells the takers that it comes.
  void begin();

  /// Gives it to the takers.
  void give(std::string_view code);

  /// The takers find it in the compilation cache, as this process has.
  void give_in_cache();

  struct Code {
    std::string_view code;  ///< empty: it is in the compilation cache
    std::shared_ptr<const collectives::SealedBytes> memory;
  };

  /// Blocks until the giver gives it, and gives it on to the takers. Nothing where the giver does not begin
  /// within 2 s, has given it up, or is gone, and where what it gives is not of the job, which is a warning
  /// with `name`. Throws what ended the job meanwhile.
  std::optional<Code> take(const std::string& name);

  /// By which a program is handed out; `options` is what its compiler is told beside the text.
  static std::string key(const LoweredProgram& program, std::string_view options = "");

 private:
  std::string authentication_of(std::string_view code) const;
  void give(std::shared_ptr<const collectives::SealedBytes> bytes);

  Runtime& runtime_ = Runtime::get();
  CodeTree tree_;
  const std::string key_;
  bool begun_ = false;
};

}  // namespace lockstep::runtime
