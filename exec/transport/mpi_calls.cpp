// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/mpi_calls.hpp"

#include <chrono>
#include <string_view>
#include <thread>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

constexpr std::chrono::microseconds between_tests{20};

}  // namespace

void check_mpi(const char* call, int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw DeviceError(call, std::string_view(text, static_cast<std::size_t>(length)), code);
}

void complete(std::vector<MPI_Request>& requests, const Cancellation& cancellation) {
  for (;;) {
    int done = 0;
    check_mpi("MPI_Testall",
              MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) return;
    if (cancellation.requested()) break;
    std::this_thread::sleep_for(between_tests);
  }
  for (MPI_Request& request : requests)
    if (request != MPI_REQUEST_NULL) {
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  throw Cancelled{};
}

}  // namespace dovetail::exec
