// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/xml.h"

#include <charconv>
#include <cstdint>

#include "lockstep/base/fail.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {
namespace {

constexpr int kDeepest = 64;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void append_utf8(std::string& text, std::uint32_t code) {
  auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  XmlElement document() {
    skip_what_is_no_element();
    XmlElement root = element(0);
    skip_what_is_no_element();
    if (at_ != text_.size()) refuse("text after the root element");
    return root;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail<StorageError>("the answer is not the XML that was expected: {} at byte {} of {}", what, at_,
                       text_.size());
  }

  bool begins(std::string_view with) const { return text_.substr(at_).starts_with(with); }

  void skip_past(std::string_view end) {
    const auto found = text_.find(end, at_);
    if (found == text_.npos) refuse(fmt::format("no \"{}\"", end));
    at_ = found + end.size();
  }

  void skip_what_is_no_element() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_]) || begins("\xEF\xBB\xBF")) {
        at_ += is_space(text_[at_]) ? 1 : 3;
      } else if (begins("<?")) {
        skip_past("?>");
      } else if (begins("<!--")) {
        skip_past("-->");
      } else {
        return;
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_space(text_[at_]) && text_[at_] != '>' && text_[at_] != '/') ++at_;
    std::string_view found = text_.substr(begin, at_ - begin);
    if (const auto colon = found.find(':'); colon != found.npos) found.remove_prefix(colon + 1);
    if (found.empty()) refuse("an element without a name");
    return std::string(found);
  }

  /// To the end of the tag; whether it closes its element, as in <a/>.
  bool end_of_tag() {
    char quote = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '>') {
        ++at_;
        return text_[at_ - 2] == '/';
      }
    }
    refuse("a tag without an end");
  }

  void entity(std::string& into) {
    const auto end = text_.find(';', at_);
    if (end == text_.npos || end - at_ > 12) refuse("an & without ;");
    const std::string_view word = text_.substr(at_ + 1, end - at_ - 1);
    static constexpr std::pair<std::string_view, char> kNamed[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    bool known = false;
    for (const auto& [known_name, character] : kNamed) {
      if (word != known_name) continue;
      into += character;
      known = true;
    }
    if (!known) {
      const bool hexadecimal = word.starts_with("#x") || word.starts_with("#X");
      if (!word.starts_with("#")) refuse(fmt::format("an unknown entity {}", word));
      const std::string_view digits = word.substr(hexadecimal ? 2 : 1);
      std::uint32_t code = 0;
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), code, hexadecimal ? 16 : 10);
      if (error != std::errc() || stop != digits.data() + digits.size() || code > 0x10FFFF)
        refuse(fmt::format("an unknown character {}", word));
      append_utf8(into, code);
    }
    at_ = end + 1;
  }

  XmlElement element(int depth) {
    if (depth > kDeepest) refuse("elements nested too deep");
    if (at_ >= text_.size() || text_[at_] != '<') refuse("no element");
    ++at_;
    XmlElement result;
    result.name = name();
    if (end_of_tag()) return result;
    while (true) {
      if (at_ >= text_.size()) refuse(fmt::format("no end of <{}>", result.name));
      if (begins("</")) {
        at_ += 2;
        if (name() != result.name) refuse(fmt::format("no end of <{}>", result.name));
        end_of_tag();
        return result;
      }
      if (begins("<!--")) {
        skip_past("-->");
      } else if (begins("<![CDATA[")) {
        const std::size_t begin = at_ + 9;
        skip_past("]]>");
        result.text += text_.substr(begin, at_ - 3 - begin);
      } else if (text_[at_] == '<') {
        result.children.push_back(element(depth + 1));
      } else if (text_[at_] == '&') {
        entity(result.text);
      } else {
        result.text += text_[at_++];
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view name) const {
  for (const XmlElement& element : children) {
    if (element.name == name) return &element;
  }
  return nullptr;
}

std::string XmlElement::text_of(std::string_view name) const {
  const XmlElement* element = child(name);
  return element == nullptr ? "" : element->text;
}

const XmlElement* XmlElement::find(std::string_view wanted) const {
  if (name == wanted) return this;
  for (const XmlElement& element : children) {
    if (const XmlElement* found = element.find(wanted)) return found;
  }
  return nullptr;
}

XmlElement parse_xml(std::string_view text) { return Parser(text).document(); }

std::string xml_escape(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace lockstep::storage
