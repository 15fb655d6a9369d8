// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/golden/functions.h"

namespace lockstep::golden {

/// The bits of an array's elements; of complex numbers the parts in turn.
struct EdgeArray {
  DType dtype;
  Shape shape;
  std::vector<std::uint64_t> bits;

  Array array() const;
};

/// A function with operands of one dtype, and what JAX gives: "v" the values, "j" and "r" the derivatives
/// forwards and backwards, "jj" and "rr" those of these. Of derivatives the dtype and the shape are left
/// open.
struct EdgeCase {
  std::string name, kind, dtype;
  Function function;
  const std::vector<EdgeArray>* inputs;
  std::map<std::string, std::vector<EdgeArray>> parts;

  Arrays operands() const;
};

/// The cases of edges.json.gz, and the names in it.
const std::vector<EdgeCase>& edge_cases();
const std::set<std::string>& edge_names();

/// By name, with a superset of the names of edge_functions.py.
const Functions& edge_functions();

/// Differences from JAX that are meant: its numbers are not the right ones there, or are roundings of XLA's.
struct KnownDifference {
  const char* title;  ///< of the functions and dtypes, for the page
  const char* kinds;
  const char* functions;  ///< as a regular expression, as all that follow
  const char* dtypes;
  const char* parts;
  const char* operands;  ///< the elements, with ", " between
  const char* how;       ///< "0.5, not nan"
  const char* why;
  enum Where : std::uint8_t { kAlways, kRounding, kWithoutJit };
  Where where = kAlways;  ///< kRounding: XLA's, which may be another on another processor
};
const std::vector<KnownDifference>& known_differences();

/// Compares element by element, and counts.
class EdgeReport {
 public:
  explicit EdgeReport(std::string how);
  ~EdgeReport();

  void compare(const EdgeCase& c, const std::string& part, const Arrays& found);
  void refused(const EdgeCase& c, const std::string& part, const std::string& message);

  /// That no cell differs but those on the list.
  void expect_no_others() const;

  /// That each entry of the list is still needed, but for roundings.
  void expect_each_known_difference() const;

  /// That docs/operations.md has these numbers; LOCKSTEP_WRITE_DOCS writes them.
  void expect_page() const;

 private:
  void differs(const EdgeCase& c, const std::string& part, const std::string& operands,
               const std::string& how, std::size_t cells);

  std::string how_;
  std::size_t cells_ = 0, agreed_ = 0;
  std::vector<std::size_t> known_;  ///< of each entry of the list
  std::vector<std::pair<std::size_t, std::string>> listed_;
  std::vector<std::string> others_;
};

}  // namespace lockstep::golden
