// SPDX-License-Identifier: Apache-2.0
// As much of the driver (libcuda.so.1) as scripts ask: one GPU, of compute capability 9.0.
extern "C" {

int cuInit(unsigned) {
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int invalid_value = 1, invalid_device = 101, multiprocessors = 16, major = 75, minor = 76;
  if (device != 0) return invalid_device;
  if (attribute != multiprocessors && attribute != major && attribute != minor) return invalid_value;
  *value = attribute == multiprocessors ? 132 : attribute == major ? 9 : 0;
  return 0;
}

}  // extern "C"
