// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/einsum.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

/// An array and the label of each of its dimensions.
struct Labelled {
  Array array;
  std::string labels;
};

[[noreturn]] void fail_subscripts(std::string_view subscripts, const std::string& why) {
  fail<ShapeError>("[einsum] \"{}\": {}{}", subscripts, why, ops::at());
}

/// The subscripts with one letter for each dimension: those of "..." are digits, the last dimension 0.
struct Parsed {
  std::vector<std::string> operands;
  std::string result;
};

std::string expanded(std::string_view subscripts, const std::string& term, std::size_t rank) {
  std::string labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0) {
      const std::size_t given = term.size() - 3;
      if (given > rank) break;
      for (std::size_t d = rank - given; d-- > 0;) labels += static_cast<char>('0' + d);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels += term[i];
    } else {
      fail_subscripts(subscripts, fmt::format("'{}' is not a label; labels are letters", term[i]));
    }
  }
  return labels;
}

Parsed parse(std::string_view subscripts, const std::vector<Array>& operands) {
  std::string text;
  for (char c : subscripts) {
    if (c != ' ') text += c;
  }
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (char c : left) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != operands.size()) {
    fail_subscripts(subscripts, fmt::format("expected {} operands, got {}", terms.size(), operands.size()));
  }
  Parsed parsed;
  std::map<char, int> uses;
  std::size_t dots = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::size_t rank = operands[i].shape().size();
    parsed.operands.push_back(expanded(subscripts, terms[i], rank));
    if (parsed.operands.back().size() != rank) {
      fail_subscripts(subscripts,
                      fmt::format("operand {} is {}, and \"{}\" does not name each of its dimensions once", i,
                                  to_string(operands[i].aval()), terms[i]));
    }
    for (char label : parsed.operands.back()) {
      ++uses[label];
      if (std::isdigit(static_cast<unsigned char>(label)) != 0)
        dots = std::max<std::size_t>(dots, static_cast<std::size_t>(label - '0') + 1);
    }
  }
  if (arrow != std::string::npos) {
    std::string term = text.substr(arrow + 2);
    const bool has_dots = term.find("...") != std::string::npos;
    parsed.result = expanded(subscripts, term, has_dots ? term.size() - 3 + dots : term.size());
    for (char label : parsed.result) {
      if (!uses.contains(label) || std::ranges::count(parsed.result, label) != 1) {
        fail_subscripts(subscripts,
                        fmt::format("label '{}' of the result must stand in an operand, and once", label));
      }
    }
  } else {
    for (std::size_t d = dots; d-- > 0;) parsed.result += static_cast<char>('0' + d);
    for (auto [label, count] : uses) {
      if (count == 1 && std::isalpha(static_cast<unsigned char>(label)) != 0) parsed.result += label;
    }
  }
  return parsed;
}

using Sizes = std::map<char, std::int64_t>;

/// The size of each label. Operands with size 1 are repeated to it; throws if a label has two other sizes.
Sizes sizes_of(std::string_view subscripts, const Parsed& parsed, const std::vector<Array>& operands) {
  Sizes sizes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Sizes mine;
    for (std::size_t d = 0; d < parsed.operands[i].size(); ++d) {
      const char label = parsed.operands[i][d];
      const std::int64_t n = operands[i].shape()[d], own = mine.try_emplace(label, n).first->second;
      std::int64_t& size = sizes.try_emplace(label, n).first->second;
      if (own != n || (size != n && size != 1 && n != 1))
        fail_subscripts(subscripts,
                        fmt::format("label '{}' has sizes {} and {}", label, own != n ? own : size, n));
      if (size == 1) size = n;
    }
  }
  return sizes;
}

/// Without dimensions of size 1 whose label is one of "..." or has another size elsewhere, which is theirs.
Labelled squeezed(Labelled x, const Sizes& sizes) {
  Shape shape;
  std::string labels;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    const bool of_dots = std::isdigit(static_cast<unsigned char>(x.labels[d])) != 0;
    if (x.array.shape()[d] == 1 && (of_dots || sizes.at(x.labels[d]) != 1)) continue;
    shape.push_back(x.array.shape()[d]);
    labels += x.labels[d];
  }
  return {ir::lax::reshape(x.array, shape), labels};
}

/// The sum; of bools whether any is true.
Array added(const Array& x, const std::vector<std::int64_t>& axes) {
  return x.dtype() == DType::kBool ? any(x, {.axis = axes}) : sum(x, {.axis = axes});
}

