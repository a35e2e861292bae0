// SPDX-License-Identifier: Apache-2.0
// Writes a file all or nothing: into a temporary beside it that takes its name at the end. Not for appending.
// A process killed in between never leaves half a file. Its temporary has no name, and goes with it; where the file
// system needs one (".dovetail.*.tmp"), the next file written into that folder removes it.
#pragma once
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "models/base/descriptor.hpp"

namespace dovetail {

// Flush waits until the bytes are on the disk; for results that took hours.
enum class Durability { Cached, Flush };

// Errors: InputError where the path is at fault ("cannot write X: Permission denied"), DeviceError where writing itself
// fails (disk full). "-" is standard output; devices and pipes are written directly, symbolic links are
// followed, to files that do not exist yet too, and the permissions of a file that is replaced are kept.
void write_file(const std::filesystem::path& path, std::string_view content, Durability = Durability::Cached);

// Writes the same file piece by piece. Without finish() the path keeps what it had and the temporary is removed.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view content);
  void finish(Durability durability = Durability::Cached);  // once, after the last write

 private:
  void open_temporary();
  void take_name();
  void discard() noexcept;
  bool direct() const { return !kept_.open(); }

  std::filesystem::path shown_, target_, temporary_;  // temporary_ is empty while it has no name
  std::FILE* file_ = nullptr;
  Descriptor kept_;  // of the temporary, locked as long as it is ours; none when writing directly
};

}  // namespace dovetail
