// SPDX-License-Identifier: Apache-2.0
// Units of micro-batches that are like one that was built, the example, are copied from it: the same ops on tensors of
// the same kinds. Tensors and ops that the example made, in this unit or an earlier one, are replaced by those that the
// other micro-batch has in their place. All others belong to no micro-batch, as weights and their gradients do.
#pragma once
#include <vector>

#include "models/plan/program.hpp"
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

class UnitCopies {
 public:
  explicit UnitCopies(StepContext& c);

  // The numbers that the next tensor and the next op will have.
  struct Begin {
    TensorId tensor;
    OpId op;
  };
  Begin begin() const;
  // The example's unit, which has been built from there on.
  void keep(const Unit& unit, Begin begin);
  // The same unit of another micro-batch.
  void copy(const Unit& unit);

 private:
  struct Original {
    Begin first, end;
    std::vector<Begin> copies;  // by micro-batch
  };
  std::size_t place_of(const Unit& unit) const;
  template <class Key>
  Key there(Key id, Key Begin::*key) const;
  void add_tensors(const Original& original);
  void add_op(OpId original);

  StepContext& c_;
  std::vector<int> kept_;        // by stage and kind: the unit, in the order in which they were kept
  std::vector<Original> units_;  // of the example
  std::size_t unit_ = 0;         // that is copied
  int micro_batch_ = 0;          // for which
  TensorIds reads_, writes_;
};

}  // namespace dovetail::builder
