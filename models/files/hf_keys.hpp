// SPDX-License-Identifier: Apache-2.0
// Keys of a checkpoint's config.json that say nothing about the work of a training step.
#pragma once
#include <string_view>

namespace dovetail {

// Words, positions, generation, starting values, losses, number formats and libraries. A key that is neither of these
// nor read may stand for a part of the model that import does not know.
bool says_no_work(std::string_view key);

}  // namespace dovetail
