// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/shell_words.hpp"

#include <algorithm>

#include "bench/imports/given_run.hpp"
#include "bench/imports/shell_arithmetic.hpp"

namespace dovetail::bench {
namespace {

constexpr std::size_t longest_text = 1'000'000;
constexpr int deepest_expansion = 50;
constexpr std::string_view blanks = " \t\r", operators = ";|&()<>\n";

bool begins_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool in_variable(char c) {
  return begins_name(c) || (c >= '0' && c <= '9');
}
bool is_blank(char c) {
  return c == '\n' || blanks.find(c) != std::string_view::npos;
}

std::size_t name_length(std::string_view text) {
  if (text.empty() || !begins_name(text.front())) return 0;
  return static_cast<std::size_t>(std::ranges::find_if_not(text, in_variable) - text.begin());
}

}  // namespace

void ShellText::add(char c, std::size_t place) {
  text += c;
  at.push_back(place);
}

void ShellText::add(const ShellText& other) {
  text += other.text;
  at.insert(at.end(), other.at.begin(), other.at.end());
}

void ShellText::add_open(std::string_view raw, std::size_t place) {
  add(open_mark, place);
  for (const char c : raw.substr(0, 200)) add(c, place);
}

void ShellWords::fail(std::size_t place, std::string_view message) const {
  throw InputError(location(place), message);
}

Location ShellWords::location(std::size_t place) const {
  const std::string_view before = std::string_view(script_).substr(0, place);
  const std::size_t line_begin = before.rfind('\n');
  return {.file = name_,
          .line = 1 + static_cast<int>(std::ranges::count(before, '\n')),
          .column = 1 + static_cast<int>(line_begin == std::string_view::npos ? place : place - line_begin - 1),
          .pointer = {}};
}

void ShellWords::require_short(const ShellText& text) const {
  if (text.text.size() > longest_text) fail(at, "the variables before this grow without end");
}

void ShellWords::skip_blanks() {
  while (!done()) {
    if (blanks.find(peek()) != std::string_view::npos)
      ++at;
    else if (looking_at("\\\n"))
      at += 2;
    else if (looking_at("\\\r\n"))
      at += 3;
    else
      return;
  }
}

void ShellWords::skip_line() {
  while (!done() && peek() != '\n') ++at;
}

std::optional<ShellWords::Assignment> ShellWords::assignment() const {
  const std::string_view rest = std::string_view(script_).substr(at, end_ - at);
  Assignment found;
  found.length = name_length(rest);
  found.name = rest.substr(0, found.length);
  if (found.length == 0) return {};
  if (rest.substr(found.length).starts_with('[')) {  // one element, which stands for the end
    const std::size_t close = rest.find(']', found.length);
    if (close == std::string_view::npos || close - found.length > 50) return {};
    found.length = close + 1;
    found.appends = true;
  }
  if (rest.substr(found.length).starts_with('+')) {
    found.appends = true;
    ++found.length;
  }
  if (!rest.substr(found.length).starts_with('=')) return {};
  ++found.length;
  return found;
}

std::vector<ShellText> ShellWords::word() {
  Fields fields{.words = {{}}};
  const auto last = [&]() -> ShellText& { return fields.words.back(); };
  while (!done() && !is_blank(peek()) && operators.find(peek()) == std::string_view::npos) {
    const char c = peek();
    if (c == '\'' || c == '"') {
      fields.any = true;
      add_quoted(fields, true);
    } else if (c == '\\') {
      ++at;
      if (peek() != '\n' && !done()) last().add(peek(), at);
      ++at;
    } else if (c == '$') {
      add_dollar(fields, false, true);
    } else if (c == '`') {
      add_substitution(fields);
    } else {
      last().add(c, at++);
    }
    require_short(last());
  }
  at = std::min(at, end_);
  if (last().text.empty() && !fields.any) fields.words.pop_back();
  return std::move(fields.words);
}

ShellText ShellWords::value() {
  Fields fields{.words = {{}}};
  while (!done() && !is_blank(peek()) && std::string_view(";|&()\n").find(peek()) == std::string_view::npos) {
    const char c = peek();
    if (c == '\'' || c == '"') {
      add_quoted(fields, false);
    } else if (c == '\\') {
      ++at;
      if (peek() != '\n' && !done()) fields.words.back().add(peek(), at);
      ++at;
    } else if (c == '$') {
      add_dollar(fields, true, false);
    } else if (c == '`') {
      add_substitution(fields);
    } else {
      fields.words.back().add(c, at++);
    }
    require_short(fields.words.back());
  }
  at = std::min(at, end_);
  return fields.words.back();
}

void ShellWords::add_quoted(Fields& fields, bool split) {
  const char quote = peek();
  const std::size_t begin = at++;
  while (!done() && peek() != quote) {
    const char c = peek();
    if (quote == '"' && c == '\\' && at + 1 < end_) {
      const char next = peek(1);
      const bool escapes = std::string_view("$`\"\\\n").find(next) != std::string_view::npos;
      if (!escapes) fields.words.back().add(c, at);
      if (next != '\n') fields.words.back().add(next, at + 1);
      at += 2;
    } else if (quote == '"' && c == '$') {
      add_dollar(fields, true, split);
    } else if (quote == '"' && c == '`') {
      add_substitution(fields);
    } else {
      fields.words.back().add(c, at++);
    }
    require_short(fields.words.back());
  }
  if (done()) fail(begin, "this quote is not closed");
  ++at;
}

// The place of the character that closes the one here; quotes inside are passed over.
std::size_t ShellWords::closing(char open, char close) const {
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = at; i < end_; ++i) {
    const char c = script_[i];
    if (c == '\\') {
      ++i;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      return i;
    }
  }
  fail(at, "this is not closed");
}

