// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/predict.hpp"

#include "bench/pipeline/evaluate.hpp"

namespace dovetail::bench {

Report predict(const Question& question, Backend& backend, Arenas arenas) {
  const Candidate& candidate = question.candidates.front();
  Evaluation evaluation(question, backend);
  const planners::PlanChoice choice = evaluation.choose(candidate);
  Report report{"simulate", question.experiment, {}, {}, {}, question.notes};
  report.results.push_back(evaluation.evaluate(candidate, choice, arenas));
  return report;
}

}  // namespace dovetail::bench
