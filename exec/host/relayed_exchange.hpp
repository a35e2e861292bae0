// SPDX-License-Identifier: Apache-2.0
// An all-to-all that sends a token once to each node (plan.all_to_all node_deduplicated;
// models/network/token_copies.hpp says which way its rows go).
#pragma once
#include "exec/host/op_context.hpp"

namespace dovetail::exec {

// To the experts: each token's row to its experts' places, and in row_tokens which token it is. Back: of each node the
// sum of a token's rows, at the place of its first choice there. Rows that nobody sends are 0.
template <class Scalar>
void exchange_relayed(OpContext<Scalar>& context);

}  // namespace dovetail::exec
