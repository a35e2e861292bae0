// SPDX-License-Identifier: Apache-2.0
// The interference of a calibration, in files.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/price/interference.hpp"

namespace dovetail {

class JsonReader;

// Throws InputError at its place for a kind named twice, a second entry for the same, and speeds that would make
// taking turns faster.
std::vector<Interference> read_interference(const JsonReader& list);

// All but its provenance, which writers put in their own ways.
nlohmann::ordered_json to_json(const Interference& entry);

}  // namespace dovetail
