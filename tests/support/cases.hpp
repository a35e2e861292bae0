// SPDX-License-Identifier: Apache-2.0
// How many random instances a test tries.
#pragma once
#include <algorithm>
#include <cstdlib>

namespace dovetail::test {

// DOVETAIL_CASES, else `usual`; a tenth of those where a sanitizer makes each take 10 times as long.
inline int cases(int usual) {
  const char* wanted = std::getenv("DOVETAIL_CASES");
  if (wanted != nullptr) return std::atoi(wanted);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::max(usual / 10, 1);
#else
  return usual;
#endif
}

}  // namespace dovetail::test
