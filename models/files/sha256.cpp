// SPDX-License-Identifier: Apache-2.0
#include "models/files/sha256.hpp"

#include "models/base/build_info.hpp"

#if DOVETAIL_HAS_OPENSSL
#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "models/base/errors.hpp"
#endif

namespace dovetail {

#if DOVETAIL_HAS_OPENSSL
std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1, "EVP_Digest");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}
#else
std::string sha256(std::string_view) {
  return "";
}
#endif

}  // namespace dovetail
