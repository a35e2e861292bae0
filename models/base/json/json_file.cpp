// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/base/json/json_position.hpp"
#include "models/base/json/json_syntax.hpp"
#include "models/base/json/json_text.hpp"

namespace dovetail {
namespace {

using nlohmann::json;

// Builds the value while watching depth and duplicates, which json::parse would not.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view text, const std::string& name, json& root) : text_(text), name_(name), root_(root) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    key_ = std::move(value);
    if (key_.size() > JsonFile::max_key)
      fail(last_pointer(), JsonPart::Value, fmt::format("key longer than {} bytes", JsonFile::max_key));
    if (open_.back()->contains(key_)) fail_duplicate();
    return true;
  }

  bool parse_error(std::size_t read, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string container = last_pointer();
    const SyntaxError what = explain_syntax_error(text_, read, error.what(), container);
    const auto [line, column] = line_column(text_, what.offset);
    throw InputError(Location{name_, line, column, container}, what.message);
  }

 private:
  template <class Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }

  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    steps_.back() = key_;
    return &(parent[key_] = std::move(value));
  }

  bool open(json container) {
    open_.push_back(place(std::move(container)));
    steps_.emplace_back();
    if (open_.size() > JsonFile::max_depth)
      fail(last_pointer(), JsonPart::Value,
           fmt::format("nested too deeply, expected at most {} levels", JsonFile::max_depth));
    return true;
  }

  bool close() {
    open_.pop_back();
    steps_.pop_back();
    return true;
  }

  // The pointer of the innermost open object or array.
  std::string last_pointer() const {
    std::string pointer;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i)
      pointer = open_[i]->is_array() ? child_pointer(pointer, open_[i]->size() - 1) : child_pointer(pointer, steps_[i]);
    return pointer;
  }

  void fail_duplicate() const {
    const std::string pointer = child_pointer(last_pointer(), key_);
    const std::size_t first = find_json(text_, pointer, JsonPart::Key).value_or(0);
    fail(pointer, JsonPart::Key,
         fmt::format("duplicate key {}, already given on line {}", in_quotes(key_), line_column(text_, first).line), 2);
  }

  [[noreturn]] void fail(const std::string& pointer, JsonPart part, std::string_view message,
                         int occurrence = 1) const {
    const std::size_t offset = find_json(text_, pointer, part, occurrence).value_or(text_.size());
    const auto [line, column] = line_column(text_, offset);
    throw InputError(Location{name_, line, column, pointer}, message);
  }

  std::string_view text_;
  const std::string& name_;
  json& root_;
  std::vector<json*> open_;         // objects and arrays not yet closed
  std::vector<std::string> steps_;  // current key of each of them, unused for arrays
  std::string key_;
};

[[noreturn]] void refuse_file(const std::string& name, std::string_view why) {
  throw InputError(Location{name, 0, 0, ""}, why);
}

[[noreturn]] void refuse_size(const std::string& name) {
  refuse_file(name, fmt::format("larger than {} MB, expected a smaller file", JsonFile::max_bytes / 1'000'000));
}

// Reads in pieces, because the size of a pipe or of /proc files is not known before.
std::string read_all(const std::string& name) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "rb"), &std::fclose);
  if (!file) refuse_file(name, fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  std::size_t got = 0;
  do {
    constexpr std::size_t piece = 1 << 16;
    const std::size_t size = text.size();
    text.resize(size + piece);
    got = std::fread(text.data() + size, 1, piece, file.get());
    text.resize(size + got);
    if (text.size() > JsonFile::max_bytes) refuse_size(name);
  } while (got > 0);
  if (std::ferror(file.get())) refuse_file(name, fmt::format("cannot be read: {}", std::strerror(errno)));
  return text;
}

}  // namespace

JsonFile::JsonFile(std::string text, std::string name, json value)
    : text_(std::move(text)), name_(std::move(name)), root_(std::make_unique<json>(std::move(value))) {}
JsonFile::JsonFile(JsonFile&&) noexcept = default;
JsonFile& JsonFile::operator=(JsonFile&&) noexcept = default;
JsonFile::~JsonFile() = default;

std::string JsonFile::read_text(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse_file(name, "is a directory, expected a file");
  const std::uintmax_t size =
      std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
  if (!error && size > max_bytes) refuse_size(name);
  return read_all(name);
}

JsonFile JsonFile::read(const std::filesystem::path& path) {
  return parse(read_text(path), path.string());
}

JsonFile JsonFile::parse(std::string text, std::string name) {
  if (text.size() > max_bytes) refuse_size(name);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {  // the parser would take it for the end
    const auto [line, column] = line_column(text, zero);
    throw InputError(Location{name, line, column, ""}, "a zero byte, expected text in UTF-8");
  }
  json root;
  Builder builder(text, name, root);
  json::sax_parse(text.data(), text.data() + text.size(), &builder, json::input_format_t::json, true, true);
  return JsonFile(std::move(text), std::move(name), std::move(root));
}

JsonFile JsonFile::wrap(json value, std::string name) {
  return JsonFile("", std::move(name), std::move(value));
}

void JsonFile::set(std::string_view pointer, json value, std::string origin) {
  const Location where{origin, 0, 0, ""};
  const std::vector<std::string> steps = pointer_steps(pointer);
  if (steps.size() > max_depth)
    throw InputError(where, fmt::format("nested too deeply, expected at most {} levels", max_depth));
  json* place = root_.get();
  for (const std::string& step : steps) {
    if (place->is_null()) *place = json::object();
    if (place->is_object()) {
      place = &(*place)[step];
      continue;
    }
    if (!place->is_array()) throw InputError(where, fmt::format("no {} inside {}", in_quotes(step), describe(*place)));
    std::size_t index = 0;
    while (index < place->size() && std::to_string(index) != step) ++index;
    if (index == place->size())
      throw InputError(where, fmt::format("no element {}, expected an index below {}", in_quotes(step), place->size()));
    place = &(*place)[index];
  }
  *place = std::move(value);
  origins_.push_back({std::string(pointer), std::move(origin)});
}

Location JsonFile::locate(std::string_view pointer) const {
  return locate_part(pointer, false);
}

Location JsonFile::locate_key(std::string_view pointer) const {
  return locate_part(pointer, true);
}

Location JsonFile::locate_part(std::string_view pointer, bool key) const {
  const auto within = [](std::string_view inner, std::string_view outer) {
    return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
  };
  for (auto origin = origins_.rbegin(); origin != origins_.rend(); ++origin)
    if (within(pointer, origin->pointer))
      return {origin->name, 0, 0, std::string(pointer.substr(origin->pointer.size()))};
  if (text_.empty()) {
    for (const Origin& origin : origins_)  // what an option put into an object concerns the object
      if (!pointer.empty() && within(origin.pointer, pointer)) return {origin.name, 0, 0, ""};
    return {name_, 0, 0, std::string(pointer)};
  }

  std::string_view existing = pointer;
  std::optional<std::size_t> offset = find_json(text_, existing, key ? JsonPart::Key : JsonPart::Value);
  if (!offset)  // an object that only --set brought in
    for (const Origin& origin : origins_)
      if (within(origin.pointer, pointer)) return {origin.name, 0, 0, ""};
  while (!offset && !existing.empty()) {
    existing = existing.substr(0, existing.rfind('/'));
    offset = find_json(text_, existing, JsonPart::Value);
  }
  const auto [line, column] = line_column(text_, offset.value_or(0));
  return {name_, line, column, std::string(pointer)};
}

}  // namespace dovetail
