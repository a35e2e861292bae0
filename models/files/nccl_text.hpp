// SPDX-License-Identifier: Apache-2.0
// The tables that nccl-tests print.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/files/nccl_run.hpp"

namespace dovetail {

// Every test in the text, as read_nccl_tests() says; `file` is its name in messages.
std::vector<NcclTestsRun> read_nccl_text(const std::string& file, std::string_view text);

}  // namespace dovetail
