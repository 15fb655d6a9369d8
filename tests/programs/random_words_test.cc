// SPDX-License-Identifier: Apache-2.0
// Random words on CPUs are computed by a call, but few words within a loop by operations. Both give the same.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/random/random.h"
#include "lockstep/threefry/threefry.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(RandomWords, InALoop_EqualThoseOutside) {
  const Array keys = random::split(random::key(3), 3).data();
  const std::string call(threefry::kThreefryTarget);
  for (const std::int64_t count : {1, 7, 255, 256, 3000}) {
    SCOPED_TRACE(fmt::format("{} words", count));
    const auto in_loop = jit([count](const Array& keys) {
      return scan(
                 [count](const Array& state, const Array& key) {
                   return std::pair(state, random::bits(random::Key(key), {count}));
                 },
                 zeros({}), keys)
          .second;
    });
    EXPECT_EQ(in_loop.lower(keys).as_text().find(call) != std::string::npos, count >= 256);
    const auto outside = jit([count](const Array& keys) {
      std::vector<Array> all;
      for (int i = 0; i < 3; ++i) all.push_back(random::bits(random::Key(keys[i]), {count}));
      return stack(all);
    });
    EXPECT_THAT(outside.lower(keys).as_text(), HasSubstr(call));
    EXPECT_EQ(in_loop(keys).to_host<std::uint32_t>(), outside(keys).to_host<std::uint32_t>());
  }
}

TEST(RandomWords, UnderVmapOverKeys_EqualThoseOfEachKey) {
  const random::Key keys = random::split(random::key(5), 40);
  const auto of = [](const Array& key) { return random::bits(random::fold_in(random::Key(key), 3), {5}); };
  const Array together = jit(vmap(of))(keys.data());
  for (int i = 0; i < 40; i += 13) {
    EXPECT_EQ(together[i].to_host<std::uint32_t>(), of(keys.data()[i]).to_host<std::uint32_t>());
  }
}

}  // namespace
}  // namespace lockstep
