// SPDX-License-Identifier: Apache-2.0
// One line of a file of JSON lines, read like a file of its own: what is wrong in it has the line's number.
#pragma once
#include <string>
#include <type_traits>

#include "models/base/json/json_reader.hpp"

namespace dovetail::bench {

class JsonLine {
 public:
  // `number` counts from 1. Throws InputError.
  JsonLine(const std::string& path, long number, std::string text)
      : number_(number), json_(placed([&] { return JsonFile::parse(std::move(text), path); })) {}

  // Returns what `use` makes of a reader at the line's value.
  template <class Use>
  auto read(Use use) const {
    return placed([&] { return use(JsonReader(json_)); });
  }

 private:
  template <class Body>
  std::invoke_result_t<Body> placed(Body body) const try {
    return body();
  } catch (const InputError& error) {
    Location at = error.where();
    at.line = static_cast<int>(number_);
    throw InputError(at, error.message());
  }

  long number_;
  JsonFile json_;
};

}  // namespace dovetail::bench
