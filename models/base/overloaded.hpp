// SPDX-License-Identifier: Apache-2.0
// One visitor of a std::variant made of a function for each alternative.
#pragma once

namespace dovetail {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace dovetail
