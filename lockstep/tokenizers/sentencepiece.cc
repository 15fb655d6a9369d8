// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/base64.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/tokenizers/settings.h"
#include "sentencepiece.pb.h"

namespace lockstep::tokenizers {
namespace {

using nlohmann::json;

enum PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
enum ModelType { kUnigram = 1, kBpe };

constexpr const char* kSpace = "\u2581";

class Converter {
 public:
  explicit Converter(const sentencepiece::Model& model) : model_(model) {
    for (int id = 0; id < model.pieces_size(); ++id) {
      const sentencepiece::Piece& piece = model.pieces(id);
      const std::string& text = piece.piece();
      if (valid_bytes(text) < text.size() || text.empty())
        refuse("piece {} is {}", id, text.empty() ? "empty" : "not UTF-8");
      if (!ids_.emplace(text, id).second) refuse("the piece \"{}\" is there twice", shown(text, 80));
      if (piece.type() < kNormal || piece.type() > kByte || piece.type() == kUnused)
        refuse("the piece \"{}\" is of the type {}; supported are 1 to 4 and 6", shown(text, 80),
               piece.type());
      if (piece.type() == kUnknown) unknown_ = id;
    }
    if (unknown_ < 0) refuse("no piece is the one for unknown characters");
  }

  json convert() const {
    const sentencepiece::Normalizer& rules = model_.normalizer();
    if (model_.trainer().treat_whitespace_as_suffix()) refuse("white space is a suffix of words");
    if (!rules.escape_whitespaces()) refuse("white space is not escaped");
    // "first" means a piece from the text's beginning on, not one from which white space was removed there.
    const char* const always = rules.remove_extra_whitespaces() ? "always" : "first";
    json file = {{"version", "1.0"},
                 {"normalizer", normalizer(rules)},
                 {"pre_tokenizer",
                  {{"type", "Metaspace"},
                   {"replacement", kSpace},
                   {kAsSentencepiece, true},
                   {"prepend_scheme", rules.add_dummy_prefix() ? always : "never"},
                   {"split", false}}},
                 {"decoder", decoder(rules.add_dummy_prefix() || rules.remove_extra_whitespaces())},
                 {"added_tokens", added_tokens(rules)}};
    switch (model_.trainer().model_type()) {
      case kUnigram:
        file["model"] = unigram();
        break;
      case kBpe:
        file["model"] = bpe();
        break;
      default:
        refuse("the model is of the type {}; supported are 1 (unigram) and 2 (BPE)",
               model_.trainer().model_type());
    }
    return file;
  }

 private:
  template <class... Args>
  [[noreturn]] static void refuse(fmt::format_string<Args...> why, Args&&... args) {
    fail<DataError>("[tokenizers] a model of sentencepiece: {}",
                    fmt::format(why, std::forward<Args>(args)...));
  }

  /// As a file has it: not signed.
  static json number(int id) { return static_cast<std::uint32_t>(id); }

  static json replace(json pattern, std::string_view content) {
    return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
  }

  static json normalizer(const sentencepiece::Normalizer& rules) {
    json all = json::array();
    if (!rules.precompiled_charsmap().empty())
      all.push_back({{"type", "Precompiled"},
                     {"precompiled_charsmap", to_base64(rules.precompiled_charsmap())},
                     {kAsSentencepiece, true}});
    if (rules.remove_extra_whitespaces()) {
      all.push_back(replace({{"Regex", "\\A +| +\\z"}}, ""));
      all.push_back(replace({{"Regex", " {2,}"}}, " "));
    }
    return all.empty() ? json() : json{{"type", "Sequence"}, {"normalizers", std::move(all)}};
  }

  json decoder(bool strips) const {
    // What stands for unknown characters begins with a space that is not stripped.
    constexpr const char* kMark = "\uFFFE\uFFFF";
    json all = {replace({{"String", model_.pieces(unknown_).piece()}}, kMark),
                replace({{"String", kSpace}}, " "),
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
    if (strips) all.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    all.push_back(replace({{"String", kMark}}, model_.trainer().unk_surface()));
    return {{"type", "Sequence"}, {"decoders", std::move(all)}};
  }

  json added_tokens(const sentencepiece::Normalizer& rules) const {
    json all = json::array();
    for (int id = 0; id < model_.pieces_size(); ++id) {
      const int type = model_.pieces(id).type();
      if (type != kControl && type != kUserDefined) continue;
      // Each part between such pieces would lose the white space at its ends.
      if (type == kUserDefined && rules.remove_extra_whitespaces())
        refuse("it has pieces that users define, and removes white space");
      all.push_back({{"id", number(id)},
                     {"content", model_.pieces(id).piece()},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != kUserDefined}});
    }
    return all;
  }

  json unigram() const {
    json vocabulary = json::array();
    for (const sentencepiece::Piece& piece : model_.pieces())
      vocabulary.push_back({piece.piece(), piece.score()});
    return {{"type", "Unigram"},
            {kAsSentencepiece, true},
            {"unk_id", number(unknown_)},
            {"byte_fallback", model_.trainer().byte_fallback()},
            {"vocab", std::move(vocabulary)}};
  }

  /// Of two neighbors those are merged first whose piece has the highest score. The file has no merges, but
  /// each piece is made of any two others.
  json bpe() const {
    struct Merge {
      float score;
      int left, right;
      std::size_t split;
      int piece;
    };
    std::vector<Merge> merges;
    for (int id = 0; id < model_.pieces_size(); ++id) {
      const std::string& text = model_.pieces(id).piece();
      if (model_.pieces(id).type() != kNormal) continue;
      for (std::size_t at = 1; at < text.size(); ++at) {
        if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
        const auto left = ids_.find(text.substr(0, at)), right = ids_.find(text.substr(at));
        if (left != ids_.end() && right != ids_.end())
          merges.push_back({model_.pieces(id).score(), left->second, right->second, at, id});
      }
    }
    std::ranges::sort(merges, {}, [](const Merge& m) { return std::tuple(-m.score, m.left, m.right); });
    json list = json::array(), vocabulary = json::object();
    for (const Merge& merge : merges)
      list.push_back({model_.pieces(merge.left).piece(), model_.pieces(merge.right).piece()});
    for (const auto& [piece, id] : ids_) vocabulary[piece] = number(id);
    return {{"type", "BPE"},
            {"unk_token", model_.pieces(unknown_).piece()},
            {"fuse_unk", true},
            {"byte_fallback", model_.trainer().byte_fallback()},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(list)}};
  }

  const sentencepiece::Model& model_;
  std::unordered_map<std::string, int> ids_;
  int unknown_ = -1;
};

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  // Field 1, a message. JSON begins with a bracket or white space, of which only the line end is this byte.
  return bytes.size() > 2 && bytes[0] == '\n' && bytes[1] != '{' && bytes[2] == '\n';
}

json json_of_sentencepiece(std::string_view bytes) {
  sentencepiece::Model model;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail<DataError>(
        "[tokenizers] expected a file tokenizer.json, or tokenizer.model of sentencepiece, got {} bytes that "
        "are neither",
        bytes.size());
  return Converter(model).convert();
}

}  // namespace lockstep::tokenizers
