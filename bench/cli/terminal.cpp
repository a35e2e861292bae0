// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "models/base/plain_text.hpp"
#include "models/base/streams.hpp"

namespace dovetail::bench {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_terminal(int descriptor) {
  return ::isatty(descriptor) == 1 && environment("TERM") != "dumb";
}

}  // namespace

bool use_colour(Colour colour) {
  if (colour != Colour::Auto) return colour == Colour::Always;
  return environment("NO_COLOR").empty() && is_terminal(STDOUT_FILENO);
}

ProgressLine::ProgressLine(std::string what, int total, Talk talk)
    : what_(std::move(what)),
      total_(total),
      rewrite_(talk != Talk::Quiet && is_terminal(STDERR_FILENO)),
      lines_(talk == Talk::Verbose && !rewrite_ && total > 1),
      start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (rewrite_) say("\r\033[K");
}

// An item with a share may be told of thousands of times a second.
void ProgressLine::begin(std::string_view item, double share) {
  constexpr auto pause = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  if (!rewrite_ || (item == shown_ && now - shown_at_ < pause)) return;
  shown_ = item;
  shown_at_ = now;
  show(item, share);
}

void ProgressLine::done() {
  ++done_;
  if (!lines_) return;
  const int tenth = 10 * done_ / total_;
  if (tenth == tenth_) return;
  tenth_ = tenth;
  say(fmt::format("dovetail: {} {}/{}\n", what_, done_, total_));
}

void ProgressLine::show(std::string_view item, double share) {
  const double seconds = std::chrono::duration<double>(shown_at_ - start_).count(), done = done_ + share;
  const bool known = done > 0 && seconds > 1;
  std::string so_far;
  if (total_ > 1) so_far = fmt::format(" {}/{}", done_, total_);
  if (total_ == 1 && share > 0) so_far = fmt::format(" {:.0f} %", 100 * share);
  if (known && total_ > 1) so_far += fmt::format(", {:.3g}/s", done / seconds);
  if (known) so_far += fmt::format(", {:.0f} s left", seconds / done * (total_ - done));
  say(fmt::format("\r\033[K{}{}: {}", what_, so_far, plain_text(item)));
}

}  // namespace dovetail::bench
