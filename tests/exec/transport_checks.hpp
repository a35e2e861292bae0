// What every transport must deliver: called by all members of a group, each returns how much of its own was wrong.
#pragma once
#include "exec/transport/transport.hpp"

namespace dovetail::test {

// Labelled blocks of `count` elements through every collective, three rounds with the same buffers.
template <class Scalar>
int wrong_blocks(exec::Communicator& communicator, int count);

// Messages of several sizes in the order of their pair, also to itself.
int wrong_messages(exec::Communicator& communicator);

}  // namespace dovetail::test
