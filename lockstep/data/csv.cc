// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/csv.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <string_view>

#include "lockstep/base/fail.h"
#include "lockstep/data/text.h"

namespace lockstep::data {
Table read_csv(const std::string& path) {
  const std::string text = internal::read_whole("read_csv", path);
  Table table;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    std::int64_t columns = 0;
    const char *next = line.data(), *last = line.data() + line.size();
    while (true) {
      float value = 0;
      auto [stop, error] = std::from_chars(next, last, value);
      if (error != std::errc() || (stop != last && *stop != ',')) {
        fail<DataError>(
            "[read_csv] {} line {} column {}: expected a number, got '{}'", path, table.rows + 1, columns + 1,
            std::string_view(next, std::min<std::size_t>(20, static_cast<std::size_t>(last - next))));
      }
      table.values.push_back(value);
      ++columns;
      if (stop == last) break;
      next = stop + 1;
    }
    if (table.rows > 0 && columns != table.columns) {
      fail<DataError>("[read_csv] {} line {} has {} columns, the lines before have {}", path, table.rows + 1,
                      columns, table.columns);
    }
    table.columns = columns;
    ++table.rows;
  }
  if (table.rows == 0) fail<DataError>("[read_csv] {} has no rows", path);
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
