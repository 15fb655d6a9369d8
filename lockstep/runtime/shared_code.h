// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lockstep/collectives/sealed_bytes.h"
#include "lockstep/program/lower.h"
#include "lockstep/runtime/code_tree.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// Sends the machine code of one program between the processes of its mesh, as determined by code_tree, over
/// their own sockets (collectives::Handouts), not through the coordinator. Because machine code is executed
/// as it comes, it carries an HMAC of the job's secret; a job without a secret does not share machine code.
/// Use it from one thread.
class SharedCode {
 public:
  SharedCode(const ir::LoweredProgram& program, const Mesh& mesh, std::string_view options);

  /// Processes that wait for code that was begun and not given stop waiting.
  ~SharedCode();
  SharedCode(const SharedCode&) = delete;
  SharedCode& operator=(const SharedCode&) = delete;

  /// The process that gives the code to this one; -1: this one compiles.
  int giver() const { return tree_.giver; }
  bool comes_from_another_host() const;
  bool has_takers() const { return !tree_.takers.empty(); }

  /// Tells the takers that the code will come.
  void begin();

  /// Sends the code to the takers.
  void give(std::string_view code);

  /// Tells the takers to read the code from the compilation cache, as this process did.
  void give_in_cache();

  struct Code {
    std::string_view code;  ///< empty: it is in the compilation cache
    std::shared_ptr<const collectives::SealedBytes> memory;
  };

  /// Blocks until the giver has sent the code, and forwards it to the takers. Returns nullopt if the giver
  /// does not begin within 2 s, gives up, or is gone, or if the code is not from this job, which is logged as
  /// a warning with `name`. Throws the cause if the job fails meanwhile.
  std::optional<Code> take(const std::string& name);

  /// By which a program is handed out; `options` is what its compiler is told beside the text.
  static std::string key(const ir::LoweredProgram& program, std::string_view options = "");

 private:
  std::string authentication_of(std::string_view code) const;
  void give(std::shared_ptr<const collectives::SealedBytes> bytes);

  Runtime& runtime_ = Runtime::get();
  CodeTree tree_;
  const std::string key_;
  bool begun_ = false;
};

}  // namespace lockstep::runtime
