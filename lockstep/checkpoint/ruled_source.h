// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/hf.h"
#include "lockstep/checkpoint/layout.h"
#include "lockstep/checkpoint/saving.h"
#include "lockstep/checkpoint/source.h"

namespace lockstep::checkpoint {

/// The arrays of a tree, which rules find in the tensors of another source.
class RuledSource final : public Source {
 public:
  /// For the contents' arrays, whose values are only asked for their dtypes and shapes. Throws
  /// CheckpointError for tensors that are missing or do not fit, and, unless `options.partial` is set, for
  /// those that are left.
  RuledSource(std::shared_ptr<const Source> tensors, const Contents& contents, const hf::Rules& rules,
              const RestoreOptions& options);

  const std::string& url() const override { return tensors_->url(); }
  const Manifest& manifest() const override { return manifest_; }
  const ArrayInfo& array(const std::string& path) const override;
  void check_files(const std::string& path, const Box& box) const override;
  void read(const std::vector<Wanted>& wanted) const override;
  std::shared_ptr<const void> map(const std::string& path, const Box& box) const override;
  std::uint64_t bytes_read() const override { return tensors_->bytes_read(); }

 private:
  struct Tensor {
    std::string name;
    Link link;
  };
  struct Entry {
    DType dtype = DType::kF32;  ///< of the tensors
    std::vector<Tensor> tensors;
  };
  void find(const std::string& path, const Leaf& leaf, const hf::Rules& rules,
            std::vector<std::string>& missing);

  std::shared_ptr<const Source> tensors_;
  Manifest manifest_;
  std::map<std::string, Entry> entries_;  ///< by path
};

}  // namespace lockstep::checkpoint
