// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/normalizer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/tokenizers/charsmap.h"
#include "lockstep/tokenizers/pattern.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

template <Form form>
Normalizer make_form(Settings&) {
  return [](Piece& piece) { piece.text = normalized(piece.text, form); };
}

Normalizer make_lowercase(Settings&) {
  return [](Piece& piece) { piece.text = lowered(piece.text); };
}

/// Removes the characters for which the function is true.
template <class Function>
void remove_characters(Piece& piece, Function removes) {
  std::string rest;
  for (std::size_t at = 0; at < piece.text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(piece.text, at);
    if (!removes(c)) {
      rest.append(piece.text, begin, at - begin);
    } else if (begin == 0) {
      piece.at_start = false;
    }
  }
  piece.text = std::move(rest);
}

Normalizer make_strip_accents(Settings&) {
  return [](Piece& piece) { remove_characters(piece, is_mark); };
}

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
      {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return std::ranges::any_of(kRanges,
                             [c](const auto& range) { return c >= range.first && c <= range.second; });
}

/// Controls are removed, each kind of white space becomes a blank.
void clean(Piece& piece) {
  remove_characters(piece, [](char32_t c) {
    return c == 0 || c == 0xfffd || (c != '\t' && c != '\n' && c != '\r' && is_control(c));
  });
  std::string text;
  for (std::size_t at = 0; at < piece.text.size();) {
    const char32_t c = next_character(piece.text, at);
    append_character(text, is_white_space(c) ? U' ' : c);
  }
  piece.text = std::move(text);
}

void set_apart_chinese(Piece& piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.text.size();) {
    const char32_t c = next_character(piece.text, at);
    if (is_chinese(c)) text += ' ';
    append_character(text, c);
    if (is_chinese(c)) text += ' ';
  }
  piece.text = std::move(text);
}

Normalizer make_bert(Settings& settings) {
  const bool cleans = settings.flag("clean_text", true);
  const bool chinese = settings.flag("handle_chinese_chars", true);
  const bool lowers = settings.flag("lowercase", true);
  const bool strips = settings.flag("strip_accents", lowers);
  return [=](Piece& piece) {
    if (cleans) clean(piece);
    if (chinese) set_apart_chinese(piece);
    if (strips) {
      piece.text = normalized(piece.text, Form::kNfd);
      remove_characters(piece, is_nonspacing_mark);
    }
    if (lowers) piece.text = lowered(piece.text);
  };
}

Normalizer make_prepend(Settings& settings) {
  return [prepended = settings.text("prepend")](Piece& piece) {
    if (!piece.text.empty()) piece.text.insert(0, prepended);
  };
}

Normalizer make_replace(Settings& settings) {
  return [pattern = pattern_of(settings, "pattern"), content = settings.text("content")](Piece& piece) {
    if (piece.text.empty()) return;
    const std::vector<Section> sections = pattern(piece.text);
    // The package sees new text where the last character of the replaced one was.
    std::size_t one = 0;
    next_character(piece.text, one);
    if (sections[0].matches && (content.empty() || sections[0].end > one)) piece.at_start = false;
    piece.text = replaced(piece.text, sections, content);
  };
}

Normalizer make_strip(Settings& settings) {
  const bool left = settings.flag("strip_left", true);
  const bool right = settings.flag("strip_right", true);
  return [=](Piece& piece) {
    std::size_t begin = piece.text.size(), end = 0;
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t character = at;
      if (is_white_space(next_character(piece.text, at))) continue;
      begin = std::min(begin, character);
      end = at;
    }
    if (!left) begin = 0;
    if (!right) end = piece.text.size();
    if (begin > 0) piece.at_start = false;
    piece.text = begin < end ? piece.text.substr(begin, end - begin) : std::string();
  };
}

Normalizer make_precompiled(Settings& settings) {
  const auto map = std::make_shared<const Charsmap>(settings.text("precompiled_charsmap"), settings.where());
  if (settings.flag(kAsSentencepiece, false)) {
    return [map](Piece& piece) {
      std::string text;
      for (std::size_t at = 0; at < piece.text.size();) {
        if (const std::size_t size = map->append(std::string_view(piece.text).substr(at), text, true)) {
          at += size;
        } else {
          const std::size_t begin = at;
          next_character(piece.text, at);
          text.append(piece.text, begin, at - begin);
        }
        check_length(text.size());
      }
      piece.text = std::move(text);
    };
  }
  return [map](Piece& piece) {
    std::string text;
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t end = grapheme_end(piece.text, at);
      // A cluster of less than 6 bytes is looked up as a whole, and else character by character.
      const bool whole =
          end - at < 6 && map->append(std::string_view(piece.text).substr(at, end - at), text) > 0;
      while (!whole && at < end) {
        const std::size_t begin = at;
        next_character(piece.text, at);
        const std::string_view character = std::string_view(piece.text).substr(begin, at - begin);
        if (map->append(character, text) == 0) text += character;
      }
      at = end;
      check_length(text.size());
    }
    piece.text = std::move(text);
  };
}

Normalizer make_normalizer_sequence(Settings& settings) {
  std::vector<Normalizer> steps;
  for (const Settings& step : settings.objects("normalizers")) steps.push_back(make_normalizer(step));
  return [steps = std::move(steps)](Piece& piece) {
    for (const Normalizer& step : steps) {
      step(piece);
      check_length(piece.text.size());
    }
  };
}

constexpr Kind<Normalizer> kNormalizers[] = {
    {"Sequence", make_normalizer_sequence},
    {"NFC", make_form<Form::kNfc>},
    {"NFD", make_form<Form::kNfd>},
    {"NFKC", make_form<Form::kNfkc>},
    {"NFKD", make_form<Form::kNfkd>},
    {"Lowercase", make_lowercase},
    {"StripAccents", make_strip_accents},
    {"BertNormalizer", make_bert},
    {"Prepend", make_prepend},
    {"Replace", make_replace},
    {"Strip", make_strip},
    {"Precompiled", make_precompiled},
};

}  // namespace

Normalizer make_normalizer(const Settings& settings) { return make_kind<Normalizer>(settings, kNormalizers); }

}  // namespace lockstep::tokenizers
