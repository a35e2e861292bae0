// SPDX-License-Identifier: Apache-2.0
// The rules of the interference of a calibration.
#pragma once
#include <vector>

#include "models/price/interference.hpp"

namespace dovetail {

class JsonReader;

// Throws InputError at its place in the list, which all were read from, for a kind named twice, a second entry for the
// same, and speeds that would make taking turns faster.
void require_interference(const JsonReader& list, const std::vector<Interference>& all);

}  // namespace dovetail
