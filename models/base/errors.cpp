#include "models/base/errors.hpp"

#include <fmt/format.h>

namespace dovetail {
namespace {

// File names and keys are the user's: a line break in one must not break the one-line message.
std::string on_one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return text;
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