/// Each label once: of two dimensions with one label, the diagonal.
Labelled diagonal(Labelled x) {
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    const std::size_t other = x.labels.find(x.labels[d], d + 1);
    if (other == std::string::npos) continue;
    const Shape& shape = x.array.shape();
    Array row = ir::lax::iota(x.array, DType::kI32, shape, static_cast<std::int64_t>(d));
    Array column = ir::lax::iota(x.array, DType::kI32, shape, static_cast<std::int64_t>(other));
    Array kept = ir::lax::select(ir::lax::eq(row, column), x.array, ir::lax::full_like(x.array, 0));
    x.array = added(kept, {static_cast<std::int64_t>(other)});
    x.labels.erase(other, 1);
    --d;
  }
  return x;
}

/// Summed over the labels that nothing else needs.
Labelled summed(Labelled x, const std::string& needed) {
  std::vector<std::int64_t> axes;
  std::string labels;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (needed.find(x.labels[d]) == std::string::npos)
      axes.push_back(static_cast<std::int64_t>(d));
    else
      labels += x.labels[d];
  }
  if (axes.empty()) return x;
  return {added(x.array, axes), labels};
}

Labelled contracted(const Labelled& x, const Labelled& y, const std::string& needed,
                    const DotOptions& options) {
  ir::DotGeneralParams p;
  std::string batch, rest;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    const char label = x.labels[d];
    const std::size_t there = y.labels.find(label);
    const auto left = static_cast<std::int64_t>(d), right = static_cast<std::int64_t>(there);
    if (there == std::string::npos) {
      rest += label;
    } else if (needed.find(label) != std::string::npos) {
      batch += label;
      p.lhs_batch.push_back(left);
      p.rhs_batch.push_back(right);
    } else {
      p.lhs_contracting.push_back(left);
      p.rhs_contracting.push_back(right);
    }
  }
  for (char label : y.labels) {
    if (x.labels.find(label) == std::string::npos) rest += label;
  }
  // A term that was summed before may be wider.
  Array left = x.array, right = y.array;
  if (size_of(left.dtype()) < size_of(right.dtype()))
    left = ir::lax::convert_element_type(left, right.dtype());
  if (left.dtype() != right.dtype()) right = ir::lax::convert_element_type(right, left.dtype());
  return {ops::dot_general(left, right, std::move(p), options), batch + rest};
}

double elements(const std::string& labels, const Sizes& sizes) {
  double count = 1;
  for (const char label : labels) count *= static_cast<double>(sizes.at(label));
  return count;
}

/// The pair to contract next, by opt_einsum's greedy rule: among the pairs that share a label, the one whose
/// product exceeds the sizes of both operands by the least; if none share a label, the pair with the smallest
/// product.
std::pair<std::size_t, std::size_t> next_pair(const std::vector<Labelled>& terms, const std::string& result,
                                              const Sizes& sizes) {
  std::pair<std::size_t, std::size_t> best(0, 1);
  std::optional<std::tuple<bool, double, double>> least;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t k = i + 1; k < terms.size(); ++k) {
      std::string needed = result, product;
      for (std::size_t t = 0; t < terms.size(); ++t)
        if (t != i && t != k) needed += terms[t].labels;
      bool apart = true;
      for (const char label : terms[i].labels) {
        const bool shared = terms[k].labels.find(label) != std::string::npos;
        apart = apart && !shared;
        if (needed.find(label) != std::string::npos) product += label;
      }
      for (const char label : terms[k].labels) {
        if (terms[i].labels.find(label) == std::string::npos && needed.find(label) != std::string::npos)
          product += label;
      }
      const double size = elements(product, sizes);
      double cost = size;
      if (!apart) cost -= elements(terms[i].labels, sizes) + elements(terms[k].labels, sizes);
      const std::tuple all(apart, cost, size);
      if (least && all >= *least) continue;
      least = all;
      best = {i, k};
    }
  }
  return best;
}

/// The labels of `labels` that `others` has, or has not.
std::string chosen(const std::string& labels, const std::string& others, bool has) {
  std::string all;
  for (const char label : labels)
    if ((others.find(label) != std::string::npos) == has) all += label;
  return all;
}

Labelled arranged(Labelled x, const std::string& labels) {
  if (x.labels == labels) return x;
  std::vector<std::int64_t> order;
  for (const char label : labels) order.push_back(static_cast<std::int64_t>(x.labels.find(label)));
  return {ir::lax::transpose(x.array, order), labels};
}

