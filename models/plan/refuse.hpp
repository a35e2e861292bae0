// SPDX-License-Identifier: Apache-2.0
// How a plan is refused: with the place of the knob in the user's input.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "models/base/errors.hpp"

namespace dovetail {

[[noreturn]] inline void refuse(std::string_view knob, const std::string& message) {
  throw InputError(Location{"", 0, 0, fmt::format("/plan/{}", knob)}, message);
}

}  // namespace dovetail
