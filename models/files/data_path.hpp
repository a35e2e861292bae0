// SPDX-License-Identifier: Apache-2.0
// The place of the data that ships with Dovetail (clusters, models, systems, schemas...).
#pragma once
#include <filesystem>

namespace dovetail {

// The first that exists of: $DOVETAIL_DATA (an error when set and missing), share/dovetail/data beside
// the program's bin/, the source tree's data/, the installation's data directory. Throws InputError.
std::filesystem::path data_directory();

}  // namespace dovetail
