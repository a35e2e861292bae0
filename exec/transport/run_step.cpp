#include "exec/transport/run_step.hpp"

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// `blocks` blocks of a buffer.
template <class Scalar>
std::span<Scalar> piece(std::span<Scalar> buffer, std::int64_t first, std::int64_t blocks, std::size_t block) {
  const auto begin = static_cast<std::size_t>(first) * block, size = static_cast<std::size_t>(blocks) * block;
  check(begin + size <= buffer.size(), "a step moves a block outside of its buffer");
  return buffer.subspan(begin, size);
}

}  // namespace

template <class Scalar>
double run_step(const CollectiveStep& step, const StepBuffers<Scalar>& buffers, Communicator& communicator,
                double ready) {
  const std::size_t block = buffers.source.size() / static_cast<std::size_t>(step.source_blocks());
  check(block * static_cast<std::size_t>(step.source_blocks()) == buffers.source.size() &&
            block * static_cast<std::size_t>(step.target_blocks()) == buffers.target.size(),
        "buffers do not consist of the blocks of their step");
  const int rank = communicator.rank();
  const auto source = [&](const Move& m) { return piece(buffers.source, m.source_block, m.blocks, block); };
  const auto target = [&](const Move& m) { return piece(buffers.target, m.target_block, m.blocks, block); };
  if (step.kind == StepKind::Copy) {
    for (const Move& m : moves_from(step, rank)) std::ranges::copy(source(m), target(m).begin());
    return ready;
  }
  std::vector<Send> sends;
  for (const Move& m : moves_from(step, rank))
    sends.push_back({m.target, source(m).data(), static_cast<std::int64_t>(source(m).size())});
  std::vector<Receive> receives;
  for (const Move& m : moves_to(step, rank))
    receives.push_back({m.source, target(m).data(), static_cast<std::int64_t>(target(m).size())});
  const Element element = std::is_same_v<Scalar, float> ? Element::Float : Element::Double;
  return communicator.send_receive(sends, receives, element, ready);
}

template double run_step<float>(const CollectiveStep&, const StepBuffers<float>&, Communicator&, double);
template double run_step<double>(const CollectiveStep&, const StepBuffers<double>&, Communicator&, double);

}  // namespace dovetail::exec
