#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// Numbers of tokens in a file, one after the other. May be used by several threads at a time.
class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual const std::string& url() const = 0;

  /// How many tokens there are.
  virtual std::uint64_t size() const = 0;

  /// Fills `into` with the tokens from `begin` on. Throws DataError where there are not as many, and where
  /// one is above 2^31 - 1.
  virtual void read(std::uint64_t begin, std::span<std::int32_t> into) const = 0;

  /// How many documents the file says that it has; 0 where the format does not say.
  virtual std::uint64_t documents() const { return 0; }

  /// Where document i begins; of i = documents() where the last one ends.
  virtual std::uint64_t document_begin(std::uint64_t i) const;

  /// See Source.
  virtual Fingerprint fingerprint() const = 0;
};

using TokensPtr = std::shared_ptr<const Tokens>;

/// A file of nothing but u16, as nanoGPT writes it, or of nothing but u32; little-endian.
TokensPtr tokens_u16(const std::string& url);
TokensPtr tokens_u32(const std::string& url);

/// A file of llm.c: a header of 256 i32, then u16 (magic 20240520, version 1) or u32 (magic 20240801,
/// version 7).
TokensPtr tokens_llm_c(const std::string& url);

/// Megatron's files PREFIX.bin and PREFIX.idx, with the borders of its documents. Its sequences must lie in
/// the .bin one after the other, as its own builder writes them.
TokensPtr tokens_megatron(const std::string& prefix);

/// Windows of the file's tokens, {"tokens": i32[length]}: record i begins at token i * stride. Tokens behind
/// the last whole window are left out. `segments` needs a format with documents.
SourcePtr windows(TokensPtr tokens, WindowOptions window);

/// The documents, {"tokens": i32[n]}. Throws DataError where the format has none.
SourcePtr documents(TokensPtr tokens);

}  // namespace lockstep::data
