// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/tokenizers/model.h"
#include "lockstep/tokenizers/trie.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

class WordPiece : public Model {
 public:
  explicit WordPiece(Settings& settings)
      : where_(settings.where()),
        unknown_(settings.text("unk_token")),
        most_characters_(
            settings.number("max_input_chars_per_word", 0, std::numeric_limits<std::int32_t>::max())) {
    vocabulary_ = Vocabulary(settings, "vocab");
    const std::string prefix = settings.text("continuing_subword_prefix");
    std::vector<std::pair<std::string, std::int32_t>> first, continuing;
    for (const auto& [token, id] : settings.value("vocab").items()) {
      first.emplace_back(token, id.get<std::int32_t>());
      if (token.starts_with(prefix))
        continuing.emplace_back(token.substr(prefix.size()), first.back().second);
    }
    first_.emplace(std::move(first));
    continuing_.emplace(std::move(continuing));
  }

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    const std::size_t before = ids.size();
    std::int64_t characters = 0;
    for (std::size_t at = 0; at < piece.size(); ++characters) next_character(piece, at);
    std::size_t begin = characters > most_characters_ ? kUnknown : 0;
    while (begin < piece.size()) {
      std::size_t size = 0;
      std::int32_t id = -1;
      (begin == 0 ? first_ : continuing_)
          ->prefixes(piece.substr(begin), [&](std::size_t found, std::int32_t value) {
            size = found;
            id = value;
          });
      ids.push_back(id);
      begin = id < 0 ? kUnknown : begin + size;
    }
    if (begin != kUnknown) return;
    ids.resize(before);  // the word as a whole is unknown
    ids.push_back(vocabulary_.unknown_id(unknown_, where_));
  }

 private:
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);

  std::string where_;
  std::string unknown_;
  std::int64_t most_characters_;
  std::optional<Trie> first_, continuing_;
};

}  // namespace

ModelPointer make_word_piece(Settings& settings) { return std::make_unique<WordPiece>(settings); }

}  // namespace lockstep::tokenizers
