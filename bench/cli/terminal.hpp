// SPDX-License-Identifier: Apache-2.0
// Output for a person at a terminal besides the result: colours, and the progress of long work on stderr.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace dovetail::bench {

enum class Colour { Auto, Always, Never };

// Auto: when standard output is a terminal that has colours and NO_COLOR (no-color.org) is not set.
bool use_colour(Colour colour);

enum class Talk { Quiet, Normal, Verbose };

// On a terminal one line that is rewritten: done, total, rate, time left, and of one thing its share; gone at the end.
// Elsewhere nothing, or a line per tenth when verbose.
class ProgressLine {
 public:
  ProgressLine(std::string what, int total, Talk talk);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void begin(std::string_view item, double share = 0);  // what is worked on now, and how much of this one is done
  void done();                                          // one more

 private:
  void show(std::string_view item, double share);

  std::string what_;
  int total_, done_ = 0, tenth_ = 0;
  bool rewrite_, lines_;
  std::string shown_;
  std::chrono::steady_clock::time_point start_, shown_at_;
};

}  // namespace dovetail::bench
