// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/hf.h"

#include <memory>
#include <utility>

#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/restoring.h"
#include "lockstep/checkpoint/ruled_source.h"

namespace lockstep::checkpoint::hf {

RestoreReport restore_tree(const std::string& url, tree::TreeRef tree, const Rules& rules,
                           const RestoreOptions& options) {
  check_url(url);
  Contents contents = contents_of(tree);
  const RestoreReport read =
      restore_contents(Job::current(), url, contents, options, [&](std::shared_ptr<const Source> opened) {
        return std::make_shared<RuledSource>(std::move(opened), contents, rules, options);
      });
  put_contents(tree, contents);
  return read;
}

}  // namespace lockstep::checkpoint::hf
