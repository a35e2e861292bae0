// SPDX-License-Identifier: Apache-2.0
#include "exec/device/rank_regions.hpp"

#include "exec/device/device_op.hpp"
#include "exec/device/end_bodies.hpp"

namespace dovetail::exec {

template <class Scalar>
RankRegions<Scalar>::RankRegions(Recorder& out, const GroupMember& member, std::int64_t scratch)
    : out_(&out), member_(&member), elements_(scratch) {}

template <class Scalar>
std::int64_t RankRegions<Scalar>::unit(const Region& region) const {
  return region.tensor == Region::scratch ? static_cast<std::int64_t>(sizeof(Scalar))
                                          : member_->element_bytes(region.tensor);
}

template <class Scalar>
std::byte* RankRegions<Scalar>::at(const Region& region) {
  const bool in_scratch = region.tensor == Region::scratch;
  if (in_scratch && scratch_ == nullptr) scratch_ = reinterpret_cast<std::byte*>(out_->scratch<Scalar>(elements_));
  return (in_scratch ? scratch_ : member_->at(region.tensor)) + region.first * unit(region);
}

template <class Scalar>
void RankRegions<Scalar>::record(const LocalSteps& steps) {
  for (const LocalStep& step : steps) switch (step.kind) {
      case LocalKind::Zero:
        out_->zero(scalars(step.to), step.to.count);
        break;
      case LocalKind::Copy:
        copy(step);
        break;
      case LocalKind::Add:
        record_sum<Scalar>(*out_, scalars(step.to), scalars(step.from), scalars(step.to), step.to.count);
        break;
    }
}

template <class Scalar>
void RankRegions<Scalar>::copy(const LocalStep& step) {
  const RowStrides& strides = step.strides;
  if (strides.rows == 1) return out_->copy(at(step.to), at(step.from), bytes(step.to));
  out_->launch(strides.rows,
               CopyColumns<Scalar>{scalars(step.from), strides.from, scalars(step.to), strides.to, step.to.count});
}

template class RankRegions<double>;
template class RankRegions<float>;
template class RankRegions<Bf16>;

}  // namespace dovetail::exec
