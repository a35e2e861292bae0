// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/mpi_outbox.hpp"

#include <chrono>
#include <utility>

#include "exec/transport/mpi_calls.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

MpiOutbox::MpiOutbox(MPI_Comm comm) : comm_(comm), thread_([this] { serve(); }) {}

MpiOutbox::~MpiOutbox() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
  for (Sent& sent : sent_) {
    MPI_Cancel(&sent.request);
    MPI_Request_free(&sent.request);
  }
}

void MpiOutbox::post(std::vector<std::byte> message, int to, int tag) {
  const std::scoped_lock lock(mutex_);
  Sent& sent = sent_.emplace_back(Sent{std::move(message)});
  check_mpi("MPI_Isend", MPI_Isend(sent.message.data(), static_cast<int>(sent.message.size()), MPI_BYTE, to, tag, comm_,
                                   &sent.request));
  changed_.notify_one();
}

// Large messages move only while somebody tests them, and the sender may compute for long.
void MpiOutbox::serve() {
  constexpr std::chrono::microseconds between_tests{50};
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (forget_arrived())
      changed_.wait(lock);
    else
      changed_.wait_for(lock, between_tests);
  }
}

bool MpiOutbox::forget_arrived() {
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    return MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  return sent_.empty();
}

}  // namespace dovetail::exec
