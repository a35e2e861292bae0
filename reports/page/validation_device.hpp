// SPDX-License-Identifier: Apache-2.0
// Sections of a validation's page: what its errors come from, ways to restore, and what was measured on the device.
#pragma once
#include <iosfwd>

#include "models/results/validation.hpp"

namespace dovetail::reports {

void write_labels(std::ostream& out, const DeviceStudy& device);  // nothing where there are none
void write_goals(std::ostream& out, const Validation& validation);
void write_restores(std::ostream& out, const Validation& validation);  // nothing where no plans differ in that alone
void write_device(std::ostream& out, const DeviceStudy& device);       // nothing of what was not measured

}  // namespace dovetail::reports
