// SPDX-License-Identifier: Apache-2.0
// How two descriptions of work differ, for the message that refuses to mix them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dovetail::bench {

// "rounds is 5 there and 1 here, seed is 1 there and 2 here": the first three keys of objects that differ, by their
// path; values only where they are short. Empty: nothing does.
std::string differences(const nlohmann::ordered_json& there, const nlohmann::ordered_json& here);

}  // namespace dovetail::bench
