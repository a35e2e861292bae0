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

void ProgressLine::begin(std::string_view item) {
  if (rewrite_) show(item);
}

void ProgressLine::done() {
  ++done_;
  if (!lines_) return;
  const int tenth = 10 * done_ / total_;
  if (tenth == tenth_) return;
  tenth_ = tenth;
  say(fmt::format("dovetail: {} {}/{}\n", what_, done_, total_));
}

void ProgressLine::show(std::string_view item) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string rate;
  if (done_ > 0 && seconds > 1)
    rate = fmt::format(", {:.3g}/s, {:.0f} s left", done_ / seconds, seconds / done_ * (total_ - done_));
  say(fmt::format("\r\033[K{} {}/{}{}: {}", what_, done_, total_, rate, plain_text(item)));
}

}  // namespace dovetail::bench
