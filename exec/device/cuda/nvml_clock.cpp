// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/nvml_clock.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>

namespace dovetail::exec {
namespace {

// Codes and sizes of nvml.h.
constexpr int success = 0, clock_of_multiprocessors = 1;
constexpr unsigned version_size = 80;
constexpr int bus_id_size = 32;

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

NvmlClock::NvmlClock(int device) : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  const auto start = symbol<int (*)()>(library_, "nvmlInit_v2");
  if (start == nullptr || start() != success) return;
  std::array<char, bus_id_size> bus{};
  const auto find = symbol<int (*)(const char*, void**)>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  if (cudaDeviceGetPCIBusId(bus.data(), bus_id_size, device) != cudaSuccess || find == nullptr ||
      find(bus.data(), &device_) != success)
    device_ = nullptr;
  clock_ = symbol<ClockOf>(library_, "nvmlDeviceGetClockInfo");
  power_ = symbol<Figure>(library_, "nvmlDeviceGetPowerUsage");
  std::array<char, version_size> version{};
  const auto driver = symbol<int (*)(char*, unsigned)>(library_, "nvmlSystemGetDriverVersion");
  if (driver != nullptr && driver(version.data(), version_size) == success) driver_ = version.data();
}

NvmlClock::~NvmlClock() {
  if (library_ == nullptr) return;
  if (const auto stop = symbol<int (*)()>(library_, "nvmlShutdown")) stop();
  ::dlclose(library_);
}

ClockReading NvmlClock::now() const {
  ClockReading reading;
  unsigned value = 0;
  if (device_ == nullptr) return reading;
  if (clock_ != nullptr && clock_(device_, clock_of_multiprocessors, &value) == success) reading.mhz = value;
  if (power_ != nullptr && power_(device_, &value) == success) reading.watts = 1e-3 * value;
  return reading;
}

}  // namespace dovetail::exec
