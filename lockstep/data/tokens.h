// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// A file of consecutive tokens. May be used by several threads at a time.
class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual const std::string& url() const = 0;

  /// The number of tokens.
  virtual std::uint64_t size() const = 0;

  /// Fills `into` with the tokens from `begin` on. Throws DataError if there are not enough, or one is above
  /// 2^31 - 1.
  virtual void read(std::uint64_t begin, std::span<std::int32_t> into) const = 0;

  /// The number of documents in the file; 0 if the format does not say.
  virtual std::uint64_t documents() const { return 0; }

  /// The beginning of document i; for i = documents() the end of the last one.
  virtual std::uint64_t document_begin(std::uint64_t i) const;

  /// See Source.
  virtual Fingerprint fingerprint() const = 0;
};

using TokensPtr = std::shared_ptr<const Tokens>;

/// A file of plain u16, as nanoGPT writes it, or plain u32; little-endian.
TokensPtr tokens_u16(const std::string& url);
TokensPtr tokens_u32(const std::string& url);

/// A file of llm.c: a header of 256 i32, then u16 (magic 20240520, version 1) or u32 (magic 20240801,
/// version 7).
TokensPtr tokens_llm_c(const std::string& url);

/// Megatron's files PREFIX.bin and PREFIX.idx, with the boundaries of its documents. Its sequences must be
/// consecutive in the .bin, as its own builder writes them.
TokensPtr tokens_megatron(const std::string& prefix);

/// Windows of the file's tokens, {"tokens": i32[length]}: record i begins at token i * stride. Tokens after
/// the last whole window are left out. `segments` needs a format with documents.
SourcePtr windows(TokensPtr tokens, WindowOptions window);

/// The documents, {"tokens": i32[n]}. Throws DataError if the format has none.
SourcePtr documents(TokensPtr tokens);

}  // namespace lockstep::data
