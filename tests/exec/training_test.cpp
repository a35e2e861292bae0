// Trainings: every schedule's losses are those of the sequential reference, and a model learns.
#include "exec/run/training.hpp"

#include <catch2/catch.hpp>
#include <iostream>

#include "exec/host/host_executor.hpp"
#include "exec/run/numerics.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

Experiment small_language_model() {
  SmallExperiment s;
  s.dp = s.ep = s.mp = s.esp = 2;
  s.layers = 2;
  s.experts = 8;
  s.hidden = 16;
  s.heads = s.kv_heads = 2;
  s.head_size = 8;
  s.batch = 4;
  s.capacity_factor = 4;
  s.kind = ExpertKind::Gated;
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 32;
  return e;
}

TrainingReport train_here(const Experiment& e, const Plan& plan, Element element, int steps) {
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  ModelData data = random_model_data(e, 5, plan.micro_batches);
  const auto transport =
      make_inproc_transport(schedule->groups, e.cluster.gpus(), static_cast<int>(schedule->streams.size()));
  const auto executor = make_host_executor(e, schedule, element, data, {}, *transport);
  return train(*executor, e, *schedule, std::move(data), {steps, 5, true, {}});
}

}  // namespace

TEST_CASE("try") {
  for (Element element : {Element::Double, Element::Float})
    for (const char* name : {"deepspeed_moe", "fsmoe", "ampipe", "mpipemoe", "fastermoe"}) {
      Plan plan = shipped_plan(name);
      cut_rows(plan, 2);
      const TrainingReport r = train_here(small_language_model(), plan, element, 200);
      std::cout << name << " " << r.losses.front() << " " << r.losses[49] << " " << r.losses[99] << " "
                << r.losses.back() << " error " << r.loss_error << " weights " << r.weight_error << "\n";
      for (int i : {0, 1, 2, 5, 10, 20, 50, 100, 150, 199})
        std::cout << i << ":" << r.losses[i] / r.reference_losses[i] - 1 << " ";
      std::cout << "\n";
    }
}
