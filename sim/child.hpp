// A timeline from a child process, for what a process can do only once.
#pragma once
#include <functional>

#include "models/time/timeline.hpp"

namespace dovetail::sim {

// What `compute` returns there, or the InputError that it throws. Throws DeviceError where the child ends otherwise.
Timeline in_child(const std::function<Timeline()>& compute);

}  // namespace dovetail::sim
