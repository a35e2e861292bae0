// SPDX-License-Identifier: Apache-2.0
// Parts of a layer's tokens beside the chunks of its experts: the same chunks, or all chunks in one part.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// The tensors of the parts' chunks, made when the first of a part is asked for.
template <class Make>
class PartByPart {
 public:
  PartByPart(const std::vector<TokenPart>& parts, Make make) : parts_(parts), make_(std::move(make)) {}
  TensorId operator()(int chunk) {
    const auto at = static_cast<std::size_t>(chunk);
    if (at == tensors_.size()) {
      const TensorIds made = make_(parts_[std::min(at, parts_.size() - 1)]);
      tensors_.insert(tensors_.end(), made.begin(), made.end());
    }
    return tensors_[at];
  }

 private:
  const std::vector<TokenPart>& parts_;
  Make make_;
  TensorIds tensors_;
};

// A part's share of the tensors of all chunks.
inline TensorIds of_part(const TokenPart& part, const TensorIds& chunks) {
  if (part.chunk < 0) return chunks;
  return {chunks[static_cast<std::size_t>(part.chunk)]};
}

}  // namespace dovetail::builder
