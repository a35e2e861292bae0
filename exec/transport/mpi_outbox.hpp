// SPDX-License-Identifier: Apache-2.0
// Messages on their way whose sender does not wait for them. Included only where MPI is found.
#pragma once
#include <mpi.h>

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace dovetail::exec {

class MpiOutbox {
 public:
  explicit MpiOutbox(MPI_Comm comm);
  // Gives up what nobody has received.
  ~MpiOutbox();
  MpiOutbox(const MpiOutbox&) = delete;
  MpiOutbox& operator=(const MpiOutbox&) = delete;

  void post(std::vector<std::byte> message, int to, int tag);  // thread-safe

 private:
  struct Sent {
    std::vector<std::byte> message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void serve();
  bool forget_arrived();

  MPI_Comm comm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Sent> sent_;
  bool stop_ = false;
  std::thread thread_;  // last: uses all the rest
};

}  // namespace dovetail::exec