// Commands are not run, so their output is open.
void ShellWords::add_substitution(Fields& fields) {
  const std::size_t begin = at;
  if (peek() == '`') {
    const std::size_t end = script_.find('`', at + 1);
    if (end >= end_) fail(at, "this is not closed");
    at = end + 1;
  } else {
    ++at;
    at = closing('(', ')') + 1;
  }
  fields.words.back().add_open(std::string_view(script_).substr(begin, at - begin), begin);
}

void ShellWords::add_dollar(Fields& fields, bool quoted, bool split) {
  const std::size_t begin = at;
  if (looking_at("$((")) {
    ++at;
    const std::size_t end = closing('(', ')');
    const std::string_view inner = std::string_view(script_).substr(at + 2, end > at + 3 ? end - at - 3 : 0);
    const auto value = arithmetic(inner, [&](std::string_view variable) { return text_of(variable); });
    at = end + 1;
    if (!value) {
      fields.words.back().add_open(std::string_view(script_).substr(begin, at - begin), begin);
    } else {
      for (const char c : std::to_string(*value)) fields.words.back().add(c, begin);
    }
    return;
  }
  if (looking_at("$(")) return add_substitution(fields);
  if (looking_at("${")) return add_braces(fields, quoted, split);
  ++at;
  const std::string_view rest = std::string_view(script_).substr(at, end_ - at);
  const std::size_t special =
      !rest.empty() && std::string_view("@*#?$!0123456789").find(rest.front()) != std::string_view::npos;
  const std::size_t length = special > 0 ? 1 : name_length(rest);
  if (length == 0) return fields.words.back().add('$', begin);
  at += length;
  add_elements(fields, expansion_of(rest.substr(0, length), begin), quoted, split);
}

void ShellWords::add_braces(Fields& fields, bool quoted, bool split) {
  const std::size_t begin = at++;
  const std::size_t end = closing('{', '}');
  const std::string_view inner = std::string_view(script_).substr(at + 1, end - at - 1);
  const std::vector<ShellText> elements = expansion_of(inner, begin);
  at = end + 1;
  const bool list = inner.find("[@]") != std::string_view::npos;
  add_elements(fields, elements, quoted && !(list && split), split);
}

