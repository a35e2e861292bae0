// SPDX-License-Identifier: Apache-2.0
// Standard streams as a program was started with them: any of them may be closed or full.
#pragma once
#include <string_view>

namespace dovetail {

// First thing in main(). A closed stream is given a number that no output file can take then; what is printed to a
// closed standard output fails later. A file that grows over its limit becomes an error of the writer instead of a
// signal.
void prepare_streams();

// Last thing after printing: throws DeviceError where anything that was printed is lost.
void finish_standard_output();

// Text for standard output, as it is. finish_standard_output() tells whether it was written.
void show(std::string_view text) noexcept;

// A message for standard error, as it is. Never throws: where nobody can read it, the exit code still speaks.
void say(std::string_view message) noexcept;

}  // namespace dovetail
