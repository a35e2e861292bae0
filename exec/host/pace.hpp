// SPDX-License-Identifier: Apache-2.0
// How fast this machine computes now beside how fast it did lately. Other work on a shared machine slows it for a
// while, and times from such a while say little about what was timed.
#pragma once
#include <deque>
#include <functional>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail::exec {

// The time of a product of fixed size in fp32 on one thread: the median of five, about 10 ms together.
class ReferenceProduct {
 public:
  ReferenceProduct();
  Seconds operator()();

 private:
  std::vector<float> a_, b_, c_;
};

class Pace {
 public:
  using Reference = std::function<Seconds()>;

  // Takes some first readings of `reference`: half a second with ReferenceProduct.
  explicit Pace(Reference reference);

  // One more reading over the usual one, which is the lower quartile of the last 200: 1 as usual, 2 at half speed.
  // Slowness that lasts becomes usual.
  double slowdown();

 private:
  Reference reference_;
  std::deque<Seconds> readings_;
};

}  // namespace dovetail::exec
