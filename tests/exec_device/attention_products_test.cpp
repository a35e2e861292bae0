// SPDX-License-Identifier: Apache-2.0
// How many products attention issues: batches over samples or key heads, in groups of samples whose scratch memory has
// a limit, and the same numbers whatever the groups.
#include <catch2/catch.hpp>
#include <random>

#include "exec/device/attention_heads.hpp"
#include "exec/device/device.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "tests/exec_device/listing_queue.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// The work of rank 0's attention ops in a phase.
ListingQueue attention_work(const Experiment& e, const Plan& plan, Phase phase) {
  return work_of_ops(e, std::make_shared<const Schedule>(build_schedule(e, plan)), OpKind::Attention, phase,
                     record_attention<float>);
}

// Each rank attends to whole sequences of its own.
Experiment whole_sequences(int samples, int heads, int kv_heads) {
  Experiment e = round_numbers();
  e.model.attention.heads = heads;
  e.model.attention.kv_heads = kv_heads;
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1};
  e.workload.batch = samples;
  resolve_capacity(e);
  return e;
}

LayerShape heads_of(std::int64_t samples, std::int64_t heads, std::int64_t kv_heads, std::int64_t sequence) {
  LayerShape s;
  s.samples = samples;
  s.sequence = sequence;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_size = 4;
  return s;
}

// Attention leaves these of random projections, forward and backward, with a limit of scratch memory in bytes.
struct Left {
  std::vector<double> contexts, log_sum_exp, gradients;
  std::size_t products = 0;
  friend bool operator==(const Left& a, const Left& b) {
    return a.contexts == b.contexts && a.log_sum_exp == b.log_sum_exp && a.gradients == b.gradients;
  }
};
Left run_heads(const LayerShape& s, RowRange positions, std::int64_t limit) {
  const AttentionChunk chunk(s, positions, score_bytes<double>, limit);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  std::vector<double> projected(size(s.sequence_tokens() * s.projected_width())), d_contexts;
  for (double& x : projected) x = normal(random);
  for (std::int64_t i = 0; i < s.sequence_tokens() * s.context_width(); ++i) d_contexts.push_back(normal(random));
  Left left;
  left.contexts.resize(d_contexts.size());
  left.log_sum_exp.resize(size(s.sequence_tokens() * s.heads));
  left.gradients.resize(projected.size());
  std::vector<std::vector<double>> scratch(4, std::vector<double>(size(chunk.scores())));
  const AttentionScratch<double> forward{scratch[0].data(), scratch[1].data()};
  const AttentionBackwardScratch<double> backward{scratch[0].data(), scratch[2].data(), scratch[1].data(),
                                                  scratch[3].data()};
  const ProjectionColumns<const double> qkv(s, projected.data());
  Recorder out(nullptr, nullptr);
  record_heads(out, chunk, qkv, forward, left.log_sum_exp.data(),
               Matrix<double>(left.contexts.data(), s.sequence_tokens(), s.context_width()));
  record_heads_backward(out, chunk, {qkv, left.log_sum_exp.data()},
                        Matrix<const double>(d_contexts.data(), s.sequence_tokens(), s.context_width()), backward,
                        ProjectionColumns<double>(s, left.gradients.data()));
  const auto queue = make_loop_device()->make_queue();
  ListingQueue list;
  for (const DeviceWork& work : out.take()) {
    work(*queue);
    work(list);
  }
  left.products = list.products.size();
  return left;
}

}  // namespace

TEST_CASE("Attention of 32 samples and 4 query heads of one key head is a batch over samples for each head") {
  const Experiment e = whole_sequences(32, 4, 1);
  const ListingQueue forward = attention_work(e, Plan(), Phase::Forward),
                     backward = attention_work(e, Plan(), Phase::Backward);
  // Projections: q, k, v. Then for 4 heads scores and contexts, and the output's projection of all tokens at once.
  // With samples one by one it was 3 + 32 (4 + 4 + 1) = 291.
  CHECK(forward.products.size() == 3 + 4 + 4 + 1);
  CHECK(forward.kernels == 1);  // the softmax of all samples
  // Gradients of the output's weights and of contexts; for 4 heads scores again, gradients of probabilities, values,
  // queries and keys; of the projections' weights and of their input 3 each. It was 6 + 32 (2 + 5 x 4) = 710.
  CHECK(backward.products.size() == 2 + 5 * 4 + 6);
  CHECK(backward.kernels == 1);
  std::int64_t batches = 0;
  for (const ListingQueue* queue : {&forward, &backward})
    for (const Product& p : queue->products) {
      CHECK((p.batch.count == 32 || p.batch.count == 1));
      batches += p.batch.count == 32;
    }
  CHECK(batches == 2 * 4 + 5 * 4);
}

