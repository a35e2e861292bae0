// SPDX-License-Identifier: Apache-2.0
// A failure in an op, with the op and the rank.
#pragma once
#include <exception>
#include <string>
#include <system_error>

#include "models/base/errors.hpp"

namespace dovetail::exec {

// An InternalError or, of all other causes, a DeviceError.
std::exception_ptr named(const std::exception_ptr& cause, const std::string& op, int rank);

// The system has no room for another thread; `which` says what it was for and what helps.
DeviceError no_thread(const std::system_error& error, const std::string& which);

}  // namespace dovetail::exec
