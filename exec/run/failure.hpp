// What failed in an op, with the op and the rank.
#pragma once
#include <exception>
#include <string>

namespace dovetail::exec {

// An InternalError or, of all other causes, a DeviceError.
std::exception_ptr named(const std::exception_ptr& cause, const std::string& op, int rank);

}  // namespace dovetail::exec
