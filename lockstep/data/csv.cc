// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <string_view>

#include "lockstep/base/fail.h"
#include "lockstep/data/text.h"
#include "lockstep/storage/url.h"

namespace lockstep::data {
namespace {

/// As std::from_chars, but a number too small for T is 0 or the next one: 1e-50.
std::from_chars_result parse(const char* first, const char* last, float& value) {
  const auto parsed = std::from_chars(first, last, value);
  if (parsed.ec != std::errc::result_out_of_range) return parsed;
  long double wide = 0;
  const bool fits = std::from_chars(first, last, wide).ec == std::errc();
  const std::string_view text(first, static_cast<std::size_t>(parsed.ptr - first));
  const bool small = fits ? std::abs(wide) < 1 : text.find("e-") != text.npos || text.find("E-") != text.npos;
  if (!small) return parsed;
  value = std::copysign(static_cast<float>(wide), text.starts_with('-') ? -1.0f : 1.0f);
  return {parsed.ptr, std::errc()};
}

}  // namespace

Table read_csv(const std::string& url) {
  const std::string text = internal::read_whole("read_csv", url);
  Table table;
  std::string_view rest = text;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    std::int64_t columns = 0;
    const char *next = line.data(), *last = line.data() + line.size();
    while (true) {
      float value = 0;
      auto [stop, error] = parse(next, last, value);
      if (error != std::errc() || (stop != last && *stop != ',')) {
        const std::string_view found(next, std::min<std::size_t>(20, static_cast<std::size_t>(last - next)));
        fail<DataError>("[read_csv] {} line {} column {}: expected a number{}, got '{}'",
                        storage::printable(url), number, columns + 1,
                        error == std::errc::result_out_of_range ? " that fits 32-bit floats" : "",
                        storage::printable(found));
      }
      table.values.push_back(value);
      ++columns;
      if (stop == last) break;
      next = stop + 1;
    }
    if (table.rows > 0 && columns != table.columns) {
      fail<DataError>("[read_csv] {} line {} has {} columns, but the lines before have {}",
                      storage::printable(url), number, columns, table.columns);
    }
    table.columns = columns;
    ++table.rows;
  }
  if (table.rows == 0) fail<DataError>("[read_csv] {} has no rows", storage::printable(url));
  return table;
}

std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed) {
  // Fisher and Yates, by hand: the standard leaves std::shuffle's order to each library.
  std::mt19937_64 generator(seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[generator() % i]);
  return order;
}

}  // namespace lockstep::data
