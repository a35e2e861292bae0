// SPDX-License-Identifier: Apache-2.0
// Checks of what every transport must deliver. All members of a group call them, and each gets its number of errors.
#pragma once
#include "exec/transport/transport.hpp"

namespace dovetail::test {

// Labelled blocks of `count` elements through every collective, three rounds with the same buffers.
template <class Scalar>
int wrong_blocks(exec::Communicator& communicator, int count);

// Messages of several sizes in the order of their pair, also to itself.
int wrong_messages(exec::Communicator& communicator);

// Whether one member's wait for the others, which never come, ends when the transport is cancelled.
bool cancelling_ends_waits(exec::Transport& transport);

}  // namespace dovetail::test
