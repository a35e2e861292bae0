// SPDX-License-Identifier: Apache-2.0
#include "reports/flags/megatron_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "models/base/names.hpp"

namespace dovetail::reports {
namespace {

class ModelArguments {
 public:
  explicit ModelArguments(const Experiment& e) : e_(e), m_(e.model) {}

  std::string run() {
    line(fmt::format("--num-layers {}", e_.workload.layers));
    line(fmt::format("--hidden-size {}", m_.hidden));
    heads();
    windows();
    recurrence();
    feed_forward();
    small_parts();
    if (!m_.dense()) {
      experts();
      router();
    }
    if (e_.framework.dropout_masks <= 0) line("--attention-dropout 0.0 --hidden-dropout 0.0");
    if (e_.workload.attention == AttentionKernel::Eager) line("--attention-backend unfused");
    return fmt::format("# the model, {}\nMODEL_ARGS=(\n{})\n", m_.name, text_);
  }

 private:
  void line(std::string_view text) { text_ += fmt::format("  {}\n", text); }
  void cannot(std::string_view text) { line(fmt::format("# no argument says: {}", text)); }

  void heads() {
    const Attention& a = m_.attention;
    line(fmt::format("--num-attention-heads {}", a.heads));
    if (a.gate == OutputGate::Element) line("--attention-output-gate");
    if (a.gate == OutputGate::Head) cannot("a gate of each head of attention's output");
    if (a.value_size > 0 && a.kind == AttentionKind::GroupedQuery)
      cannot(fmt::format("values of {} elements beside keys of {}", a.value_size, a.head_size));
    if (a.shared_values) cannot("keys that are values too");
    if (a.windowed.heads > 0) cannot("other heads in layers with windows");
    if (a.kind == AttentionKind::Latent) {
      line("--multi-latent-attention");
      if (a.q_rank > 0) line(fmt::format("--q-lora-rank {}", a.q_rank));
      line(fmt::format("--kv-lora-rank {}", a.kv_rank));
      line(fmt::format("--qk-head-dim {}", a.nope_size));
      line(fmt::format("--qk-pos-emb-head-dim {}", a.rope_size));
      line(fmt::format("--v-head-dim {}", a.value_size));
      line("--qk-layernorm");
      return;
    }
    if (a.kv_heads != a.heads) line(fmt::format("--group-query-attention --num-query-groups {}", a.kv_heads));
    if (std::int64_t{a.head_size} * a.heads != m_.hidden) line(fmt::format("--kv-channels {}", a.head_size));
    if (a.qk_norm != QkNorm::None) line("--qk-layernorm");
    if (a.sinks) line("--softmax-type learnable");
    if (a.qk_norm == QkNorm::Width) cannot("norms of queries and keys of all heads together; these are of each head");
  }

  void windows() {
    const Attention& a = m_.attention;
    if (a.window == 0) return;
    if (a.windows == Windows::Chosen) return chosen_positions();
    if (a.windows == Windows::Chunks) return cannot(fmt::format("attention in chunks of {} positions", a.window));
    line(fmt::format("--window-size \"({},0)\"", a.window));
    const int layers = e_.workload.layers, whole = layers - std::min(a.windowed_layers, layers);
    if (whole > 0) marked_layers("--window-attn-skip-freq", layers - whole);
  }

  // So many of the layers as a frequency of the others, or as a list.
  void marked_layers(std::string_view option, int marked) {
    const int layers = e_.workload.layers, others = layers - marked;
    if (others > 0 && layers / (layers / others) == others && layers / others > 1)
      line(fmt::format("{} {}", option, layers / others));
    else
      line(fmt::format("{} \"([1]*{}+[0]*{})\"", option, marked, others));
  }

  void chosen_positions() {
    const Attention& a = m_.attention;
    line("--experimental-attention-variant dsa");
    line(fmt::format("--dsa-indexer-topk {} --dsa-indexer-n-heads {} --dsa-indexer-head-dim {}", a.window,
                     a.index.heads, a.index.size));
    if (a.windowed_layers < e_.workload.layers) cannot("layers that see the whole sample beside chosen positions");
  }

