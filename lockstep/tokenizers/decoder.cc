// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/decoder.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/tokenizers/byte_level.h"
#include "lockstep/tokenizers/pattern.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

using Tokens = std::vector<std::string>;

Decoder make_byte_level_decoder(Settings& settings) {
  for (const std::string_view name : {"add_prefix_space", "trim_offsets", "use_regex"})
    settings.flag(name, true);
  return [](Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) append_from_byte_level(token, bytes);
    tokens = {with_replacements(bytes)};
  };
}

std::string literally_replaced(std::string_view text, std::string_view literal, std::string_view content) {
  return replaced(text, literal_pattern(std::string(literal))(text), content);
}

Decoder make_word_piece_decoder(Settings& settings) {
  return [prefix = settings.text("prefix"), cleans = settings.flag("cleanup", true)](Tokens& tokens) {
    // How a blank is left out before punctuation and short forms of English.
    constexpr std::pair<std::string_view, std::string_view> kCleanup[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (!cleans) continue;
      for (const auto& [found, content] : kCleanup) token = literally_replaced(token, found, content);
    }
  };
}

Decoder make_metaspace_decoder(Settings& settings) {
  std::string mark;
  append_character(mark, settings.character("replacement"));
  const std::size_t otherwise = settings.flag("add_prefix_space", true) ? 0 : 2;
  const bool prepended = settings.choice("prepend_scheme", {"always", "first", "never"}, otherwise) != 2;
  settings.flag("split", true);
  settings.text("str_rep", "");
  return [mark, prepended](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = literally_replaced(tokens[i], mark, i == 0 && prepended ? "" : " ");
  };
}

Decoder make_bpe_decoder(Settings& settings) {
  return [suffix = settings.text("suffix", "</w>")](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = literally_replaced(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
  };
}

Decoder make_replace_decoder(Settings& settings) {
  return [pattern = pattern_of(settings, "pattern"), content = settings.text("content")](Tokens& tokens) {
    std::size_t bytes = 0;
    for (std::string& token : tokens) {
      token = replaced(token, pattern(token), content);
      check_length(bytes += token.size());
    }
  };
}

/// The byte that a token <0x0A> is; -1 for other tokens.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return -1;
  int byte = 0;
  for (const char digit : token.substr(3, 2)) {
    if (!std::isxdigit(static_cast<unsigned char>(digit))) return -1;
    byte = byte * 16 + (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  return byte;
}

Decoder make_byte_fallback(Settings&) {
  return [](Tokens& tokens) {
    Tokens result;
    std::string bytes;
    const auto put_bytes = [&] {
      if (bytes.empty()) return;
      if (is_utf8(bytes)) {
        result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), "\xef\xbf\xbd");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        put_bytes();
        result.push_back(std::move(token));
      }
    }
    put_bytes();
    tokens = std::move(result);
  };
}

Decoder make_fuse(Settings&) {
  return [](Tokens& tokens) {
    std::string whole;
    for (const std::string& token : tokens) whole += token;
    tokens = {std::move(whole)};
  };
}

Decoder make_strip_decoder(Settings& settings) {
  constexpr std::int64_t kMost = 1 << 24;
  std::string content;
  append_character(content, settings.character("content"));
  return [content, start = settings.number("start", 0, kMost),
          stop = settings.number("stop", 0, kMost)](Tokens& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i)
        rest.remove_prefix(content.size());
      for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
      token = std::string(rest);
    }
  };
}

Decoder make_decoder_sequence(Settings& settings) {
  std::vector<Decoder> steps;
  for (const Settings& step : settings.objects("decoders")) steps.push_back(make_decoder(step));
  return [steps = std::move(steps)](Tokens& tokens) {
    for (const Decoder& step : steps) step(tokens);
  };
}

constexpr Kind<Decoder> kDecoders[] = {
    {"Sequence", make_decoder_sequence},    {"ByteLevel", make_byte_level_decoder},
    {"WordPiece", make_word_piece_decoder}, {"Metaspace", make_metaspace_decoder},
    {"BPEDecoder", make_bpe_decoder},       {"Replace", make_replace_decoder},
    {"ByteFallback", make_byte_fallback},   {"Fuse", make_fuse},
    {"Strip", make_strip_decoder},
};

}  // namespace

Decoder make_decoder(const Settings& settings) { return make_kind<Decoder>(settings, kDecoders); }

}  // namespace lockstep::tokenizers
