// SPDX-License-Identifier: Apache-2.0
// Products as BLAS takes them, and the batches of the experts' rows.
#include "exec/device/product.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "exec/device/device_memory.hpp"
#include "exec/step/row_runs.hpp"

using namespace dovetail;
using namespace dovetail::exec;

namespace {

std::vector<double> counting(std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i % 7) - 3);
  return values;
}

}  // namespace

TEST_CASE("A row-major product in BLAS's terms is the product, transposed or not") {
  const std::vector<double> a = counting(3 * 6), b = counting(4 * 6), c = counting(5 * 4);
  // 3 x 4 from columns 1..4 of (3, 6), 4 x 5 from a transposed (5, 4).
  std::vector<double> result(15, 1), expected(15, 1);
  multiply_plainly(blas_call(product<double>(Matrix<const double>(a.data(), 3, 6).cols_from(1, 4),
                                             transposed(Matrix<const double>(c.data(), 5, 4)),
                                             Matrix<double>(result.data(), 3, 5), Into::Add)));
  multiply<double>(Matrix<const double>(a.data(), 3, 6).cols_from(1, 4),
                   transposed(Matrix<const double>(c.data(), 5, 4)), Matrix<double>(expected.data(), 3, 5), Into::Add);
  CHECK(result == expected);
  // (6, 4) transposed times (6, 3) transposed would be 4 x 6 by 3 x 6: a transposed left side.
  std::vector<double> left(24, 0), left_expected(24, 0);
  const Matrix<const double> tall(b.data(), 3, 4);
  multiply_plainly(blas_call(
      product<double>(transposed(tall), Matrix<const double>(a.data(), 3, 6), Matrix<double>(left.data(), 4, 6))));
  multiply<double>(transposed(tall), Matrix<const double>(a.data(), 3, 6), Matrix<double>(left_expected.data(), 4, 6));
  CHECK(left == left_expected);
}

TEST_CASE("A batch is its products one after the other") {
  const std::vector<double> a = counting(2 * 3 * 4), b = counting(2 * 4 * 5);
  std::vector<double> result(2 * 3 * 5), expected(2 * 3 * 5);
  multiply_plainly(blas_call(product<double>(Matrix<const double>(a.data(), 3, 4), Matrix<const double>(b.data(), 4, 5),
                                             Matrix<double>(result.data(), 3, 5), Into::Overwrite, {2, 12, 20, 15})));
  for (int i = 0; i < 2; ++i)
    multiply<double>(Matrix<const double>(a.data() + 12 * i, 3, 4), Matrix<const double>(b.data() + 20 * i, 4, 5),
                     Matrix<double>(expected.data() + 15 * i, 3, 5));
  CHECK(result == expected);
}

TEST_CASE("Batches hold every run of every expert once") {
  LayerShape s;
  s.local_experts = 3;
  s.row_copies = 2;
  // Blocks (copy, expert) of 4 rows each; shared rows 1..2 of each block in a, 0..1 in b (which has 2 rows a block).
  const RowRange a{0, 4}, b{1, 3};
  for (BatchOf what : {BatchOf::Rows, BatchOf::Sums}) {
    std::set<std::vector<std::int64_t>> found;
    for (const RunBatch& batch : run_batches(s, a, b, what)) {
      std::set<std::int64_t> experts;
      for (std::int64_t i = 0; i < batch.count; ++i) {
        experts.insert(batch.first_expert + i * batch.expert_step);
        found.insert({batch.first_expert + i * batch.expert_step, batch.first_a + i * batch.a_step,
                      batch.first_b + i * batch.b_step, batch.rows});
      }
      if (what == BatchOf::Sums) CHECK(std::ssize(experts) == batch.count);
    }
    std::set<std::vector<std::int64_t>> expected;
    for (std::int64_t copy = 0; copy < 2; ++copy)
      for (std::int64_t expert = 0; expert < 3; ++expert) {
        const std::int64_t block = copy * 3 + expert;
        expected.insert({expert, block * 4 + 1, block * 2, 2});
      }
    CHECK(found == expected);
    CHECK(run_batches(s, a, b, what).size() == 2);  // one for each copy: 3 experts beside each other
  }
}

TEST_CASE("Values survive their encoding as far as the format goes") {
  const Values values{0, 1, -2.5, 0x1p-20};
  for (Stored stored : {Stored::Double, Stored::Float, Stored::Bf16})
    CHECK(decode(encode(values, stored), stored) == values);
  CHECK(decode(encode({1 + 0x1p-9}, Stored::Bf16), Stored::Bf16) == Values{1});               // 8 digits: ties to even
  CHECK(decode(encode({1 + 3 * 0x1p-8}, Stored::Bf16), Stored::Bf16) == Values{1 + 0x1p-6});  // up, to an even one
}
