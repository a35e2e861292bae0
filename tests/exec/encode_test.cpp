// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "exec/host/host_kernels.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// 3 tokens of size 2, 2 experts with 3 rows, top 2.
struct OrderRun {
  LayerShape shape;
  Values tokens{1, 2, 3, 4, 5, 6};
  // (token, 3 expert + slot, score): token 0 to both experts; token 1 only to expert 1; token 2 to both.
  Values routing{0, 0, .5, 0, 4, .25, 1, 3, 1, 1, -1, .75, 2, 1, 2, 2, 5, .125};
  // The same (token, expert, slot).
  Values combine{.5, 0, 0, 0, .25, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, .125};
  Values mask{1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
  OrderRun() {
    shape.tokens = 3;
    shape.hidden = 2;
    shape.experts = 2;
    shape.top_k = 2;
    shape.capacity = 3;
  }
};

struct Chunks {  // of 3 rows: rows 0 to split, rows split to 3; all elements `fill`
  Values first, second;
  RowRange first_rows, second_rows;
  Chunks(std::int64_t split, double fill) : first_rows{0, split}, second_rows{split, 3} {
    first.assign(static_cast<std::size_t>(2 * split * 2), fill);
    second.assign(static_cast<std::size_t>(2 * (3 - split) * 2), fill);
  }
  std::vector<Chunk<double>> writable() { return {{first_rows, first.data()}, {second_rows, second.data()}}; }
  std::vector<Chunk<const double>> readable() { return {{first_rows, first.data()}, {second_rows, second.data()}}; }
};

}  // namespace

TEST_CASE("Encode puts tokens into their slots and zeros into the others") {
  OrderRun run;
  Chunks chunks(1, 99);
  encode_forward<double>(run.shape, matrix(run.tokens, 2), run.routing.data(), chunks.writable());
  CHECK(chunks.first == Values{1, 2, 3, 4});               // slot 0 of expert 0, of expert 1
  CHECK(chunks.second == Values{5, 6, 0, 0, 1, 2, 5, 6});  // slots 1 and 2 of expert 0, of expert 1
}

TEST_CASE("Decode adds rows weighted by their scores to the residual") {
  OrderRun run;
  Chunks chunks(2, 0);
  chunks.first = {10, 20, 30, 40, 50, 60, 70, 80};  // expert 0 slots 0, 1; expert 1 slots 0, 1
  chunks.second = {-1, -1, 8, 16};                  // expert 0 slot 2, unused; expert 1 slot 2
  Values output(6);
  decode_forward<double>(run.shape, matrix(run.tokens, 2), run.routing.data(), ScoresAt::Decode, chunks.readable(),
                         matrix(output, 2));
  CHECK(output == Values{1 + 5 + 17.5, 2 + 10 + 20, 3 + 50, 4 + 60, 5 + 60 + 1, 6 + 80 + 2});
}

TEST_CASE("The backward pass of decode and encode, with other chunks than forward") {
  OrderRun run;
  Chunks combined(2, 0), d_combined(1, 99);
  combined.first = {10, 20, 30, 40, 50, 60, 70, 80};
  combined.second = {-1, -1, 8, 16};
  Values above{1, 0, 0, 1, 1, 1}, more{1, 1, 1, 0, 0, 0}, sum(6), score_gradient(6, 99);
  const std::vector<Matrix<const double>> gradients{matrix(above, 2), matrix(more, 2)};
  add_up<double>(gradients, matrix(sum, 2));
  decode_backward<double>(run.shape, matrix(sum, 2), run.routing.data(), combined.readable(), score_gradient.data(),
                          d_combined.writable());
  CHECK(sum == Values{2, 1, 1, 1, 1, 1});
  CHECK(score_gradient == Values{40, 220, 110, 0, 70, 24});
  CHECK(d_combined.first == Values{1, .5, 1, 1});
  CHECK(d_combined.second == Values{2, 2, 0, 0, .5, .25, .125, .125});

  Values d_moe_input(6, 99);
  encode_backward<double>(run.shape, run.routing.data(), d_combined.readable(), matrix(d_moe_input, 2));
  CHECK(d_moe_input == Values{1.5, .75, 1, 1, 2.125, 2.125});
}

TEST_CASE("Dense order computes what sparse order does, with other chunks in every direction") {
  OrderRun run;
  Chunks sparse(1, 99), dense(2, 99);
  encode_forward<double>(run.shape, matrix(run.tokens, 2), run.routing.data(), sparse.writable());
  dense_encode_forward<double>(run.shape, matrix(run.tokens, 2), run.mask.data(), dense.writable());
  CHECK(dense.first == Values{1, 2, 5, 6, 3, 4, 1, 2});  // slots 0 and 1 of expert 0, of expert 1
  CHECK(dense.second == Values{0, 0, 5, 6});

  Chunks combined(2, 0);
  combined.first = {10, 20, 30, 40, 50, 60, 70, 80};
  combined.second = {-1, -1, 8, 16};
  Values output(6), dense_output(6);
  decode_forward<double>(run.shape, matrix(run.tokens, 2), run.routing.data(), ScoresAt::Decode, combined.readable(),
                         matrix(output, 2));
  dense_decode_forward<double>(run.shape, matrix(run.tokens, 2), run.combine.data(), combined.readable(),
                               matrix(dense_output, 2));
  CHECK(dense_output == output);

  Values above{1, 0, 0, 1, 1, 1}, more{1, 1, 1, 0, 0, 0}, sum(6), d_combine(18, 99);
  const std::vector<Matrix<const double>> gradients{matrix(above, 2), matrix(more, 2)};
  Chunks d_combined(1, 99);
  add_up<double>(gradients, matrix(sum, 2));
  dense_decode_backward<double>(run.shape, matrix(sum, 2), run.combine.data(), combined.readable(), d_combine.data(),
                                d_combined.writable());
  CHECK(sum == Values{2, 1, 1, 1, 1, 1});
  CHECK(d_combined.first == Values{1, .5, 1, 1});
  CHECK(d_combined.second == Values{2, 2, 0, 0, .5, .25, .125, .125});
  CHECK(d_combine[0] == 40);   // token 0, expert 0, slot 0: (2, 1) . (10, 20)
  CHECK(d_combine[4] == 220);  // (2, 1) . (70, 80)
  CHECK(d_combine[17] == 24);  // token 2, expert 1, slot 2: (1, 1) . (8, 16)

  Values d_moe_input(6, 99), d_mask(18, 99);
  dense_encode_backward<double>(run.shape, matrix(run.tokens, 2), run.mask.data(), d_combined.readable(),
                                matrix(d_moe_input, 2), d_mask.data());
  CHECK(d_moe_input == Values{1.5, .75, 1, 1, 2.125, 2.125});
  CHECK(d_mask[0] == 1 * 1 + 2 * .5);  // token 0 . slot 0 of expert 0
}

TEST_CASE("Adam's first step moves each weight by the rate against its gradient") {
  Values weights{1, 2, 3}, mean(3), variance(3);
  const Values gradient{4, -.5, 0};
  adam_step<double>(3, gradient.data(), 1, weights.data(), mean.data(), variance.data());
  CHECK(weights[0] == Approx(1 - 1e-3));
  CHECK(weights[1] == Approx(2 + 1e-3));
  CHECK(weights[2] == 3);
  CHECK(mean[0] == Approx(.4));
  CHECK(variance[0] == Approx(.016));
  adam_step<double>(3, gradient.data(), 2, weights.data(), mean.data(), variance.data());
  CHECK(weights[0] == Approx(1 - 2e-3));
}
