// SPDX-License-Identifier: Apache-2.0
// Writes a calibration as the input file that load_calibration reads.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dovetail {

struct Calibration;

// One line for each cost. `measurement`: how it was measured, by the schema; an empty object is left out. Numbers have
// nine digits.
std::string to_calibration_file(const Calibration& calibration, const nlohmann::ordered_json& measurement);

}  // namespace dovetail
