// SPDX-License-Identifier: Apache-2.0
// Fingerprints of input files, for provenance.
#pragma once
#include <string>
#include <string_view>

namespace dovetail {

// SHA-256 in lower-case hexadecimal; empty in a build without OpenSSL.
std::string sha256(std::string_view bytes);

}  // namespace dovetail
