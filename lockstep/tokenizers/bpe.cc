// SPDX-License-Identifier: Apache-2.0
#include <queue>
#include <tuple>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/tokenizers/model.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

class Bpe : public Model {
 public:
  explicit Bpe(Settings& settings)
      : where_(settings.where()),
        unknown_(settings.text("unk_token", "")),
        prefix_(settings.text("continuing_subword_prefix", "")),
        suffix_(settings.text("end_of_word_suffix", "")),
        fuses_unknown_(settings.flag("fuse_unk", false)),
        ignores_merges_(settings.flag("ignore_merges", false)) {
    vocabulary_ = Vocabulary(settings, "vocab");
    if (settings.has("dropout") && settings.value("dropout") != 0)
      settings.refuse("dropout", "null (leaving merges out at random is not supported)",
                      settings.value("dropout"));
    if (settings.flag("byte_fallback", false)) byte_tokens_.emplace(vocabulary_);
    const nlohmann::json& merges = settings.value("merges");
    if (!merges.is_array()) settings.refuse("merges", "a list", merges);
    merges_.reserve(merges.size());
    for (const nlohmann::json& merge : merges) add_merge(settings, merge);
  }

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    if (ignores_merges_) {
      if (const auto id = vocabulary_.id(piece)) {
        ids.push_back(*id);
        return;
      }
    }
    merge(characters(piece), ids);
  }

 private:
  struct Merge {
    std::size_t rank;
    std::int32_t id;
  };

  static std::uint64_t pair(std::int32_t a, std::int32_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
  }

  void add_merge(Settings& settings, const nlohmann::json& merge) {
    std::string a, b;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      a = merge[0].get<std::string>();
      b = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      if (text.starts_with("#version")) return;
      const std::size_t blank = text.find(' ');
      if (blank == text.npos || text.find(' ', blank + 1) != text.npos)
        settings.refuse("merges", "pairs of tokens, each with one space between its two", merge);
      a = text.substr(0, blank);
      b = text.substr(blank + 1);
    } else {
      settings.refuse("merges", "pairs of tokens", merge);
    }
    const std::string whole = a + (b.starts_with(prefix_) ? b.substr(prefix_.size()) : b);
    const auto first = vocabulary_.id(a), second = vocabulary_.id(b), id = vocabulary_.id(whole);
    for (const auto& [token, found] : {std::pair(a, first), std::pair(b, second), std::pair(whole, id)})
      if (!found)
        fail<DataError>("[tokenizers] {}: \"merges\" has the token \"{}\", which is not in \"vocab\"", where_,
                        shown(token, 80));
    merges_[pair(*first, *second)] = {next_rank_++, *id};
  }

  /// The ids with which the merges begin.
  std::vector<std::int32_t> characters(std::string_view piece) const {
    std::vector<std::int32_t> ids;
    bool unknown = false;  // whether one is to be added before the next known character
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      next_character(piece, at);
      std::string text = begin > 0 ? prefix_ : std::string();
      text += piece.substr(begin, at - begin);
      if (at == piece.size()) text += suffix_;
      if (const auto id = vocabulary_.id(text)) {
        if (std::exchange(unknown, false)) ids.push_back(vocabulary_.unknown_id(unknown_, where_));
        ids.push_back(*id);
      } else if (!(byte_tokens_ && byte_tokens_->append(text, ids)) && !unknown_.empty()) {
        if (unknown && !fuses_unknown_) ids.push_back(vocabulary_.unknown_id(unknown_, where_));
        unknown = true;
      }
    }
    if (unknown) ids.push_back(vocabulary_.unknown_id(unknown_, where_));
    return ids;
  }

  /// Merges neighbours, those with the lowest rank first and of these the leftmost, and appends what is left.
  void merge(const std::vector<std::int32_t>& characters, std::vector<std::int32_t>& ids) const {
    constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    struct Symbol {
      std::int32_t id;
      std::size_t before, behind;
    };
    std::vector<Symbol> symbols;
    for (std::size_t i = 0; i < characters.size(); ++i)
      symbols.push_back({characters[i], i - 1, i + 1 < characters.size() ? i + 1 : kNone});
    using Candidate = std::tuple<std::size_t, std::size_t, std::int32_t>;  // rank, left symbol, merged id
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
    const auto found = [&](std::size_t left) {
      return merges_.find(pair(symbols[left].id, symbols[symbols[left].behind].id));
    };
    const auto add = [&](std::size_t left) {
      if (left == kNone || symbols[left].behind == kNone) return;
      if (const auto merge = found(left); merge != merges_.end())
        candidates.emplace(merge->second.rank, left, merge->second.id);
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) add(i);
    while (!candidates.empty()) {
      const auto [rank, left, id] = candidates.top();
      candidates.pop();
      Symbol& symbol = symbols[left];
      if (symbol.id < 0 || symbol.behind == kNone) continue;
      if (const auto merge = found(left); merge == merges_.end() || merge->second.id != id) continue;
      Symbol& gone = symbols[symbol.behind];
      symbol.id = id;
      symbol.behind = gone.behind;
      gone.id = -1;
      if (symbol.behind != kNone) symbols[symbol.behind].before = left;
      add(symbol.before);
      add(left);
    }
    for (const Symbol& symbol : symbols)
      if (symbol.id >= 0) ids.push_back(symbol.id);
  }

  std::string where_;
  std::string unknown_, prefix_, suffix_;
  bool fuses_unknown_, ignores_merges_;
  std::optional<ByteTokens> byte_tokens_;
  std::size_t next_rank_ = 0;
  std::unordered_map<std::uint64_t, Merge> merges_;
};

}  // namespace

ModelPointer make_bpe(Settings& settings) { return std::make_unique<Bpe>(settings); }

}  // namespace lockstep::tokenizers
