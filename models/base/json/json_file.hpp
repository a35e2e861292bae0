// SPDX-License-Identifier: Apache-2.0
// A JSON text with the place of every value, so that each later complaint can point at its line and column.
// Accepts comments; refuses what could hurt: huge, deeply nested, duplicated keys, invalid UTF-8.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail {

class JsonFile {
 public:
  static constexpr std::size_t max_bytes = 64'000'000;
  static constexpr int max_depth = 64;          // of nested objects and arrays
  static constexpr std::size_t max_key = 1000;  // bytes of one key

  // Each throws InputError. `name` stands for the file in messages. `read` takes at most max_bytes from any kind of
  // file.
  static JsonFile read(const std::filesystem::path& path);
  static JsonFile parse(std::string text, std::string name);
  static std::string read_text(const std::filesystem::path& path);  // of `read`, unparsed

  // Around a value that came from no text; locations then have a name and a pointer only.
  static JsonFile wrap(nlohmann::json value, std::string name);

  JsonFile(JsonFile&&) noexcept;
  JsonFile& operator=(JsonFile&&) noexcept;
  ~JsonFile();

  const nlohmann::json& root() const { return *root_; }
  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }  // as read, without a byte order mark

  // Puts a value at a pointer, making the objects on the way; errors about it name `origin` ("--set plan.chunks")
  // instead of the file. Throws InputError where the way leads through something that is neither object nor array.
  void set(std::string_view pointer, nlohmann::json value, std::string origin);

  // Place of a value, or of the key before it; of the nearest enclosing value where the pointer leads nowhere.
  Location locate(std::string_view pointer) const;
  Location locate_key(std::string_view pointer) const;

 private:
  struct Origin {
    std::string pointer, name;
  };

  JsonFile(std::string text, std::string name, nlohmann::json value);
  Location locate_part(std::string_view pointer, bool key) const;

  std::string text_, name_;
  std::unique_ptr<nlohmann::json> root_;
  std::vector<Origin> origins_;  // later ones win
};

}  // namespace dovetail
