// SPDX-License-Identifier: Apache-2.0
#include "models/base/errors.hpp"

#include <fmt/format.h>

#include "models/base/plain_text.hpp"

namespace dovetail {

std::string plain_text(std::string_view text, char by) {
  std::string plain(text);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto c = static_cast<unsigned char>(plain[i]);
    const bool second = i > 0 && text[i - 1] == '\xC2' && c >= 0x80 && c < 0xA0;  // U+0080 to U+009F
    if (second) plain[i - 1] = by;
    if (second || c < 0x20 || c == 0x7F) plain[i] = by;
  }
  return plain;
}

namespace {

// File names and keys are the user's: a line break in one must not break the one-line message, nor its length bury it,
// nor a terminal obey it.
std::string on_one_line(std::string_view text) {
  constexpr std::size_t longest = 2000;
  std::string line = plain_text(text);
  if (line.size() <= longest) return line;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // inside of a character
  return line.substr(0, end) + "...";
}

std::string located(const Location& where, std::string_view message) {
  std::string text;
  if (!where.file.empty()) text += where.file + ":";
  if (where.line > 0) text += fmt::format("{}:", where.line);
  if (where.column > 0) text += fmt::format("{}:", where.column);
  if (!text.empty()) text += " ";
  if (!where.pointer.empty()) text += where.pointer + ": ";
  return on_one_line(text + std::string(message));
}

}  // namespace

InputError::InputError(const Location& where, std::string_view message)
    : std::runtime_error(located(where, message)), where_(where), message_(message) {}

DeviceError::DeviceError(std::string_view call, std::string_view reason, int code, int rank)
    : std::runtime_error(fmt::format("{}: {}{}{}", call, reason, code != 0 ? fmt::format(" ({})", code) : "",
                                     rank >= 0 ? fmt::format(", rank {}", rank) : "")) {}

void check(bool condition, std::string_view what, std::source_location where) {
  if (!condition) throw InternalError(fmt::format("{}:{}: {}", where.file_name(), where.line(), what));
}

}  // namespace dovetail
