// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/print.h"

#include <cctype>
#include <cstdio>

#include "tests/fuzz/operations.h"

namespace lockstep::fuzz {

std::string value_name(Value v) { return "v" + std::to_string(v); }

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  std::string out = text;
  if (out.find_first_of(".en") == out.npos) out += ".0";
  return out;
}

std::string indented(const std::string& text, int spaces) {
  std::string out;
  bool start = true;
  for (char c : text) {
    if (start && c != '\n') out.append(static_cast<std::size_t>(spaces), ' ');
    out += c;
    start = c == '\n';
  }
  return out;
}

std::string fill(std::string_view pattern, const Program& program, const Node& node, bool jax) {
  const Type& result = program.type(node.results[0]);
  const std::size_t rank = node.operands.empty() ? 0 : program.type(node.operands[0]).shape.size();
  auto list = [](std::size_t from, std::size_t to, auto&& each) {
    std::string out;
    for (std::size_t i = from; i < to; ++i) out += (i > from ? ", " : "") + each(i);
    return out;
  };
  auto operand = [&](std::size_t i) { return value_name(node.operands[i]); };
  auto integer = [&](std::size_t i) { return std::to_string(node.ints[i]); };
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '$' && c != '#') {
      out += c;
      continue;
    }
    char next = pattern[++i];
    auto digit = [&] { return static_cast<std::size_t>(next - '0'); };
    const bool rest = std::isdigit(static_cast<unsigned char>(next)) != 0 && i + 1 < pattern.size() &&
                      pattern[i + 1] == '+';
    if (rest) ++i;
    if (c == '$') {
      if (next == '*')
        out += list(0, node.operands.size(), operand);
      else
        out += rest ? list(digit(), node.operands.size(), operand) : operand(digit());
      continue;
    }
    switch (next) {
      case '?':
        next = pattern[++i];
        out += node.ints[digit()] != 0 ? (jax ? "True" : "true") : (jax ? "False" : "false");
        break;
      case 'n':
        next = pattern[++i];
        // Whole numbers and bools get a literal of theirs.
        if (result.dtype == DType::kBool)
          out += node.numbers[digit()] != 0 ? (jax ? "True" : "true") : (jax ? "False" : "false");
        else if (is_integer(result.dtype))
          out += std::to_string(static_cast<std::int64_t>(node.numbers[digit()]));
        else
          out += number(node.numbers[digit()]);
        break;
      case 'a':
      case 'b':
      case 'c': {
        const std::size_t from = rank * static_cast<std::size_t>(next - 'a');
        out += list(from, from + rank, integer);
        break;
      }
      case 'z':
        out += list(0, rank, [&](std::size_t d) {
          const std::string both = integer(d) + ", " + integer(rank + d);
          return jax ? "(" + both + ")" : "{" + both + "}";
        });
        break;
      case 'S':
        out += list(0, result.shape.size(), [&](std::size_t d) { return std::to_string(result.shape[d]); });
        break;
      case 'D':
        if (jax)
          out += result.dtype == DType::kBool ? "jnp.bool_"
                                              : "jnp." + std::string(info(result.dtype).numpy_name);
        else
          out += result.dtype == DType::kBool ? "ls::bool_"
                                              : "ls::" + std::string(info(result.dtype).numpy_name);
        break;
      case 'T':
        out += node.text;
        break;
      default:
        out += rest ? list(digit(), node.ints.size(), integer) : integer(digit());
    }
  }
  // "(,)" is no tuple.
  for (std::size_t at = 0; jax && (at = out.find("(,)", at)) != out.npos;) out.replace(at, 3, "()");
  return out;
}

}  // namespace lockstep::fuzz