/// The last two terms, in the order and with the dimensions in the order in which the fewest elements are
/// transposed: those of the product, or those of the terms.
std::pair<Labelled, Labelled> last_pair(Labelled x, Labelled y, const std::string& result,
                                        const Sizes& sizes) {
  const auto product = [&](const std::string& a, const std::string& b) {
    return chosen(chosen(a, b, true), result, true) + chosen(a, b, false) + chosen(b, a, false);
  };
  const std::string wanted = chosen(result, x.labels + y.labels, true);
  const auto in_order = [&](const Labelled& term) {
    return chosen(result, term.labels, true) + chosen(term.labels, result, false);
  };
  const std::string others[] = {in_order(x), in_order(y)};
  const double of_terms = (others[0] == x.labels ? 0 : elements(x.labels, sizes)) +
                          (others[1] == y.labels ? 0 : elements(y.labels, sizes));
  if (product(x.labels, y.labels) == wanted) return {std::move(x), std::move(y)};
  if (product(y.labels, x.labels) == wanted) return {std::move(y), std::move(x)};
  if (of_terms >= elements(wanted, sizes)) return {std::move(x), std::move(y)};
  if (product(others[0], others[1]) == wanted)
    return {arranged(std::move(x), others[0]), arranged(std::move(y), others[1])};
  if (product(others[1], others[0]) == wanted)
    return {arranged(std::move(y), others[1]), arranged(std::move(x), others[0])};
  return {std::move(x), std::move(y)};
}

Array compute(const Parsed& parsed, std::span<const Array> arrays, ElementType type, const Sizes& sizes,
              const DotOptions& options) {
  std::vector<Labelled> terms;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    terms.push_back(diagonal(squeezed({ops::convert(arrays[i], type), parsed.operands[i]}, sizes)));
  }
  // The labels that the result and all terms but these two need.
  auto needed_beside = [&](std::size_t i, std::size_t k) {
    std::string needed = parsed.result;
    for (std::size_t t = 0; t < terms.size(); ++t)
      if (t != i && t != k) needed += terms[t].labels;
    return needed;
  };
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = summed(terms[i], needed_beside(i, i));
  while (terms.size() > 1) {
    const auto [i, k] = next_pair(terms, parsed.result, sizes);
    const std::string needed = needed_beside(i, k);
    if (terms.size() == 2) std::tie(terms[i], terms[k]) = last_pair(terms[i], terms[k], parsed.result, sizes);
    Labelled both = summed(contracted(terms[i], terms[k], needed, options), needed);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(k));
    terms[i] = std::move(both);
  }
  Labelled& x = terms[0];
  if (options.preferred_element_type && x.array.dtype() != *options.preferred_element_type)
    x.array =
        ir::lax::convert_element_type(x.array, ir::product_dtype(type.dtype, options.preferred_element_type));
  // Removed dimensions get the size that they have in other operands, or 1.
  Shape shape;
  std::vector<std::int64_t> order, places;
  for (std::size_t d = 0; d < parsed.result.size(); ++d) {
    shape.push_back(sizes.at(parsed.result[d]));
    const std::size_t there = x.labels.find(parsed.result[d]);
    if (there == std::string::npos) continue;
    order.push_back(static_cast<std::int64_t>(there));
    places.push_back(static_cast<std::int64_t>(d));
  }
  Array ordered = ir::lax::transpose(x.array, order);
  return ordered.shape() == shape ? ordered : ir::lax::broadcast_in_dim(ordered, shape, places);
}

}  // namespace

Array einsum(std::string_view subscripts, const std::vector<Array>& operands, std::source_location where) {
  return einsum(subscripts, operands, DotOptions(), where);
}

Array einsum(std::string_view subscripts, const std::vector<Array>& operands, const DotOptions& options,
             std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  const Parsed parsed = parse(subscripts, operands);
  const Sizes sizes = sizes_of(subscripts, parsed, operands);
  std::vector<ElementType> types;
  for (const Array& operand : operands) types.push_back({operand.dtype(), operand.aval().weak_type});
  const ElementType type = promote("einsum", types);
  auto compose = [&](std::span<const Array> t) {
    return std::vector<Array>{compute(parsed, t, type, sizes, options)};
  };
  return run_operation("einsum", std::string(subscripts) + ops::key_of(options), operands, compose).front();
}

}  // namespace lockstep