void ShellWords::add_elements(Fields& fields, const std::vector<ShellText>& elements, bool quoted, bool split) const {
  for (std::size_t e = 0; e < elements.size(); ++e) {
    if (e > 0 && (quoted || !split)) fields.words.back().add(' ', at > 0 ? at - 1 : 0);
    if (e > 0 && !quoted && split) fields.words.emplace_back();
    for (std::size_t i = 0; i < elements[e].text.size(); ++i) {
      const char c = elements[e].text[i];
      const bool separates = !quoted && split && is_blank(c) && !is_open(elements[e].text);
      if (!separates)
        fields.words.back().add(c, elements[e].at[i]);
      else if (!fields.words.back().text.empty())
        fields.words.emplace_back();
    }
    require_short(fields.words.back());
  }
  if (fields.words.size() > longest_text / 10) fail(at, "the variables before this grow without end");
}

std::optional<std::vector<ShellText>> ShellWords::known(std::string_view variable) const {
  const auto found = variables_.find(variable);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> ShellWords::text_of(std::string_view variable) const {
  const auto elements = known(variable);
  if (!elements || elements->empty() || is_open(elements->front().text)) return {};
  return elements->front().text;
}

// The elements that "NAME", "NAME[@]" or "NAME:-other" stand for.
std::vector<ShellText> ShellWords::expansion_of(std::string_view inner, std::size_t place) {
  const std::string raw = inner.size() == name_length(inner) || inner.size() == 1 ? "$" + std::string(inner)
                                                                                  : "${" + std::string(inner) + "}";
  const std::size_t length = inner.size() == 1 ? 1 : name_length(inner);
  const std::string variable(inner.substr(0, std::max<std::size_t>(length, inner.empty() ? 0 : 1)));
  std::string_view rest = inner.substr(variable.size());
  for (const std::string_view all : {"[@]", "[*]"})
    if (rest.starts_with(all)) rest.remove_prefix(all.size());
  ShellText open;
  open.add_open(raw, place);
  if (rest.empty()) {
    const auto elements = known(variable);
    return elements ? *elements : std::vector{open};
  }
  return with_operator(variable, rest, place, static_cast<std::size_t>(rest.data() - script_.data()), raw);
}

// ":-", "-", ":=", "=", ":+" and "+"; ":?" is the variable itself. Other operators change a text in ways that are not
// read.
std::vector<ShellText> ShellWords::with_operator(const std::string& variable, std::string_view rest, std::size_t place,
                                                 std::size_t raw_begin, std::string_view raw) {
  ShellText open;
  open.add_open(raw, place);
  const bool colon = rest.starts_with(':');
  const char sign = rest.size() > (colon ? 1U : 0U) ? rest[colon ? 1 : 0] : '\0';
  if (std::string_view("-=+?").find(sign) == std::string_view::npos || sign == '\0' || depth_ >= deepest_expansion)
    return {open};
  const auto elements = known(variable);
  const bool set = elements && !elements->empty() && !(colon && elements->front().text.empty());
  if (sign == '?') return set ? *elements : std::vector{open};
  if (set && sign != '+') return *elements;
  if (!set && sign == '+') return {};
  const std::size_t skip = colon ? 2 : 1, saved_at = at, saved_end = end_;
  at = raw_begin + skip;
  end_ = raw_begin + rest.size();
  ++depth_;
  Fields fields{.words = {{}}};
  while (!done()) {
    if (peek() == '$')
      add_dollar(fields, true, false);
    else if (peek() == '"' || peek() == '\'')
      add_quoted(fields, false);
    else
      fields.words.back().add(script_[at], at), ++at;
  }
  --depth_;
  at = saved_at;
  end_ = saved_end;
  if (sign == '=') variables_[variable] = fields.words;
  return fields.words;
}

}  // namespace dovetail::bench
