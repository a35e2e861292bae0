// SPDX-License-Identifier: Apache-2.0
// The values that the reference's attention leaves for its backward pass.
#pragma once
#include "exec/reference/naive.hpp"

namespace dovetail::exec::naive {

struct AttentionPass {
  Values query, key, value, context;  // queries and keys as the scores take them: normed and turned
  // Before the norms of queries and keys, or those of low ranks; may be empty where there are none.
  Values query_before_norm, key_before_norm;
  Values query_rank, key_value_rank;  // low ranks of latent attention, as the projections up read them
};

}  // namespace dovetail::exec::naive
