// SPDX-License-Identifier: Apache-2.0
#include "exec/run/measure.hpp"

#include <algorithm>
#include <chrono>
#include <random>

#include "models/base/errors.hpp"

namespace dovetail::exec {

Seconds steady_time() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Measurement measure(const std::function<Seconds()>& step, const MeasureSettings& settings,
                    const std::function<bool()>& give_up, const std::function<Seconds()>& clock) {
  const Seconds start = clock();
  for (int i = 0; i < settings.warm_up; ++i) step();
  Measurement m;
  Seconds sum;
  while (m.stopped_by.empty()) {
    m.samples.push_back(step());
    sum += m.samples.back();
    const bool enough = static_cast<int>(m.samples.size()) >= settings.min_samples && sum >= settings.min_time;
    if (give_up && give_up())
      m.stopped_by = "given up";
    else if (enough && relative_deviation(m.samples) <= settings.deviation)
      m.stopped_by = "deviation";
    else if (clock() - start >= settings.limit && static_cast<int>(m.samples.size()) >= settings.least_samples)
      m.stopped_by = "time limit";
  }
  m.median = median(m.samples);
  std::tie(m.ci95_low, m.ci95_high) = bootstrap_median(m.samples, settings.seed);
  return m;
}

Seconds median(std::vector<Seconds> samples) {
  check(!samples.empty(), "the median of nothing");
  std::ranges::sort(samples);
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

double relative_deviation(const std::vector<Seconds>& samples) {
  std::vector<Seconds> sorted = samples;
  std::ranges::sort(sorted);
  const Seconds range = sorted[3 * sorted.size() / 4] - sorted[sorted.size() / 4];
  return range / 1.349 / median(samples);
}

std::pair<Seconds, Seconds> bootstrap_median(const std::vector<Seconds>& samples, std::uint64_t seed) {
  constexpr std::size_t resamples = 2000;
  std::mt19937_64 random(seed);
  std::vector<Seconds> medians, resample(samples.size());
  for (std::size_t i = 0; i < resamples; ++i) {
    for (Seconds& s : resample) s = samples[random() % samples.size()];
    medians.push_back(median(resample));
  }
  std::ranges::sort(medians);
  return {medians[resamples / 40], medians[resamples - 1 - resamples / 40]};
}

}  // namespace dovetail::exec
