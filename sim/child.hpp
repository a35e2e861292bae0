// SPDX-License-Identifier: Apache-2.0
// A timeline from a child process, for what a process can do only once.
#pragma once
#include <functional>

#include "models/base/errors.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::sim {

// The child gave up or crashed: what() says how, with what it wrote to standard error.
class ChildEnded : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// Returns what `compute` returns there, or throws the InputError or InternalError that it throws. Throws ChildEnded
// where the child ends otherwise. The child dies with its parent, and what it writes to standard error follows where it
// succeeds.
Timeline in_child(const std::function<Timeline()>& compute);

}  // namespace dovetail::sim
