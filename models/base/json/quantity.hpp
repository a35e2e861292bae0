// SPDX-License-Identifier: Apache-2.0
// Reads and writes quantities with their units: "200 Gb/s", "12.5 us", "40 GiB", "176.8 fs/flop".
// The types themselves are in units.hpp.
#pragma once
#include <string>
#include <string_view>

#include "models/base/units.hpp"

namespace dovetail {

// A finite number, optional spaces and a unit; throws InputError (without a place) when the text is anything else.
//   time      s with f p n u m                       "12.5 us"  (also the micro sign)
//   data      B bytes, b bits = B/8; k M G T P or Ki Mi Gi Ti Pi    "40 GiB"
//   work      flop or FLOP with k M G T P            "2 TFLOP"
//   rates and their inverses as a/b of these         "200 Gb/s", "312 TFLOP/s", "0.23 ps/B", "176.8 fs/flop"
// Instantiated for the seven named types of units.hpp.
template <class Q>
Q parse_quantity(std::string_view text);

// Says in a message what parse_quantity<Q> accepts: `a time with unit, such as "12.5 us"`.
template <class Q>
std::string expected_quantity();

// Four significant digits with the prefix that keeps the number readable; parse_quantity reads it back.
// Bytes use binary prefixes (GiB), everything else decimal ones.
std::string format_quantity(Seconds);
std::string format_quantity(Bytes);
std::string format_quantity(Flops);
std::string format_quantity(BytesPerSecond);
std::string format_quantity(FlopsPerSecond);
std::string format_quantity(SecondsPerByte);
std::string format_quantity(SecondsPerFlop);

}  // namespace dovetail
