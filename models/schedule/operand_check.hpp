// SPDX-License-Identifier: Apache-2.0
// The operands of an op against those of its kind.
#pragma once
#include <optional>
#include <string>

#include "models/schedule/schedule.hpp"

namespace dovetail {

// Says by their names how the operands of an op differ from those of its kind, in kinds, number, order or size.
// Nothing: they fit. The tensors and the lists of the op must exist.
std::optional<std::string> operand_fault(const Schedule& schedule, const Op& op);

}  // namespace dovetail
