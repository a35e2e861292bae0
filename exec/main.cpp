#include "exec/program.hpp"

int main(int argc, char** argv) {
  return dovetail::exec::run_program({argv + 1, argv + argc});
}
