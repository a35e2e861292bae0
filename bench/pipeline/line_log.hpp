// SPDX-License-Identifier: Apache-2.0
// A file that finished work is added to line by line while it goes on. The first line says what work it is.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/base/descriptor.hpp"

namespace dovetail::bench {

class LineLog {
 public:
  // Opens or makes the file and changes nothing in it. Throws InputError for a symbolic link, a pipe and the like.
  explicit LineLog(std::string path);
  ~LineLog();  // removes the file where begin() was called and nothing stands behind the first line
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // The first line that is there, without its end. None: the file is new, or a crash cut off `first` itself.
  std::optional<std::string> first_line(std::string_view first) const;
  // The whole lines behind the first one; a last line that a crash cut off counts as never written.
  std::string rest() const;

  // From here on the file is ours. Its first `whole` bytes stay; if that is 0, it begins with the line `first`. All
  // that add() wrote outlives this process. If the machine fails, at most the lines added in the last `sync` are lost.
  void begin(std::string_view first, std::int64_t whole, std::chrono::milliseconds sync);
  void add(std::string_view lines);
  void remove();  // once the work is kept elsewhere

 private:
  std::string read(std::int64_t from, std::int64_t most) const;

  std::string path_;
  Descriptor file_;
  bool ours_ = false, empty_ = true;
  std::chrono::milliseconds sync_{};
  std::chrono::steady_clock::time_point synced_;
};

}  // namespace dovetail::bench
