// SPDX-License-Identifier: Apache-2.0
#include "planners/search/frontier.hpp"

#include <algorithm>

namespace dovetail::planners {

Candidate Frontier::pop() {
  const Candidate top = queue_.top().candidate;
  queue_.pop();
  return top;
}

void Frontier::leave_out(const Candidate& candidate) {
  unexplored_ = std::min(unexplored_, candidate.bound);
}

void Frontier::leave_out_rest() {
  while (!empty()) leave_out(pop());
}

}  // namespace dovetail::planners
