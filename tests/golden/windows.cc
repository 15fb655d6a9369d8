// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

void add_windows(Functions& all) {
  all["nn::conv_general_dilated"] = [](const Arrays& a) {
    return Arrays{nn::conv_general_dilated(a[0], a[1], {.window_strides = {2, 1}, .padding = "SAME"})};
  };
  all["nn::conv_general_dilated(dilated)"] = [](const Arrays& a) {
    return Arrays{nn::conv_general_dilated(
        a[0], a[1],
        {.window_strides = {1, 1}, .padding = nn::ConvPadding({{2, 1}, {0, 1}}), .rhs_dilation = {2, 1}})};
  };
  all["nn::conv_general_dilated(transposed)"] = [](const Arrays& a) {
    return Arrays{nn::conv_general_dilated(a[0], a[1], {.lhs_dilation = {2, 2}})};
  };
  all["nn::conv_general_dilated(groups)"] = [](const Arrays& a) {
    return Arrays{nn::conv_general_dilated(a[0], a[1], {.window_strides = {1, 2}, .feature_group_count = 2})};
  };
  all["nn::conv"] = [](const Arrays& a) { return Arrays{nn::conv(a[0], a[1])}; };
  all["nn::conv(one dimension)"] = [](const Arrays& a) {
    return Arrays{nn::conv(a[0], a[1], {.window_strides = {2}, .padding = "SAME"})};
  };
  all["nn::max_pool"] = [](const Arrays& a) {
    return Arrays{nn::max_pool(a[0], {2, 2}, {.strides = {1, 2}})};
  };
  all["nn::min_pool"] = [](const Arrays& a) {
    return Arrays{nn::min_pool(a[0], {2, 2}, {.strides = {1, 2}, .padding = "SAME"})};
  };
  all["nn::avg_pool"] = [](const Arrays& a) {
    return Arrays{nn::avg_pool(a[0], {2, 2}, {.strides = {1, 2}})};
  };
  all["nn::embedding"] = [](const Arrays& a) { return Arrays{nn::embedding(a[0], a[1])}; };
}

}  // namespace lockstep::golden
