// SPDX-License-Identifier: Apache-2.0
// Errors about what a value of a file leads to (another file, a name), at the place of that value.
#pragma once
#include <utility>

#include "models/base/errors.hpp"
#include "models/base/json/json_reader.hpp"

namespace dovetail {

// Calls `work` and returns its result. An InputError that it throws and that names no file gets the place of `json`.
template <class Work>
decltype(auto) at_place_of(const JsonReader& json, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const InputError& error) {
    if (!error.where().file.empty()) throw;
    json.fail(error.what());
  }
}

}  // namespace dovetail
