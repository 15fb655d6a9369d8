// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder of pictures and their labels, as .npy files: what train_resnet.cc reads.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "examples/digits.h"

struct Pictures {
  lockstep::data::SourcePtr training, test;
  std::int64_t channels, classes;
};

/// The label of each picture of this part is an integer from 0 to the number of classes - 1. Returns that.
inline std::int64_t classes_in(const std::string& labels, const lockstep::Sharding& sharding) {
  auto everywhere = [&](const std::string&) { return sharding; };
  const lockstep::Array all =
      lockstep::checkpoint::restore(labels, lockstep::Array(), {.sharding = everywhere});
  const auto least = lockstep::min(all).item<std::int64_t>();
  if (least < 0) throw lockstep::DataError(labels + " has the label " + std::to_string(least));
  return lockstep::max(all).item<std::int64_t>() + 1;
}

inline Pictures read_pictures(const std::string& folder, const lockstep::Sharding& sharding) {
  if (folder.empty()) {
    const lockstep::data::SourcePtr all = digits(LOCKSTEP_DATA_DIR "/digits.csv.gz");
    return {lockstep::data::slice(all, 0, 1438), lockstep::data::slice(all, 1438, all->size()), 1, 10};
  }
  auto source = [&](const std::string& part) {
    return lockstep::data::npy({{"image", part + "_images.npy"}, {"label", part + "_labels.npy"}});
  };
  const lockstep::data::SourcePtr training = source(folder + "/train");
  const lockstep::data::Record first = training->read(0);
  const lockstep::Shape& image = lockstep::data::field(first, "image").shape;
  if (image.size() != 3)
    throw lockstep::DataError(folder + "/train_images.npy: expected [pictures,rows,columns,channels], got " +
                              std::to_string(image.size() + 1) + " dimensions");
  return {training, source(folder + "/test"), image[2],
          std::max(classes_in(folder + "/train_labels.npy", sharding),
                   classes_in(folder + "/test_labels.npy", sharding))};
}

/// Bytes as numbers from 0 to 1.
inline lockstep::Array pixels(const lockstep::data::Batch& batch) {
  const lockstep::Array& image = batch["image"];
  const lockstep::Array x = lockstep::astype(image, lockstep::float32);
  return image.dtype() == lockstep::uint8 ? x / 255 : x;
}
