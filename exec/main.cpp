#include "exec/program.hpp"
#include "models/build_info.hpp"
#if DOVETAIL_HAS_MPI
#include "exec/mpi_world.hpp"
#endif

int main(int argc, char** argv) {
#if DOVETAIL_HAS_MPI
  return dovetail::exec::run_program({argv + 1, argv + argc}, dovetail::exec::make_mpi_world);
#else
  return dovetail::exec::run_program({argv + 1, argv + argc});
#endif
}
