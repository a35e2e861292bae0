// SPDX-License-Identifier: Apache-2.0
// Keeps two programs from working on one output or one state at the same time.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "bench/cli/interrupt.hpp"
#include "models/base/descriptor.hpp"

namespace dovetail::bench {

// While it lives this process has the lock on the file that `path` names, which is an empty "<path>.lock" beside it.
// The lock goes with the process, however it ends, so that a lock file which a killed one leaves stops nobody; forked
// children do not have it. A process holds one for a path at a time.
class LockFile {
 public:
  // Waits at most so long for another process. Throws InputError that names it; also where something else is called
  // like the lock file, which then is left as it is.
  explicit LockFile(const std::string& path, std::chrono::milliseconds patience = {});
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  bool take();  // false: another process has it
  void refuse() const;

  std::string path_, lock_;
  Descriptor file_;  // none: this file system has no locks, which was said
  std::optional<RemovedWhenStopped> removed_;
};

}  // namespace dovetail::bench
