// SPDX-License-Identifier: Apache-2.0
// Approved outputs in tests/golden/. Run the tests with DOVETAIL_UPDATE_GOLDEN=1 to approve what they produce
// now, then read the difference in git.
#pragma once
#include <filesystem>
#include <string>

namespace dovetail::test {

std::filesystem::path golden_file(const std::string& name);
bool approves_now();  // whether what is produced is approved

// Empty when `text` is the approved one, else what differs first: CHECK(golden_difference("reports/x.txt", text) ==
// "").
std::string golden_difference(const std::string& name, const std::string& text);

}  // namespace dovetail::test
