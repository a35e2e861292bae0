// SPDX-License-Identifier: Apache-2.0
// A program that a user lists, rank by rank.
#pragma once
#include <string>
#include <vector>

#include "models/base/shared.hpp"
#include "models/plan/program_names.hpp"

namespace dovetail {

struct Slot;
struct Program;

// Without lines it is no program, and a plan follows a named one.
class ListedProgram {
 public:
  ListedProgram();
  // By rank. Two pipelines are known by their micro-batches, of which each stage has the first or the second half.
  // Throws InputError for what validate(Program) refuses, and for stages that lie otherwise on the ranks than a
  // StageShape has them.
  explicit ListedProgram(std::vector<std::vector<Slot>> ranks);

  bool empty() const;
  int ranks() const;
  int micro_batches() const;
  int laps() const;
  const Program& program() const;
  // The entry that it would have in the table of programs, with its own shape, halves and pairs.
  const NamedProgram& entry() const;
  std::vector<std::string> lines() const;  // see program_text.hpp

  friend bool operator==(const ListedProgram& a, const ListedProgram& b);

 private:
  struct Contents;
  Shared<Contents> contents_;
};

}  // namespace dovetail
