// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/lowering.hpp"

#include <algorithm>
#include <utility>

#include "models/base/errors.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail {
namespace {

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Op& op, int rank)
      : s_(schedule),
        op_(op),
        group_(group_comb(schedule.groups, op.group())),
        rank_(rank),
        own_(rank / group_.stride % group_.size) {
    check(!schedule.reads_of(op).empty() && !schedule.writes_of(op).empty(), "an exchange without operands");
  }

  LoweredOp lowered() const {
    if (s_.relays(op_)) return {};
    switch (op_.kind) {
      case OpKind::StageSend:
      case OpKind::StageReceive:
        return between_stages(s_.ends_of(op_));
      case OpKind::ShadowWeights:
        return op_.phase == Phase::Forward ? broadcast_shadow() : return_shadow_gradient();
      case OpKind::GatherExpertWeights:
        if (op_.phase == Phase::Backward) return return_gradient();
        break;
      case OpKind::DenseGradientAllReduce:
      case OpKind::ExpertGradientAllReduce:
      case OpKind::ReplicatedGradientAllReduce:
        return reduce_gradients(op_.gradients.size() > 0 ? op_.gradients : RowRange{0, elements(source())});
      case OpKind::ParameterAllGather:
        return gather_parameters();
      case OpKind::GradientNormAllReduce:
        return join_stages();
      case OpKind::MpAllGather:
        if (tensor(source()).kind == TensorKind::MtpColumns) return gather_columns();
        if (tensor(result()).kind == TensorKind::MtpColumns) return gather_own_columns();
        break;
      default:
        break;
    }
    if (!s_.steps_of(op_).empty()) return in_steps();
    if (op_.collective() == Collective::AllToAll && op_.peers.size() > 0) return {{at_offsets()}};
    check(op_.collective() != Collective::None, "an exchange without a collective, whose kind says nothing either");
    return {{native(whole(source()), whole(result()))}};
  }

 private:
  // Operands by their roles: what is sent or summed, and where the end of it stands.
  TensorId source() const { return s_.reads_of(op_).front(); }
  TensorId result() const { return s_.writes_of(op_).front(); }
  TensorId between_steps(std::size_t step) const { return s_.writes_of(op_)[step + 1]; }

  const Tensor& tensor(TensorId id) const { return s_.tensors[id]; }
  std::int64_t elements(TensorId id) const { return tensor(id).elements; }
  Region whole(TensorId id) const { return {id, 0, elements(id)}; }
  static Region scratch(std::int64_t first, std::int64_t count) { return {Region::scratch, first, count}; }
  NativeCollective native(const Region& from, const Region& to, int root = -1) const {
    return {op_.collective(), from, to, root};
  }

  // From the tensor read to the result, by way of the tensors between.
  LoweredOp in_steps() const {
    const auto steps = s_.steps_of(op_);
    check(s_.writes_of(op_).size() == steps.size(), "a tensor for the result of each step");
    LoweredOp all;
    TensorId from = source();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const TensorId to = i + 1 == steps.size() ? result() : between_steps(i);
      all.steps.push_back(one_step(steps[i], from, to));
      from = to;
    }
    return all;
  }

  LoweredStep one_step(const CollectiveStep& step, TensorId from, TensorId to) const {
    const std::int64_t block = elements(from) / step.source_blocks();
    check(block * step.source_blocks() == elements(from) && block * step.target_blocks() == elements(to),
          "tensors do not consist of the blocks of their step");
    const auto source = [&](const Move& m) { return whole(from).part(m.source_block * block, m.blocks * block); };
    const auto target = [&](const Move& m) { return whole(to).part(m.target_block * block, m.blocks * block); };
    if (step.kind == StepKind::Copy) {
      LocalSteps copies;
      for (const Move& m : moves_from(step, own_)) copies.push_back({LocalKind::Copy, source(m), target(m)});
      return copies;
    }
    Transfers all;
    for (const Move& m : moves_from(step, own_)) all.sends.push_back({m.target, source(m)});
    for (const Move& m : moves_to(step, own_)) all.receives.push_back({m.source, target(m)});
    return all;
  }

  // With split peers: a block for the member at each offset, from the member at the same offset the other way;
  // combining returns them.
  Transfers at_offsets() const {
    const std::int64_t block = elements(source()) / op_.peers.size();
    Transfers all;
    for (std::int64_t offset = op_.peers.first; offset < op_.peers.last; ++offset) {
      const int o = static_cast<int>(offset), after = (own_ + o) % group_.size,
                before = (own_ - o + group_.size) % group_.size;
      const std::int64_t at = (offset - op_.peers.first) * block;
      all.sends.push_back({to_owners(op_) ? after : before, whole(source()).part(at, block)});
      all.receives.push_back({to_owners(op_) ? before : after, whole(result()).part(at, block)});
    }
    return all;
  }

  // Sums of all elements, or on each member of those that it updates.
  LoweredOp reduce_gradients(RowRange part) const {
    const auto own = [&](RowRange range) { return Region{source(), range.first, range.size()}; };
    const auto sums = [&](RowRange range) { return Region{result(), range.first, range.size()}; };
    if (op_.collective() == Collective::AllReduce) return {{native(own(part), sums(part))}};
    const Shards shards(part, group_.size);
    LoweredOp all;
    if (shards.size() > 0) {
      all.scratch = shards.size();
      all.steps = {native(own(shards.sharded()), scratch(0, shards.size())),
                   LocalSteps{{LocalKind::Copy, scratch(0, shards.size()), sums(shards.of(own_))}}};
    }
    if (const RowRange rest = shards.rest(); rest.size() > 0)
      all.steps.push_back(NativeCollective{Collective::AllReduce, own(rest), sums(rest)});
    return all;
  }

  // Elements of the tensors that are read, as if these stood one after another.
  std::vector<Region> pieces(RowRange of_all) const {
    std::vector<Region> all;
    std::int64_t begin = 0;
    for (TensorId id : s_.reads_of(op_)) {
      const std::int64_t first = std::max(of_all.first - begin, std::int64_t{0}),
                         last = std::min(of_all.last - begin, elements(id));
      if (first < last) all.push_back({id, first, last - first});
      begin += elements(id);
    }
    return all;
  }

  // Each member gives its shard. Scratch memory holds it, and then all shards where they go to several tensors.
  LoweredOp gather_parameters() const {
    const Shards shards(op_.gradients, group_.size);
    const std::int64_t own = shards.size(), gathered = own * group_.size;
    LocalSteps give, take;
    std::int64_t at = 0;
    for (const Region& piece : pieces(shards.of(own_))) {
      give.push_back({LocalKind::Copy, piece, scratch(at, piece.count)});
      at += piece.count;
    }
    const std::vector<Region> targets = pieces(shards.sharded());
    if (targets.size() == 1) return {{std::move(give), native(scratch(0, own), targets.front())}, own};
    for (const Region& piece : targets) {
      take.push_back({LocalKind::Copy, scratch(at, piece.count), piece});
      at += piece.count;
    }
    return {{std::move(give), native(scratch(0, own), scratch(own, gathered)), std::move(take)}, own + gathered};
  }

  // The columns (L, M / mp) of all members, of which each keeps the rows of its own tokens (T, M).
  LoweredOp gather_columns() const {
    const std::int64_t members = group_.size, all = elements(source()), block = all / members;
    const std::int64_t width = s_.hidden, cols = width / members, rows = block / cols;
    LocalSteps keep;
    for (std::int64_t m = 0; m < members; ++m)
      keep.push_back(
          {LocalKind::Copy, scratch(m * all + own_ * block, cols), {result(), m * cols, cols}, {rows, cols, width}});
    return {{native(whole(source()), scratch(0, members * all)), std::move(keep)}, members * all};
  }

  // The rows (T, M) of all members, of which each keeps its own columns (L, M / mp).
  LoweredOp gather_own_columns() const {
    const std::int64_t all = elements(result()) * group_.size, width = s_.hidden, cols = width / group_.size;
    const LocalStep keep{LocalKind::Copy, scratch(own_ * cols, cols), {result(), 0, cols}, {all / width, width, cols}};
    return {{native(whole(source()), scratch(0, all)), LocalSteps{keep}}, all};
  }

  // Each stage gives its own tensor. On the ranks of other stages, the sum is that of another op.
  LoweredOp join_stages() const {
    const int rank_class = s_.groups.pp > 1 ? s_.class_of_rank(rank_) : s_.class_of(op_);
    const auto reads = s_.reads_of(op_);
    const auto own = std::ranges::find_if(reads, [&](TensorId id) { return tensor(id).rank_class == rank_class; });
    check(own != reads.end(), "a sum over stages without this one's part");
    return {{native(whole(*own), rank_class == s_.class_of(op_) ? whole(result()) : Region())}};
  }

  // The gathered shards' gradients: each member adds those of its own shard.
  LoweredOp return_gradient() const {
    const std::int64_t own = elements(result());
    return {{native(whole(source()), scratch(0, own)), LocalSteps{{LocalKind::Add, scratch(0, own), whole(result())}}},
            own};
  }

  // The place of a shadowed expert in the tensor of its owner's experts, each of them of `size` elements.
  std::pair<int, Region> owned(TensorId experts, std::int64_t size) const {
    const std::int64_t each = elements(experts) / size;
    return {static_cast<int>(op_.expert / each), {experts, op_.expert % each * size, size}};
  }

  LoweredOp broadcast_shadow() const {
    const auto [owner, weights] = owned(source(), elements(result()));
    return {{native(weights, whole(result()), owner)}};
  }

  LoweredOp return_shadow_gradient() const {
    const std::int64_t size = elements(source());
    const auto [owner, gradient] = owned(result(), size);
    LocalSteps add;
    if (own_ == owner) add.push_back({LocalKind::Add, scratch(0, size), gradient});
    return {{native(whole(source()), scratch(0, size), owner), std::move(add)}, size};
  }

  // A stage's place in its group is its rank class.
  LoweredOp between_stages(const StageEnds& ends) const {
    const auto [sender, receiver] = ends;
    Transfers message;
    message.arrives = result();
    if (own_ == receiver) message.receives.push_back({sender, whole(result())});
    if (own_ != sender) return {{LocalSteps(), std::move(message)}};
    const std::int64_t size = elements(result());
    message.sends.push_back({receiver, scratch(0, size)});
    const bool shared = tensor(result()).kind == TensorKind::SharedGradient;
    return {{shared ? shared_gradients(scratch(0, size)) : stage_sum(scratch(0, size)), std::move(message)}, size};
  }

  // The sum of what is read, where chunks of tokens stand one after the other.
  LocalSteps stage_sum(const Region& sum) const {
    LocalSteps all{{LocalKind::Zero, {}, sum}};
    std::int64_t next_chunk = 0;
    for (TensorId id : s_.reads_of(op_)) {
      const bool chunk = tensor(id).chunk >= 0;
      const std::int64_t first = chunk ? next_chunk : 0;
      check(first + elements(id) <= sum.count, "a part larger than the message");
      all.push_back({LocalKind::Add, whole(id), sum.part(first, elements(id))});
      if (chunk) next_chunk += elements(id);
    }
    return all;
  }

  // One range after the other.
  LocalSteps shared_gradients(const Region& message) const {
    LocalSteps all;
    std::int64_t at = 0;
    for (const auto& [id, range] : exchanged_ranges(s_, op_, rank_)) {
      all.push_back({LocalKind::Copy, whole(id).part(range.first, range.size()), message.part(at, range.size())});
      at += range.size();
    }
    check(at == message.count, "gradients of another size than their message");
    return all;
  }

  const Schedule& s_;
  const Op& op_;
  Subgroup group_;
  int rank_;
  int own_;  // place in the group
};

}  // namespace

LoweredOp lower(const Schedule& schedule, const Op& op, int rank) {
  return Lowering(schedule, op, rank).lowered();
}

Transfers messages_of(const NativeCollective& all_to_all, int members) {
  const std::int64_t block = all_to_all.from.count / members;
  Transfers all;
  for (int peer = 0; peer < members; ++peer) {
    all.sends.push_back({peer, all_to_all.from.part(peer * block, block)});
    all.receives.push_back({peer, all_to_all.to.part(peer * block, block)});
  }
  return all;
}

bool to_owners(const Op& op) {
  const OpEntry& entry = entry_of(op.kind);
  return entry.to_experts == (op.phase == Phase::Forward || entry.stands_alone);
}

}  // namespace dovetail
