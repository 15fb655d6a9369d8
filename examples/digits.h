// SPDX-License-Identifier: Apache-2.0
#pragma once

// The handwritten digits that scripts/setup fetches: what train_vit.cc and train_diffusion.cc read.

#include <lockstep/lockstep.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Records of a picture, "image", f32[8,8,1] of 0 to 1, and of the digit that it shows, "label", i32.
inline lockstep::data::SourcePtr digits(const std::string& path) {
  namespace data = lockstep::data;
  const data::Table table = data::read_csv(path);
  if (table.rows != 1797 || table.columns != 65)
    throw lockstep::DataError(path + " is not the digits: run scripts/setup");
  std::vector<data::Record> records;
  for (std::int64_t i = 0; i < table.rows; ++i) {
    std::vector<float> image(table.row(i), table.row(i) + 64);  // 64 pixels of 0 to 16, then the digit
    for (float& pixel : image) pixel /= 16;
    records.push_back({{"image", data::Field::of(std::span<const float>(image), {8, 8, 1})},
                       {"label", data::Field::scalar(static_cast<std::int32_t>(table.row(i)[64]))}});
  }
  return data::in_memory(std::move(records));
}
