// SPDX-License-Identifier: Apache-2.0
// The time that something takes of a resource.
#pragma once
#include "models/base/units.hpp"

namespace dovetail {

struct ResourceTime {
  Seconds fixed;  // latency and messages: chunks do not share it
  Seconds busy;   // of the resource
};

}  // namespace dovetail
