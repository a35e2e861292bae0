// SPDX-License-Identifier: Apache-2.0
#include "exec/host/gemm.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

double at(const Factor<double>& f, std::int64_t i, std::int64_t j) {
  return f.transposed ? f.matrix.row(j)[i] : f.matrix.row(i)[j];
}

void check_product(const Factor<double>& a, const Factor<double>& b, Matrix<double> c, Into into) {
  Values before;
  for (std::int64_t i = 0; i < c.rows; ++i) before.insert(before.end(), c.row(i), c.row(i) + c.cols);
  multiply(a, b, c, into);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j) {
      double sum = into == Into::Add ? before[static_cast<std::size_t>(i * c.cols + j)] : 0;
      for (std::int64_t k = 0; k < a.cols(); ++k) sum += at(a, i, k) * at(b, k, j);
      CHECK(c.row(i)[j] == Approx(sum).margin(1e-13));
    }
}

}  // namespace

TEST_CASE("Products of blocks of matrices, transposed or not, overwrite or add") {
  Values a = random_values(60, 1), b = random_values(80, 2), c = random_values(70, 3);
  const Matrix<double> left = matrix(a, 10).rows_from(1, 3).cols_from(2, 4);     // 3 x 4 within 6 x 10
  const Matrix<double> right = matrix(b, 10).rows_from(2, 4).cols_from(1, 5);    // 4 x 5 within 8 x 10
  const Matrix<double> right_t = matrix(b, 10).rows_from(1, 5).cols_from(3, 4);  // 5 x 4
  const Matrix<double> left_t = matrix(a, 10).rows_from(1, 4).cols_from(2, 3);   // 4 x 3
  const Matrix<double> result = matrix(c, 10).rows_from(2, 3).cols_from(4, 5);
  for (Into into : {Into::Overwrite, Into::Add}) {
    check_product(left, right, result, into);
    check_product(left, transposed(right_t), result, into);
    check_product(transposed(left_t), right, result, into);
    check_product(transposed(left_t), transposed(right_t), result, into);
  }
}

TEST_CASE("A product overwrites even NaN, and leaves what is outside of its block") {
  Values a(4, 1), b(4, 1), c(6, std::nan(""));
  c[2] = c[5] = 7;
  multiply(matrix(a, 2), matrix(b, 2), matrix(c, 3).cols_from(0, 2));
  CHECK(c == Values{2, 2, 7, 2, 2, 7});
}

TEST_CASE("A product of shapes that do not fit is a bug") {
  Values a(6), b(6), c(9);
  CHECK_THROWS_AS(multiply(matrix(a, 3), matrix(b, 3), matrix(c, 3)), InternalError);
}
