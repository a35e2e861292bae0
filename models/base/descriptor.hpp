// SPDX-License-Identifier: Apache-2.0
// A file descriptor that is closed when its owner goes.
#pragma once
#include <unistd.h>

#include <utility>

namespace dovetail {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  bool open() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }  // the caller closes it

 private:
  int number_;
};

}  // namespace dovetail
