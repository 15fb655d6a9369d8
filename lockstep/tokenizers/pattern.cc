// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

// Of a match.
constexpr std::uint32_t kMostSteps = 10'000'000;
constexpr std::uint32_t kMostKibibytes = 32 * 1024;

std::string pcre2_message(int error) {
  char text[256];
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

/// A compiled regular expression.
class Regex {
 public:
  Regex(const std::string& regex, const std::string& where) : where_(where) {
    const std::string translated = to_pcre2(regex, where);
    int error = 0;
    std::size_t at = 0;
    constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
        pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kOptions,
                              &error, &at, context.get()),
                pcre2_code_free);
    if (!code_)
      fail<DataError>("[tokenizers] {}: the regular expression {} is not supported: {}", where, regex,
                      pcre2_message(error));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it cannot, matching takes longer
    limits_.reset(pcre2_match_context_create(nullptr), pcre2_match_context_free);
    pcre2_set_match_limit(limits_.get(), kMostSteps);
    pcre2_set_heap_limit(limits_.get(), kMostKibibytes);
  }

  std::vector<Section> sections(std::string_view text) const {
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    std::vector<Section> found;
    std::size_t end = 0, from = 0;
    while (from <= text.size() && match(text, from, data.get())) {
      const std::size_t* const range = pcre2_get_ovector_pointer(data.get());
      const bool empty = range[0] == range[1];
      if (!empty || range[0] != end || found.empty()) {  // an empty match beside another is none
        if (range[0] > end) found.push_back({end, range[0], false});
        found.push_back({range[0], range[1], true});
        end = range[1];
      }
      from = range[1];
      if (empty && from < text.size()) {
        next_character(text, from);
      } else if (empty) {
        break;
      }
    }
    if (end < text.size()) found.push_back({end, text.size(), false});
    return found;
  }

 private:
  bool match(std::string_view text, std::size_t from, pcre2_match_data* data) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int result =
        pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, data, limits_.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
      result = pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data,
                           limits_.get());
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
      fail<DataError>(
          "[tokenizers] {}: its regular expression cannot be matched at byte {} of a text of {}: {}", where_,
          from, text.size(), pcre2_message(result));
    return result >= 0;
  }

  std::string where_;
  std::shared_ptr<pcre2_code> code_;
  std::shared_ptr<pcre2_match_context> limits_;
};

}  // namespace

Pattern character_pattern(bool (*matches)(char32_t)) {
  return [matches](std::string_view text) {
    std::vector<Section> found;
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (!matches(next_character(text, at))) continue;
      if (begin > end) found.push_back({end, begin, false});
      found.push_back({begin, at, true});
      end = at;
    }
    if (end < text.size()) found.push_back({end, text.size(), false});
    return found;
  };
}

Pattern literal_pattern(std::string literal) {
  return [literal = std::move(literal)](std::string_view text) {
    std::vector<Section> found;
    std::size_t end = 0;
    while (!literal.empty()) {
      const std::size_t begin = text.find(literal, end);
      if (begin == text.npos) break;
      if (begin > end) found.push_back({end, begin, false});
      end = begin + literal.size();
      found.push_back({begin, end, true});
    }
    if (end < text.size()) found.push_back({end, text.size(), false});
    return found;
  };
}

Pattern regex_pattern(const std::string& regex, const std::string& where) {
  return [regex = Regex(regex, where)](std::string_view text) { return regex.sections(text); };
}

Pattern pattern_of(Settings& settings, std::string_view name) {
  Settings pattern = settings.object(name);
  Pattern made;
  if (pattern.has("String")) {
    const std::string text = pattern.text("String");
    if (text.empty()) settings.refuse(name, "not empty", text);
    made = literal_pattern(text);
  } else {
    made = regex_pattern(pattern.text("Regex"), settings.where());
  }
  pattern.end();
  return made;
}

void check_length(std::size_t bytes) {
  if (bytes > kLongestText)
    fail<DataError>("[tokenizers] a text becomes longer than {} bytes: encode parts of it", kLongestText);
}

std::string replaced(std::string_view text, const std::vector<Section>& sections, std::string_view content) {
  std::string result;
  for (const Section& section : sections) {
    result += section.matches ? content : text.substr(section.begin, section.end - section.begin);
    check_length(result.size());
  }
  return result;
}

}  // namespace lockstep::tokenizers