  void recurrence() {
    const Recurrence& r = m_.recurrence;
    if (r.layers == 0) return;
    if (r.kind != RecurrenceKind::GatedDelta || m_.attention.windows == Windows::Chosen)
      return cannot(fmt::format("layers of {}", name_in(recurrence_kind_names, r.kind)));
    line("--experimental-attention-variant gdn");
    marked_layers("--linear-attention-freq", r.layers);
    line(fmt::format("--linear-num-value-heads {} --linear-value-head-dim {}", r.heads, r.value_size));
    line(fmt::format("--linear-num-key-heads {} --linear-key-head-dim {}", r.key_heads, r.key_size));
    line(fmt::format("--linear-conv-kernel-dim {}", r.convolution));
  }

  void feed_forward() {
    const int hidden = m_.dense_hidden > 0 ? m_.dense_hidden : m_.expert_hidden;
    line(fmt::format("--ffn-hidden-size {}", hidden));
    if (m_.expert_kind == ExpertKind::Gated) line("--swiglu");
    if (m_.norms == NormKind::Rms) line("--normalization RMSNorm");
  }

  void small_parts() {
    if (m_.biases != Biases::All) line("--disable-bias-linear");
    if (m_.biases == Biases::QueryKeyValue || m_.biases == Biases::Attention) line("--add-qkv-bias");
    if (m_.biases == Biases::Attention) cannot("a bias of attention's output without those of other layers");
    if (!m_.tied_embeddings) line("--untie-embeddings-and-output-weights");
    const int positions = m_.learned_positions > 0 ? m_.learned_positions : std::max(e_.workload.sequence, m_.sequence);
    line(m_.learned_positions > 0 ? "--position-embedding-type learned_absolute" : "--position-embedding-type rope");
    line(fmt::format("--max-position-embeddings {}", positions));
    if (m_.vocabulary == 0) return cannot("the vocabulary, which is not known here");
    line(fmt::format("--vocab-size {}", m_.vocabulary));
    constexpr int usual = 128;
    const int of_rank = (m_.vocabulary + e_.parallelism.mp - 1) / e_.parallelism.mp, unit = std::gcd(of_rank, usual);
    if (unit != usual) line(fmt::format("--make-vocab-size-divisible-by {}", unit));
  }

  // "([0]*3+[1]*58)", or "([0]*1+[1]*1)*24" of layers in turns.
  std::string moe_layers() const {
    const int layers = e_.workload.layers, every = m_.moe_every;
    if (m_.first_dense == 0 && layers % every == 0) return fmt::format("([0]*{}+[1]*1)*{}", every - 1, layers / every);
    std::string list;
    int run = 0;
    for (int layer = 0; layer < layers; ++layer) {
      ++run;
      const bool moe = m_.is_moe(layer);
      if (layer + 1 < layers && m_.is_moe(layer + 1) == moe) continue;
      list += fmt::format("{}[{}]*{}", list.empty() ? "" : "+", moe ? 1 : 0, run);
      run = 0;
    }
    return fmt::format("({})", list);
  }

  void experts() {
    line(fmt::format("--num-experts {}", m_.experts));
    line(fmt::format("--moe-ffn-hidden-size {}", m_.expert_hidden));
    line(fmt::format("--moe-router-topk {}", e_.workload.top_k));
    if (m_.first_dense > 0 || m_.moe_every > 1) line(fmt::format("--moe-layer-freq \"{}\"", moe_layers()));
    const SharedExpertSizes& shared = m_.shared_experts;
    if (shared.count == 0) return;
    line(fmt::format("--moe-shared-expert-intermediate-size {}", std::int64_t{shared.count} * shared.hidden));
    if (shared.gate) line("--moe-shared-expert-gate");
  }

  void router() {
    const Router& r = m_.router;
    const bool softmax = r.scoring == Scoring::Softmax, several = e_.workload.top_k > 1;
    if (!softmax) line(fmt::format("--moe-router-score-function {}", name_in(scoring_names, r.scoring)));
    if (softmax && !(r.normalise && several)) line("--moe-router-pre-softmax");
    if (!softmax && !r.normalise && several) cannot("scores of each expert alone that are not divided by their sum");
    if (r.groups > 1)
      line(fmt::format("--moe-router-num-groups {} --moe-router-group-topk {}", r.groups, r.top_groups));
    if (r.scale != 1) line(fmt::format("--moe-router-topk-scaling-factor {:g}", r.scale));
    if (r.correction_bias && !softmax) line("--moe-router-enable-expert-bias");
    if (r.correction_bias && softmax) cannot("a bias of each expert beside softmax scores");
  }

  const Experiment& e_;
  const Model& m_;
  std::string text_;
};

}  // namespace

std::string megatron_model_text(const Experiment& experiment) {
  return ModelArguments(experiment).run();
}

}  // namespace dovetail::reports
