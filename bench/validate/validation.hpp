// SPDX-License-Identifier: Apache-2.0
// Calibrates on some sizes, predicts others, and measures every plan that planners consider there.
#pragma once
#include <functional>
#include <optional>

#include "bench/validate/validation_grid.hpp"
#include "bench/validate/validation_settings.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

// Runs on this machine's CPUs or its first GPU, as the grid says, with emulated links. Picks up where a journal of the
// same work ends, and removes it after `keep` was given the whole result, whose provenance is for `keep` to say. A
// partial result has the plans that were measured at least once. Returns how far the measurements got where none was,
// and `keep` was given nothing.
std::optional<Progression> validate_grid(const ValidationGrid& grid, const ValidationSettings& settings,
                                         FilesRead& files, const std::function<void(Validation&)>& keep);

}  // namespace dovetail::bench
