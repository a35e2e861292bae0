// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_position.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json/json_text.hpp"

namespace dovetail {
namespace {

class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) { skip_space(); }

  std::size_t offset() const { return offset_; }
  char peek() const { return offset_ < text_.size() ? text_[offset_] : '\0'; }

  void skip_space() { offset_ = skip_json_space(text_, offset_); }
  void step() {  // over one character and the space after it
    offset_ = std::min(offset_ + 1, text_.size());
    skip_space();
  }

  // Walks over the string at the offset and returns its text with quotes.
  std::string_view skip_string() {
    const std::size_t begin = offset_++;
    while (offset_ < text_.size() && text_[offset_] != '"') offset_ += text_[offset_] == '\\' ? 2u : 1u;
    offset_ = std::min(offset_ + 1, text_.size());
    const std::string_view result = text_.substr(begin, offset_ - begin);
    skip_space();
    return result;
  }

  void skip_value() {
    int depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == '{' || c == '[' || c == '}' || c == ']' || c == ',' || c == ':')
        step();
      else
        skip_literal();
    } while (depth > 0 && offset_ < text_.size());
  }

 private:
  void skip_literal() {  // at least one character, so that the walk always advances
    do ++offset_;
    while (offset_ < text_.size() && std::string_view(" \t\r\n,:]}/\"").find(text_[offset_]) == std::string_view::npos);
    offset_ = std::min(offset_, text_.size());
    skip_space();
  }

  std::string_view text_;
  std::size_t offset_ = 0;
};

bool is_key(std::string_view raw, const std::string& key) {
  if (raw.size() < 2) return false;
  if (raw.find('\\') == std::string_view::npos) return raw.substr(1, raw.size() - 2) == key;
  const nlohmann::json decoded = nlohmann::json::parse(raw, nullptr, false);
  return decoded.is_string() && decoded.get_ref<const std::string&>() == key;
}

// Walks from the '{' to the value of the key and returns the offset of the key.
std::optional<std::size_t> enter_object(Walker& walker, const std::string& key, int occurrence) {
  walker.step();
  while (walker.peek() == '"') {
    const std::size_t at = walker.offset();
    const bool found = is_key(walker.skip_string(), key) && --occurrence == 0;
    if (walker.peek() == ':') walker.step();
    if (found) return at;
    walker.skip_value();
    if (walker.peek() == ',') walker.step();
  }
  return std::nullopt;
}

// Walks from the '[' to the element.
std::optional<std::size_t> enter_array(Walker& walker, const std::string& index) {
  walker.step();
  for (std::size_t i = 0; walker.peek() != ']' && walker.peek() != '\0'; ++i) {
    if (std::to_string(i) == index) return walker.offset();
    walker.skip_value();
    if (walker.peek() == ',') walker.step();
  }
  return std::nullopt;
}

}  // namespace

LineColumn line_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  LineColumn result;
  result.line += static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  for (char c : before.substr(line_start))
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++result.column;
  return result;
}

std::optional<std::size_t> find_json(std::string_view text, std::string_view pointer, JsonPart part, int occurrence) {
  const std::vector<std::string> steps = pointer_steps(pointer);
  Walker walker(text);
  std::size_t key_offset = walker.offset();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::optional<std::size_t> found;
    if (walker.peek() == '{')
      found = enter_object(walker, steps[i], i + 1 == steps.size() ? occurrence : 1);
    else if (walker.peek() == '[')
      found = enter_array(walker, steps[i]);
    if (!found) return std::nullopt;
    key_offset = *found;
  }
  return part == JsonPart::Key ? key_offset : walker.offset();
}

std::size_t skip_json_space(std::string_view text, std::size_t offset) {
  while (offset < text.size()) {
    const std::string_view rest = text.substr(offset);
    if (std::string_view(" \t\r\n").find(rest.front()) != std::string_view::npos) {
      ++offset;
    } else if (rest.starts_with("//") || rest.starts_with("/*")) {
      const std::string_view close = rest[1] == '/' ? "\n" : "*/";
      const std::size_t end = rest.find(close, 2);
      offset = end == std::string_view::npos ? text.size() : offset + end + close.size();
    } else {
      break;
    }
  }
  return offset;
}

}  // namespace dovetail
