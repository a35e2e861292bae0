#include "exec/routing.hpp"

#include <catch2/catch.hpp>

using namespace dovetail::exec;

TEST_CASE("All first choices take slots before all second choices, in token order") {
  // Three tokens, three experts: all prefer expert 0; then experts 1, 2 and 1.
  const std::vector<double> p{.6, .3, .1, .5, .2, .3, .7, .2, .1};
  const Routing r = route(p, 3, 2, 2);
  const auto is = [&](std::size_t i, int expert, int slot) { return r[i].expert == expert && r[i].slot == slot; };
  CHECK(is(0, 0, 0));
  CHECK(is(1, 1, 0));
  CHECK(is(2, 0, 1));
  CHECK(is(3, 2, 0));
  CHECK(is(4, 0, -1));  // expert 0 is full
  CHECK(is(5, 1, 1));
  CHECK(drop_count(r) == 1);
}

TEST_CASE("Second choices find what first choices left") {
  const std::vector<double> p{.6, .4, .4, .6};  // 0 then 1; 1 then 0
  const Routing r = route(p, 2, 2, 1);
  CHECK(r[0].slot == 0);
  CHECK(r[1].slot == -1);
  CHECK(r[2].slot == 0);
  CHECK(r[3].slot == -1);
}

TEST_CASE("Ties go to the lower expert") {
  const Routing r = route({.25, .25, .25, .25}, 4, 3, 1);
  CHECK(r[0].expert == 0);
  CHECK(r[1].expert == 1);
  CHECK(r[2].expert == 2);
}

TEST_CASE("Probabilities are a softmax of the router's products") {
  const std::vector<double> x{1, 2}, w{0, std::log(2.0), 0, 0};  // logits 0 and log 2
  const std::vector<double> p = router_probabilities<double>({x.data(), 1, 2}, {w.data(), 2, 2});
  CHECK(p[0] == Approx(1.0 / 3));
  CHECK(p[1] == Approx(2.0 / 3));
  std::vector<double> large{1000, 1000 + std::log(3.0)};
  softmax(large);
  CHECK(large[1] == Approx(.75));
}
