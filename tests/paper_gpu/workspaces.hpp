// SPDX-License-Identifier: Apache-2.0
// Workspaces of products: two that may run at the same time must not have the same one.
#pragma once
#include "tests/paper_gpu/streams.hpp"

namespace paper {

// The last work of the stream uses it. A problem: so does the last work of another stream, and neither waits for the
// other.
void use_workspace(const void* workspace, const Stream& stream);

}  // namespace paper
