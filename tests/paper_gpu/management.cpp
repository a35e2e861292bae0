// SPDX-License-Identifier: Apache-2.0
// As much of NVIDIA's management library (libnvidia-ml.so.1) as samplers of clocks ask. The clock swings slowly between
// PAPER_CLOCK_LOW and PAPER_CLOCK_HIGH (MHz), with PAPER_CLOCK_PERIOD (s); power and temperature go with it.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

enum Status { Success = 0, InvalidArgument = 2, NotFound = 6, InsufficientSize = 7 };

double setting(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::atof(text) : otherwise;
}

// From 0, slow, to 1 and back.
double swing() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return .5 - .5 * std::cos(2 * M_PI * seconds / setting("PAPER_CLOCK_PERIOD", 20));
}

unsigned between(double low, double high) {
  return static_cast<unsigned>(std::lround(low + (high - low) * swing()));
}

int own_device;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return Success;
}

int nvmlShutdown() {
  return Success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index != 0) return InvalidArgument;
  *device = &own_device;
  return Success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  if (std::strstr(bus, "01:00.0") == nullptr) return NotFound;  // as cudaDeviceGetPCIBusId has it
  *device = &own_device;
  return Success;
}

int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* megahertz) {
  constexpr int memory = 2;
  if (device != &own_device || clock < 0 || clock > 3) return InvalidArgument;
  *megahertz = clock == memory ? 2619 : between(setting("PAPER_CLOCK_LOW", 1755), setting("PAPER_CLOCK_HIGH", 1980));
  return Success;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (device != &own_device) return InvalidArgument;
  *milliwatts = between(690e3, 420e3);
  return Success;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (device != &own_device || sensor != 0) return InvalidArgument;
  *celsius = between(66, 51);
  return Success;
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  constexpr const char* version = "580.00 (paper)";
  if (length <= std::strlen(version)) return InsufficientSize;
  std::strcpy(text, version);
  return Success;
}

const char* nvmlErrorString(int status) {
  return status == Success ? "Success" : "an error of the paper GPU's management library";
}

}  // extern "C"
