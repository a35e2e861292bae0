// SPDX-License-Identifier: Apache-2.0
// The place at which the user wrote a knob of a plan, for complaints about it.
#pragma once
#include <string>

#include "bench/pipeline/question.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {

// The error at that place, if it is about a knob ("/plan/scope") and has no place yet: in --set, the experiment file or
// the file of the system or plan; by the system's name where it is a shipped one.
InputError at_its_place(const InputError& error, const Question& question, const Candidate& candidate);

}  // namespace dovetail::bench
