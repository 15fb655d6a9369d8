// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/names.h"

// libiberty declares a basename of its own unless it is told that there is one.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace lockstep::cli {
namespace {

constexpr std::size_t kLongArguments = 16;
constexpr std::string_view kAnonymous = "(anonymous namespace)::";

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

/// How many characters an operator's symbol takes at the start of the text, which stands behind "operator".
std::size_t operator_size(std::string_view text) {
  for (std::string_view symbol :
       {"()", "[]", "<=>", "->*", "<<=", ">>=", "<<", ">>", "<=", ">=", "->", "<", ">"}) {
    if (text.starts_with(symbol)) return symbol.size();
  }
  return 0;
}

/// The size of what stands between brackets at the start of the text, with the brackets.
std::size_t bracketed_size(std::string_view text) {
  int open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (text.substr(i).starts_with("operator") && (i == 0 || !in_word(text[i - 1]))) {
      i += std::string_view("operator").size() - 1;
      i += operator_size(text.substr(i + 1));
    } else if (c == '(' || c == '<' || c == '{' || c == '[') {
      ++open;
    } else if (c == ')' || c == '}' || c == ']' || (c == '>' && text[i - 1] != '-')) {
      if (--open == 0) return i + 1;
    }
  }
  return text.size();
}

/// The parts of {lambda(int)#1} and {unnamed type#1} that tell them apart.
std::string short_braces(std::string_view braces) {
  const std::size_t open = braces.find('('), number = braces.rfind('#');
  if (open == std::string_view::npos || number == std::string_view::npos) return std::string(braces);
  return std::string(braces.substr(0, open)) + std::string(braces.substr(number));
}

}  // namespace

std::string short_name(std::string_view name) {
  std::string result;
  bool in_operator = false;
  for (std::size_t i = 0; i < name.size();) {
    const std::string_view rest = name.substr(i);
    if (rest.starts_with(kAnonymous)) {
      i += kAnonymous.size();
    } else if (rest.starts_with("operator") && (i == 0 || !in_word(name[i - 1])) &&
               (rest.size() == 8 || !in_word(rest[8]))) {
      const std::size_t size = 8 + operator_size(rest.substr(8));
      result += rest.substr(0, size);
      in_operator = true;
      i += size;
    } else if (name[i] == '<') {
      const std::size_t size = bracketed_size(rest);
      result += size <= kLongArguments ? std::string(rest.substr(0, size)) : "<...>";
      i += size;
    } else if (name[i] == '{') {
      const std::size_t size = bracketed_size(rest);
      result += short_braces(rest.substr(0, size));
      i += size;
    } else if (name[i] == '(') {
      // Parameters, behind which the name of something local to the function may follow.
      i += bracketed_size(rest);
      if (result.empty() || result == "decltype") continue;  // of what it returns
      std::size_t next = i;
      if (name.substr(next).starts_with(" const")) next += std::string_view(" const").size();
      if (!name.substr(next).starts_with("::")) break;
      i = next;
      in_operator = false;
    } else if (name[i] == ' ' && !in_operator) {
      result.clear();  // that was the type of what it returns
      ++i;
    } else {
      result += name[i++];
    }
  }
  while (result.ends_with(' ')) result.pop_back();
  return result.empty() ? std::string(name) : result;
}

std::string function_name(const std::string& symbol) {
  // "symbol@@VERSION", "symbol.part.0", "symbol.cold"
  std::string plain = symbol.substr(0, symbol.find('@'));
  if (plain.starts_with("_Z")) plain = plain.substr(0, plain.find('.'));
  // The C++ library's own knows no generic lambdas, such as the function of a shard_map in jit.
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      cplus_demangle_v3(plain.c_str(), DMGL_PARAMS | DMGL_ANSI), &std::free);
  return demangled != nullptr ? short_name(demangled.get()) : plain;
}

bool is_glue(std::string_view short_name) {
  static constexpr std::string_view kStarts[] = {
      "std::_",     "_M_",      "std::function<", "std::invoke", "std::thread::", "std::apply",
      "std::visit", "__invoke", "invoke<",        "function<",   "__libc_start",  "__gthread"};
  static constexpr std::string_view kWhole[] = {"_start",   "clone",        "clone3",
                                                "__clone3", "start_thread", "execute_native_thread_routine"};
  return std::any_of(std::begin(kStarts), std::end(kStarts),
                     [&](std::string_view start) { return short_name.starts_with(start); }) ||
         std::find(std::begin(kWhole), std::end(kWhole), short_name) != std::end(kWhole);
}

}  // namespace lockstep::cli
