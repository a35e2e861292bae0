// SPDX-License-Identifier: Apache-2.0
// The three ways Dovetail fails: bad input (exit 2), a device or library that
// fails (exit 4), and our own bugs. "No plan fits" is a value, not an error.
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dovetail {

// A place in an input file. line and column count from 1; 0 means unknown.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  std::string pointer;  // JSON pointer, empty for the root or when there is none
};

// Wrong input by the user: one line "file:line:column: /pointer: message".
class InputError : public std::runtime_error {
 public:
  InputError(const Location& where, std::string_view message);
  explicit InputError(std::string_view message) : InputError(Location{}, message) {}  // options, not files
  const Location& where() const { return where_; }
  const std::string& message() const { return message_; }  // what() without the place

 private:
  Location where_;
  std::string message_;
};

// A device, library or operating system call that failed: "call: reason (code), rank r".
class DeviceError : public std::runtime_error {
 public:
  DeviceError(std::string_view call, std::string_view reason, int code = 0, int rank = -1);
};

// Thrown by check(): a bug in Dovetail, never the user's fault.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

void check(bool condition, std::string_view what = "invariant violated",
           std::source_location where = std::source_location::current());

}  // namespace dovetail
