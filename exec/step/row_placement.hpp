// SPDX-License-Identifier: Apache-2.0
// The places of each expert's capacity rows among the blocks of a chunk, on one rank.
#pragma once
#include <cstdint>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// Blocks are (peer, position): each exchanging rank's experts in order, without the shadowed ones. An expert that is
// repeated has a block of each of its `repeats` peers.
struct RowPlacement {
  struct Place {
    std::int64_t owner = 0;      // expert-parallel rank
    std::int64_t position = -1;  // among the dispatched experts there; -1: shadowed
  };
  std::int64_t peers = 1, own = 0;  // ranks that exchange rows; this one's place among them
  std::int64_t repeats = 1;
  std::int64_t positions = 0;            // blocks of each peer; some peers may leave the last ones unused
  std::vector<Place> places;             // by expert; empty: block e of one peer is expert e's
  std::vector<std::int64_t> dispatched;  // this rank's own experts, by position

  // Calls visit(block) for the blocks of an expert that a chunk for the peers at these offsets (empty: all) has.
  template <class Visit>
  void for_each_block(std::int64_t expert, RowRange offsets, Visit visit) const {
    if (places.empty()) return visit(expert);
    const Place& place = places[static_cast<std::size_t>(expert)];
    if (place.position < 0) return;
    for (std::int64_t i = 0; i < repeats; ++i) {
      const std::int64_t peer = place.owner * repeats + i, offset = (peer - own + peers) % peers;
      if (offsets.size() == 0)
        visit(peer * positions + place.position);
      else if (offsets.first <= offset && offset < offsets.last)
        visit((offset - offsets.first) * positions + place.position);
    }
  }
};

RowPlacement row_placement(const Experiment& experiment, const Schedule& schedule, int rank);

}  // namespace dovetail::exec
