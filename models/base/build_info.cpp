// SPDX-License-Identifier: Apache-2.0
#include "models/base/build_info.hpp"

// Written at every build, and included here only: a new commit recompiles this one file.
#include "models/base/git_revision.hpp"

namespace dovetail {

BuildInfo build_info() {
  return {DOVETAIL_VERSION, DOVETAIL_GIT_REVISION, DOVETAIL_GIT_DIRTY, DOVETAIL_COMPILER, DOVETAIL_BUILD_TYPE};
}

}  // namespace dovetail
