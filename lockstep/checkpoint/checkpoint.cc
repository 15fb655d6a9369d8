// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpoint.h"

#include "lockstep/base/fail.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/restoring.h"
#include "lockstep/checkpoint/saving.h"

namespace lockstep::checkpoint {

void save_tree(const std::string& url, tree::TreeRef tree, const SaveOptions& options) {
  check_url(url);
  SavingOptions saving;
  saving.timeout = options.timeout;
  Saving(Job::current(), url, contents_of(tree), saving).run();
}

RestoreReport restore_tree(const std::string& url, tree::TreeRef tree, const RestoreOptions& options) {
  check_url(url);
  Contents contents = contents_of(tree);
  const RestoreReport read = restore_contents(Job::current(), url, contents, options);
  put_contents(tree, contents);
  return read;
}

void HostArray::check_dtype(DType asked) const {
  if (asked == dtype || (dtype == DType::kBool && asked == DType::kU8)) return;
  fail<DTypeError>("[checkpoint] the elements are {}, and cannot be read as {}", name(dtype), name(asked));
}

Numbers restore_numbers(const std::string& url, const std::function<bool(const std::string&)>& wanted) {
  check_url(url);
  const auto opened = Opened::open(url);
  Numbers numbers;
  numbers.values = opened->manifest().values;
  std::vector<Wanted> all;
  for (const auto& [path, info] : opened->manifest().arrays) {
    if (wanted && !wanted(path)) continue;
    HostArray& array = numbers.arrays[path];
    array.dtype = info.dtype.value_or(DType::kU8);
    array.shape = info.shape;
    opened->check_files(path, whole(info.shape));
    array.bytes.resize(bytes_of(info));
    all.push_back({path, whole(info.shape), array.bytes.data()});
  }
  opened->read(all);
  return numbers;
}

}  // namespace lockstep::checkpoint
