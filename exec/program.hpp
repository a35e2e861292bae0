// The program dovetail-exec: a schedule file in, the timeline of really executing it out.
#pragma once
#include <string>
#include <vector>

namespace dovetail::exec {

// Exit codes: 0 done; 1 numerics differ from the reference, or a bug; 2 wrong usage or input; 4 a device or library
// failed. Messages go to standard error.
int run_program(const std::vector<std::string>& arguments);

}  // namespace dovetail::exec
