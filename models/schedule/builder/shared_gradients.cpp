// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/shared_gradients.hpp"

#include <array>

namespace dovetail::builder {
namespace {

// One of the two stages.
class Sharing {
 public:
  Sharing(StepContext& c, int stage) : c_(c), stage_(stage) {
    enter();
    layer_ = c.layers_of_stage().front();
    const bool embedding = c.ends().embedding_twice;
    if (embedding) range_ = c.embedding_gradients();
    elements_ = embedding ? c.ends().embedding_parameters : c.updated_parameters();
    gradients_ = embedding ? TensorIds{c.dense_gradients()} : c.all_gradients();
    arriving_ = c.arriving_gradients(TensorKind::SharedGradient, layer_, elements_);
  }

  void send_to(const Sharing& other) {
    enter();
    Op o =
        c_.op(OpKind::StageSend, Phase::Backward, layer_, c_.streams().send, c_.work(layer_).send_gradients(elements_));
    o.gradients = range_;
    sent_ = c_.add(o, gradients_, std::array{other.arriving_});
  }

  // After the own gradients are sent, which change then.
  void add_what_arrives() {
    enter();
    c_.add(c_.op(OpKind::StageReceive, Phase::Backward, layer_, c_.streams().receive,
                 ExchangeWork{Collective::None, GroupKind::Pp}),
           {arriving_}, {arriving_});
    Op o = c_.op(OpKind::Residual, Phase::Backward, layer_, c_.streams().compute,
                 c_.work(layer_).add_gradients(elements_));
    o.gradients = range_;
    TensorIds reads{arriving_};
    reads.insert(reads.end(), gradients_.begin(), gradients_.end());
    c_.add(o, reads, gradients_, sent_);
  }

 private:
  void enter() { c_.enter(stage_, 0); }

  StepContext& c_;
  int stage_, layer_ = 0;
  RowRange range_;  // of the gradients; empty: all that this rank has the sums of
  std::int64_t elements_ = 0;
  TensorIds gradients_;
  TensorId arriving_;
  OpId sent_;
};

void exchange(StepContext& c, int one, int other) {
  std::array sides{Sharing(c, one), Sharing(c, other)};
  for (std::size_t i = 0; i < 2; ++i) sides[i].send_to(sides[1 - i]);
  for (Sharing& side : sides) side.add_what_arrives();
}

}  // namespace

bool shares_gradients(const StepContext& c) {
  return c.layout().twin_of(c.stage()) != c.stage() || (c.ends().embedding_twice && c.holds_embedding());
}

std::vector<int> exchange_shared_gradients(StepContext& c) {
  const StageLayout& layout = c.layout();
  std::vector<int> stages;
  const auto share = [&](int one, int other) {
    exchange(c, one, other);
    stages.insert(stages.end(), {one, other});
  };
  if (c.ends().embedding_twice) share(layout.begins_at(), layout.ends_at());
  for (int stage = 0; stage < layout.twin_of(stage); ++stage) share(stage, layout.twin_of(stage));
  return stages;
}

}  // namespace dovetail::builder
