// SPDX-License-Identifier: Apache-2.0
// How the kinds of an entry of interference share the contention resource that stands for it.
#pragma once
#include <vector>

#include "models/price/interference.hpp"

namespace dovetail {

struct ContentionShare {
  InterferenceClass kind = InterferenceClass::Compute;
  int flows = 1;      // shares of the resource while all kinds of the entry demand it
  double demand = 1;  // seconds of the resource for each second at full speed
};

// By a, b and c. With shares of w out of W, a kind that demands w / (W speed) runs at `speed` while all do. Shares are
// small whole numbers, since flows of one op cost time to simulate:
//   of two kinds, the first that hold neither below its speed: w / W <= speed;
//   of three, those nearest to the ratio of the speeds. Then all demand the same for a second at full speed, and two of
//   them beside each other find the resource too small only if they keep more than the three together.
// If no small shares do so, the nearest are taken, and the kinds that they favour keep that much more of their speed.
// Throws InputError if the speeds add up to less than 1.
std::vector<ContentionShare> contention_shares(const Interference& entry);

}  // namespace dovetail
