// SPDX-License-Identifier: Apache-2.0
// The processes that execute one schedule together, each with one rank: its place among them is its rank.
#pragma once
#include <memory>
#include <string>

#include "exec/transport/transport.hpp"

namespace dovetail::exec {

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int rank_on_machine() const = 0;  // among the processes of this machine
  // Called by all: the text of process 0 becomes that of all others.
  virtual void broadcast(std::string& text) = 0;
  // Called by all; between them on streams 0 to streams - 1, groups as `parallelism` says. Does not outlive the world.
  virtual std::unique_ptr<Transport> transport(const Parallelism& parallelism, int streams) = 0;
  // Ends all processes, wherever they wait.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace dovetail::exec
