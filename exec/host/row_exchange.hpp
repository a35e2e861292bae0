// SPDX-License-Identifier: Apache-2.0
// Exchanges of rows that are as many as their counts say (routed messages).
#pragma once
#include <cstdint>
#include <vector>

#include "exec/host/op_context.hpp"

namespace dovetail::exec {

// Does the op move rows by counts, which it reads then?
bool moves_counted_rows(const OpRoles& op);

// Moves them: a linear all-to-all, an all-gather, or a reduce-scatter in the order of the group. Each member sends the
// rows that are taken of each block, packed. Rows of the result that nobody sends are 0.
template <class Scalar>
void exchange_rows(OpContext<Scalar>& context);

// By block, how many of the capacity rows `rows` are taken.
template <class Scalar>
std::vector<std::int64_t> taken_rows(const Scalar* counts, std::int64_t blocks, RowRange rows);

}  // namespace dovetail::exec
