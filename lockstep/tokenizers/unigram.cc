// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/tokenizers/model.h"
#include "lockstep/tokenizers/trie.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

/// What an unknown character costs beyond the least score.
constexpr double kUnknownPenalty = 10.0;

class Unigram : public Model {
 public:
  explicit Unigram(Settings& settings) : where_(settings.where()) {
    const nlohmann::json& list = settings.value("vocab");
    if (!list.is_array() || list.size() > std::numeric_limits<std::int32_t>::max())
      settings.refuse("vocab", "a list", list);
    std::vector<std::pair<std::string, std::int32_t>> keys;
    double least = std::numeric_limits<double>::infinity();
    for (const nlohmann::json& entry : list) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        settings.refuse("vocab", "pairs of a token and its score", entry);
      keys.emplace_back(entry[0].get<std::string>(), static_cast<std::int32_t>(keys.size()));
      vocabulary_.add(keys.back().first, keys.back().second);
      scores_.push_back(entry[1].get<double>());
      least = std::min(least, scores_.back());
    }
    single_ = settings.flag(kAsSentencepiece, false);
    unknown_score_ = rounded(least - kUnknownPenalty);
    if (settings.has("unk_id"))
      unknown_ =
          static_cast<std::int32_t>(settings.number("unk_id", 0, static_cast<std::int64_t>(keys.size()) - 1));
    if (settings.flag("byte_fallback", false)) byte_tokens_.emplace(vocabulary_);
    trie_.emplace(std::move(keys));
  }

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    const std::vector<Step> steps = best_steps(piece);
    std::vector<std::pair<std::size_t, std::size_t>> parts;  // from the last to the first
    bool unknown = false;
    for (std::size_t end = piece.size(); end > 0; end = steps[end].begin) {
      const bool joins = std::exchange(unknown, steps[end].id == unknown_) && unknown;
      if (joins) {  // unknown characters in a row are one part
        parts.back().first = steps[end].begin;
      } else {
        parts.emplace_back(steps[end].begin, end);
      }
    }
    for (std::size_t i = parts.size(); i-- > 0;) {
      const std::string_view part = piece.substr(parts[i].first, parts[i].second - parts[i].first);
      if (const auto id = vocabulary_.id(part)) {
        ids.push_back(*id);
      } else if (!byte_tokens_ || !byte_tokens_->append(part, ids)) {
        ids.push_back(unknown_);
      }
    }
  }

 private:
  /// The best way to a place in a piece.
  struct Step {
    std::size_t begin = kNone;  ///< of its last token
    std::int32_t id = -1;
    double score = 0;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  double rounded(double score) const {
    return single_ ? static_cast<double>(static_cast<float>(score)) : score;
  }

  std::vector<Step> best_steps(std::string_view piece) const {
    std::vector<Step> steps(piece.size() + 1);
    for (std::size_t begin = 0, next = 0; begin < piece.size(); begin = next) {
      next_character(piece, next);
      const double score = steps[begin].score;
      // In f32 scores are kept; of what is known, the sum is compared before it is rounded.
      const auto add = [&](std::size_t end, std::int32_t id, double total) {
        if (steps[end].begin == kNone || total > steps[end].score) steps[end] = {begin, id, rounded(total)};
      };
      bool known = false;
      trie_->prefixes(piece.substr(begin), [&](std::size_t size, std::int32_t id) {
        add(begin + size, id, score + scores_[static_cast<std::size_t>(id)]);
        known = known || begin + size == next;
      });
      if (known) continue;
      if (unknown_ < 0)
        fail<DataError>("[tokenizers] {}: the text has an unknown character, and \"unk_id\" is null", where_);
      add(next, unknown_, rounded(score + unknown_score_));
    }
    return steps;
  }

  std::string where_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  bool single_ = false;  ///< scores are added up in f32
  std::int32_t unknown_ = -1;
  std::optional<ByteTokens> byte_tokens_;
  std::optional<Trie> trie_;
};

}  // namespace

ModelPointer make_unigram(Settings& settings) { return std::make_unique<Unigram>(settings); }

}  // namespace lockstep::tokenizers
