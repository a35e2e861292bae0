// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/mpi_world.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>

#include "exec/transport/mpi_calls.hpp"
#include "exec/transport/mpi_transport.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

class MpiWorld final : public World {
 public:
  MpiWorld() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the launcher killed: nobody would end this process
    int provided = MPI_THREAD_SINGLE;
    check_mpi("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_MULTIPLE)
      throw DeviceError("MPI_Init_thread",
                        "this MPI does not let several threads call it at once (MPI_THREAD_MULTIPLE): each stream is a "
                        "thread that communicates; use one that was built with thread support");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // its copies inherit it
    MPI_Comm machine = MPI_COMM_NULL;
    check_mpi("MPI_Comm_split_type",
              MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    MPI_Comm_rank(machine, &rank_on_machine_);
    MPI_Comm_free(&machine);
  }
  ~MpiWorld() override { MPI_Finalize(); }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int rank_on_machine() const override { return rank_on_machine_; }

  void broadcast(std::string& text) override {
    unsigned long size = text.size();
    check_mpi("MPI_Bcast", MPI_Bcast(&size, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD));
    text.resize(size);
    check_mpi("MPI_Bcast", MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD));
  }

  std::unique_ptr<Transport> transport(const Parallelism& parallelism, int streams) override {
    return make_mpi_transport(parallelism, streams);
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  int rank_ = 0, size_ = 1, rank_on_machine_ = 0;
};

}  // namespace

std::unique_ptr<World> make_mpi_world() {
  return std::make_unique<MpiWorld>();
}

}  // namespace dovetail::exec
