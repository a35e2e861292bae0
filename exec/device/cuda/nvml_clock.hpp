// SPDX-License-Identifier: Apache-2.0
// The clock and power of a GPU by NVML, the library of NVIDIA's driver. It is opened while the program runs, because
// toolkits do not bring it; without it nothing is known.
#pragma once
#include <string>

#include "models/results/clock_reading.hpp"

namespace dovetail::exec {

class NvmlClock {
 public:
  explicit NvmlClock(int device);  // by CUDA's number
  ~NvmlClock();
  NvmlClock(const NvmlClock&) = delete;
  NvmlClock& operator=(const NvmlClock&) = delete;

  ClockReading now() const;
  const std::string& driver() const { return driver_; }  // its version; empty: not known

 private:
  using Figure = int (*)(void* device, unsigned* value);
  using ClockOf = int (*)(void* device, int kind, unsigned* mhz);

  void* library_ = nullptr;
  void* device_ = nullptr;
  ClockOf clock_ = nullptr;
  Figure power_ = nullptr;
  std::string driver_;
};

}  // namespace dovetail::exec