TEST_CASE("Attention of more key heads than samples is a batch over key heads for each sample") {
  const ListingQueue forward = attention_work(whole_sequences(2, 12, 6), Plan(), Phase::Forward);
  CHECK(forward.products.size() == 3 + 2 * 2 * 2 + 1);  // 2 samples by 2 query heads, scores and contexts
  CHECK(forward.products.at(3).batch.count == 6);
}

TEST_CASE("Attention in chunks of queries projects all samples' rows in one call, which brings them together first") {
  Plan plan;
  plan.scope = Scope::Block;
  plan.forward_degree = plan.backward_degree = 4;
  const Experiment e = whole_sequences(32, 4, 1);
  const ListingQueue forward = attention_work(e, plan, Phase::Forward),
                     backward = attention_work(e, plan, Phase::Backward);
  CHECK(forward.products.size() == 4 * (4 + 4 + 1));
  CHECK(forward.products.at(8).batch.count == 32);  // a chunk's rows of a sample do not follow those of another
  CHECK(forward.kernels == 4);
  CHECK(backward.products.size() == 4 * (2 + 5 * 4));
  CHECK(backward.kernels == 4 * 2);  // the softmax, and contexts brought together
  // Scores of chunk i of 4 queries reach 4 (i + 1) keys: 10 squares of 4 x 4 in place of 16, by 7 products of 4
  // columns. The output's projections (context and hidden 16 and 8 wide, 512 tokens) are 3 products.
  const double heads = 7. * 2 * 32 * 4 * 10 * 16 * 4, output = 3. * 2 * 512 * 16 * 8;
  CHECK(operations(forward.products) + operations(backward.products) == heads + output);
}

TEST_CASE("Samples are computed together as long as their scores and probabilities take a GiB at most") {
  const auto at_once = [](std::int64_t samples, std::int64_t heads, std::int64_t sequence) {
    return AttentionChunk(heads_of(samples, heads, 1, sequence), {0, sequence}, score_bytes<Bf16>).at_once;
  };
  CHECK(score_bytes<Bf16> == 6);
  CHECK(at_once(32, 4, 1024) == 32);  // 32 x 4 x 1024^2 x 6 B = .8e9 B
  CHECK(at_once(64, 4, 1024) == 32);  // 1.6e9 B; 42 fit: two groups of one size
  CHECK(at_once(100, 4, 1024) == 34);
  CHECK(at_once(2, 16, 16384) == 1);  // those of one sample are 26e9 B
}

TEST_CASE("Groups of samples leave the same numbers in scratch memory for one of them") {
  for (const RowRange positions : {RowRange{0, 6}, RowRange{2, 5}})
    for (const std::int64_t kv_heads : {1, 2, 4}) {
      CAPTURE(positions.first, kv_heads);
      const LayerShape s = heads_of(5, 4, kv_heads, 6);
      const std::int64_t of_sample = 4 * positions.size() * positions.last * score_bytes<double>;
      const Left all = run_heads(s, positions, 5 * of_sample), pairs = run_heads(s, positions, 2 * of_sample),
                 single = run_heads(s, positions, 1);
      CHECK(all == pairs);
      CHECK(all == single);
      // Groups of 5 samples, or of 2, 2 and 1, or of 1 five times; 7 products for each place of a query head among
      // those of its key head, by as many samples or key heads as there are fewer of.
      const auto calls = [&](std::int64_t samples) {
        return static_cast<std::size_t>(7 * 4 / kv_heads * std::min(samples, kv_heads));
      };
      CHECK(all.products == calls(5));
      CHECK(pairs.products == 2 * calls(2) + calls(1));
      CHECK(single.products == 5 * calls(1));
    }
}
