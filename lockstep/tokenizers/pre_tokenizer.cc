// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/tokenizers/byte_level.h"
#include "lockstep/tokenizers/pattern.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

/// What becomes of the matches of a pattern.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior behavior_of(Settings& settings, std::optional<std::size_t> otherwise = std::nullopt) {
  return static_cast<Behavior>(settings.choice(
      "behavior", {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}, otherwise));
}

/// The sections that stay, where each is a piece.
std::vector<Section> merged(const std::vector<Section>& sections, Behavior behavior) {
  std::vector<Section> result;
  bool matched = false;  // the section before
  for (const Section& section : sections) {
    const bool joins = behavior == Behavior::kMergedWithPrevious ? section.matches && !matched
                       : behavior == Behavior::kMergedWithNext   ? matched && !section.matches
                                                                 : section.matches == matched;
    if (behavior == Behavior::kRemoved || behavior == Behavior::kIsolated || result.empty() || !joins) {
      if (behavior != Behavior::kRemoved || !section.matches) result.push_back(section);
    } else {
      result.back().end = section.end;
    }
    matched = section.matches;
  }
  return result;
}

/// Splits all pieces but added tokens.
void split(std::vector<Piece>& pieces, const Pattern& pattern, Behavior behavior, bool inverted = false) {
  std::vector<Piece> result;
  for (Piece& piece : pieces) {
    if (piece.id >= 0) {
      result.push_back(std::move(piece));
      continue;
    }
    std::vector<Section> sections = pattern(piece.text);
    if (inverted)
      for (Section& section : sections) section.matches = !section.matches;
    for (const Section& section : merged(sections, behavior))
      if (section.begin < section.end)
        result.push_back({piece.text.substr(section.begin, section.end - section.begin),
                          piece.at_start && section.begin == 0});
  }
  pieces = std::move(result);
}

PreTokenizer make_character_split(bool (*matches)(char32_t), Behavior behavior) {
  return [pattern = character_pattern(matches), behavior](std::vector<Piece>& pieces) {
    split(pieces, pattern, behavior);
  };
}

PreTokenizer make_bert_split(Settings&) {
  return [](std::vector<Piece>& pieces) {
    split(pieces, character_pattern(is_white_space), Behavior::kRemoved);
    split(pieces, character_pattern(is_punctuation), Behavior::kIsolated);
  };
}

PreTokenizer make_whitespace(Settings& settings) {
  const auto word = std::string("[") + std::string(kWordClass) + "\\u200c\\u200d]";
  const auto other = std::string("[^\\s") + std::string(kWordClass) + "\\u200c\\u200d]";
  return [pattern = regex_pattern(word + "+|" + other + "+", settings.where())](std::vector<Piece>& pieces) {
    split(pieces, pattern, Behavior::kRemoved, true);
  };
}

PreTokenizer make_whitespace_split(Settings&) {
  return make_character_split(is_white_space, Behavior::kRemoved);
}

PreTokenizer make_punctuation(Settings& settings) {
  return make_character_split(is_punctuation, behavior_of(settings, 1));
}

PreTokenizer make_digits(Settings& settings) {
  const bool individual = settings.flag("individual_digits", false);
  return make_character_split(is_numeric, individual ? Behavior::kIsolated : Behavior::kContiguous);
}

PreTokenizer make_split(Settings& settings) {
  const auto behavior = behavior_of(settings);
  return [pattern = pattern_of(settings, "pattern"), behavior, inverted = settings.flag("invert", false)](
             std::vector<Piece>& pieces) { split(pieces, pattern, behavior, inverted); };
}

PreTokenizer make_byte_level(Settings& settings) {
  constexpr auto kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  const bool prefix = settings.flag("add_prefix_space", true);
  const bool splits = settings.flag("use_regex", true);
  settings.flag("trim_offsets", true);  // changes no ids
  return [=, pattern = regex_pattern(kGpt2, settings.where())](std::vector<Piece>& pieces) {
    for (Piece& piece : pieces)
      if (prefix && piece.id < 0 && !piece.text.starts_with(' ')) piece.text.insert(0, " ");
    if (splits) split(pieces, pattern, Behavior::kIsolated);
    for (Piece& piece : pieces)
      if (piece.id < 0) piece.text = to_byte_level(piece.text);
  };
}

PreTokenizer make_metaspace(Settings& settings) {
  std::string mark;
  append_character(mark, settings.character("replacement"));
  // Files of before prepend_scheme have only add_prefix_space.
  const std::size_t otherwise = settings.flag("add_prefix_space", true) ? 0 : 2;
  const std::size_t scheme = settings.choice("prepend_scheme", {"always", "first", "never"}, otherwise);
  settings.text("str_rep", "");                               // of old files: the replacement again
  const bool once = !settings.flag(kAsSentencepiece, false);  // not where the text begins with white space
  return [mark, scheme, once, splits = settings.flag("split", true), blank = literal_pattern(" "),
          pattern = literal_pattern(mark)](std::vector<Piece>& pieces) {
    for (Piece& piece : pieces) {
      if (piece.id >= 0) continue;
      piece.text = replaced(piece.text, blank(piece.text), mark);
      if ((scheme == 0 || (scheme == 1 && piece.at_start)) && !(once && piece.text.starts_with(mark)))
        piece.text.insert(0, mark);
    }
    if (splits) split(pieces, pattern, Behavior::kMergedWithNext);
  };
}

/// How many components of the kind ByteLevel are in a part of the file.
std::size_t byte_levels(const nlohmann::json& value) {
  if (!value.is_structured()) return 0;
  const bool is_one = value.is_object() && value.contains("type") && value["type"] == "ByteLevel";
  std::size_t count = is_one ? 1 : 0;
  for (const nlohmann::json& part : value) count += byte_levels(part);
  return count;
}

PreTokenizer make_pre_tokenizer_sequence(Settings& settings) {
  if (byte_levels(settings.value("pretokenizers")) > 1)  // each of which doubles what is not ASCII
    fail<DataError>("[tokenizers] {}: more than one ByteLevel is not supported", settings.where());
  std::vector<PreTokenizer> steps;
  for (const Settings& step : settings.objects("pretokenizers")) steps.push_back(make_pre_tokenizer(step));
  return [steps = std::move(steps)](std::vector<Piece>& pieces) {
    for (const PreTokenizer& step : steps) step(pieces);
  };
}

constexpr Kind<PreTokenizer> kPreTokenizers[] = {
    {"Sequence", make_pre_tokenizer_sequence},
    {"ByteLevel", make_byte_level},
    {"Split", make_split},
    {"Metaspace", make_metaspace},
    {"BertPreTokenizer", make_bert_split},
    {"Whitespace", make_whitespace},
    {"WhitespaceSplit", make_whitespace_split},
    {"Punctuation", make_punctuation},
    {"Digits", make_digits},
};

}  // namespace

PreTokenizer make_pre_tokenizer(const Settings& settings) {
  return make_kind<PreTokenizer>(settings, kPreTokenizers);
}

}  // namespace lockstep::tokenizers
