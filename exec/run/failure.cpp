// SPDX-License-Identifier: Apache-2.0
#include "exec/run/failure.hpp"

#include <fmt/format.h>

namespace dovetail::exec {

std::exception_ptr named(const std::exception_ptr& cause, const std::string& op, int rank) {
  try {
    std::rethrow_exception(cause);
  } catch (const InternalError& error) {
    return std::make_exception_ptr(InternalError(fmt::format("{}, rank {}: {}", op, rank, error.what())));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(DeviceError(op, error.what(), 0, rank));
  } catch (...) {
    return std::make_exception_ptr(DeviceError(op, "unknown failure", 0, rank));
  }
}

DeviceError no_thread(const std::system_error& error, const std::string& which) {
  return {"a thread", fmt::format("{}, {}", error.code().message(), which), error.code().value()};
}

}  // namespace dovetail::exec
