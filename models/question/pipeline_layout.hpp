// SPDX-License-Identifier: Apache-2.0
// Layout strings of pipelines, as Megatron-LM writes them ("Et*2|(tt|)*5t|tmL"): E is the embedding, t a transformer
// layer, m a layer of multi-token prediction, L the output head with its loss, and | the border of two stages. *n
// repeats the item before it, or the group in parentheses before it. Spaces and commas mean nothing.
#pragma once
#include <string_view>
#include <vector>

namespace dovetail {

// The contents of one (virtual) stage of a layout.
struct LayoutStage {
  int layers = 0;
  int predictions = 0;  // m
  bool embedding = false, head = false;
  friend bool operator==(const LayoutStage&, const LayoutStage&) = default;
};

// Throws InputError at /parallelism/pipeline_layout with the position, counted from 1, of what is wrong. The embedding
// is the very first item, the head the very last, and no transformer layer follows an m.
std::vector<LayoutStage> parse_pipeline_layout(std::string_view layout);

}  // namespace dovetail
