// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_syntax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/base/json/json_position.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_word(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80) != 0;
  return letter || (c >= '0' && c <= '9') || contains("_.+-", std::string_view(&c, 1));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The parser names what it expected after its last "; expected ".
std::string_view expectation(std::string_view reason) {
  struct Phrase {
    std::string_view parser, ours;
  };
  constexpr std::array phrases{
      Phrase{"string literal", "a key in double quotes"},
      Phrase{"':'", "\":\" after the key"},
      Phrase{"'}'", "\",\" or \"}\""},
      Phrase{"']'", "\",\" or \"]\""},
      Phrase{"end of input", "the end of the file"},
  };
  for (const Phrase& phrase : phrases)
    if (reason.ends_with("; expected " + std::string(phrase.parser))) return phrase.ours;
  return "a value";
}

std::size_t opening_quote(std::string_view text, std::size_t closing) {
  std::size_t quote = closing;
  while (quote > 0) {
    --quote;
    if (text[quote] != '"') continue;
    std::size_t backslashes = 0;
    while (backslashes < quote && text[quote - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 0) break;
  }
  return quote;
}

SyntaxError ends_too_early(std::string_view text, std::string_view container) {
  const std::size_t content = skip_json_space(text, 0);
  if (content >= text.size()) return {0, "the file is empty, expected a JSON object"};
  const std::size_t open = find_json(text, container, JsonPart::Value).value_or(content);
  const char opened = text[open];
  if (opened != '{' && opened != '[') return {text.size(), "the file ends too early, expected the rest of the value"};
  return {text.size(), fmt::format("the file ends too early, expected \"{}\" to close the \"{}\" of line {}",
                                   opened == '{' ? '}' : ']', opened, line_column(text, open).line)};
}

std::string explain_string(std::string_view reason, unsigned char at) {
  if (contains(reason, "UTF-8") && at < 0x80) return "incomplete UTF-8 character in a string";
  if (contains(reason, "UTF-8")) return fmt::format("invalid UTF-8 byte 0x{:02x} in a string", at);
  if (at == '\n' || at == '\r') return "string without end on this line, expected a closing double quote";
  if (contains(reason, "control character"))
    return fmt::format("control character in a string, expected it written as \\u{:04x}", at);
  if (contains(reason, "surrogate")) return "half of a \\u surrogate pair in a string, expected both halves";
  if (contains(reason, "4 hex digits")) return "incomplete \\u escape in a string, expected four hexadecimal digits";
  return "unknown escape in a string, expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u";
}

std::string explain_word(const std::string& word, std::string_view reason, std::string_view expected) {
  std::string lower = word;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const std::string_view unsigned_lower = std::string_view(lower).substr(lower.find_first_not_of("+-") % lower.size());
  if (unsigned_lower == "nan" || unsigned_lower == "inf" || unsigned_lower == "infinity")
    return in_quotes(word) + " is not a JSON number, expected a finite number";
  const bool numeric = is_digit(word[0]) || contains("+-.", word.substr(0, 1));
  const bool leading_zero = word.size() > 1 && word[0] == '0' && is_digit(word[1]);
  if (numeric && (leading_zero || contains(reason, "invalid"))) return "malformed number " + in_quotes(word);
  const std::string suggestion = expected == "a value" ? did_you_mean(word, {"true", "false", "null"}) : "";
  return fmt::format("unexpected {}{}", in_quotes(word),
                     suggestion.empty() ? fmt::format(", expected {}", expected) : suggestion);
}

// An unexpected token that ends at `last`.
SyntaxError explain_token(std::string_view text, std::size_t last, std::string_view reason) {
  const std::string_view expected = expectation(reason);
  const char c = text[last];
  if (c == '"') {
    const std::size_t open = opening_quote(text, last);
    return {open, fmt::format("unexpected string {}, expected {}", in_quotes(text.substr(open + 1, last - open - 1)),
                              expected)};
  }
  if (is_word(c)) {
    std::size_t begin = last, end = last + 1;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    while (end < text.size() && is_word(text[end])) ++end;
    return {begin, explain_word(std::string(text.substr(begin, end - begin)), reason, expected)};
  }
  if (c == '\'') return {last, "unexpected single quote, expected text in double quotes"};
  return {last, fmt::format("unexpected {}, expected {}", in_quotes(text.substr(last, 1)), expected)};
}

// Whether the parser stopped one past the number ("1.}") or literal ("nul ") that is wrong.
bool is_broken_off(std::string_view text, std::size_t last, std::string_view reason) {
  if (last == 0 || is_word(text[last]) || !is_word(text[last - 1])) return false;
  std::size_t begin = last;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  return contains(reason, "invalid number") ||
         (contains(reason, "invalid literal") && contains("tfn", text.substr(begin, 1)));
}

}  // namespace

SyntaxError explain_syntax_error(std::string_view text, std::size_t read, std::string_view reason,
                                 std::string_view container) {
  if (read > text.size() || contains(reason, "unexpected end of input")) return ends_too_early(text, container);
  const std::size_t last = read == 0 ? 0 : read - 1;
  const char at = text[last];
  if (contains(reason, "number overflow")) {
    SyntaxError error = explain_token(text, last, reason);
    error.message = "number too large, expected at most 1.797e308 in magnitude";
    return error;
  }
  if (contains(reason, "invalid comment")) return {last, "unexpected \"/\", expected a value or a // comment"};
  if (is_broken_off(text, last, reason)) return explain_token(text, last - 1, reason);
  if (contains(reason, "invalid string")) return {last, explain_string(reason, static_cast<unsigned char>(at))};
  const std::size_t before = text.find_last_not_of(" \t\r\n", last == 0 ? 0 : last - 1);
  const bool closes = at == '}' || at == ']';
  if (closes && before != std::string_view::npos && before < last && text[before] == ',')
    return {before, fmt::format("trailing comma before \"{}\", expected another entry or none", at)};
  return explain_token(text, last, reason);
}

}  // namespace dovetail
