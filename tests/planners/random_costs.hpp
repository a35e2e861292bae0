// Random layers and experiments that planners are held against an oracle on.
#pragma once
#include <random>

#include "planners/four_case.hpp"

namespace dovetail::test {

// Testbed B with each cost 1/5 to 5 times its own, 1 to 6 layers, and capacities that degrees up to 4 divide.
Experiment random_testbed(std::mt19937& engine);

// Alphas and works over two decades; some without latency.
planners::MoeTimes random_moe(std::mt19937& engine);

}  // namespace dovetail::test
