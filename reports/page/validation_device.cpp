// SPDX-License-Identifier: Apache-2.0
#include "reports/page/validation_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.hpp"
#include "reports/data/validation_goals.hpp"
#include "reports/page/html_table.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

void begin_section(std::ostream& out, std::string_view title, std::string_view hint = {}) {
  out << "<section><h2>" << title << "</h2>";
  if (!hint.empty()) out << "<p class=\"hint\">" << hint << "</p>";
  out << "<div class=\"scroll\"><table>\n";
}

void end_section(std::ostream& out) {
  out << "</table></div></section>\n";
}

std::string memory_text(Bytes bytes) {
  return bytes > Bytes(0) ? reports::bytes(bytes) : "-";
}

std::string size_text(const DevicePoint& p) {
  std::string text;
  if (p.what == DeviceWorkKind::Product) {
    text = fmt::format("{} x ({} x {}) ({} x {})", p.batch, p.rows, p.inner, p.inner, p.columns);
  } else if (p.heads > 0) {
    text = fmt::format("{} sequences of {}, {} heads of {}, {} key heads", p.batch, p.rows, p.heads, p.columns,
                       p.kv_heads);
  } else if (p.rows == 1) {
    text = bytes(Bytes(static_cast<double>(p.columns) * size_of(p.dtype).value()));
  } else {
    text =
        fmt::format("{} pieces of {}", p.rows, bytes(Bytes(static_cast<double>(p.columns) * size_of(p.dtype).value())));
  }
  if (p.layout != ProductLayout::Plain) text += fmt::format(", {}", name_in(product_layout_names, p.layout));
  if (p.blocks > 0) text += fmt::format(", {} blocks", p.blocks);
  return escaped(text);
}

std::string prediction_text(const DevicePoint& p) {
  if (!p.predicted) return "-";
  return fmt::format("{} ({:+.1f} %)", duration(*p.predicted), 100 * (*p.predicted / p.median - 1));
}

std::string rate_text(const DevicePoint& p) {
  return p.flops > 0 ? fmt::format("{:.4g} TFLOP/s", 1e-12 * p.per_second())
                     : fmt::format("{:.4g} GB/s", 1e-9 * p.per_second());
}

std::string interval_text(const DevicePoint& p) {
  return fmt::format("{} - {}", duration(p.ci95_low), duration(p.ci95_high));
}

void write_peers(std::ostream& out, const DeviceStudy& device) {
  if (device.peers.empty()) return;
  begin_section(
      out, "Our kernels and PyTorch's, same sizes on the same device",
      "Efficiency: PyTorch's time over ours; above 100 % ours is faster. Rates of attention count half of the "
      "scores.");
  write_row(out, "th", {"Work", "Size", "Format", "Ours", "95 %", "PyTorch", "95 %", "Ours", "Efficiency"});
  for (const PeerComparison& p : device.peers)
    write_row(out, "td",
              {escaped(p.name), size_text(p.ours), std::string(name_in(dtype_names, p.ours.dtype)),
               duration(p.ours.median), interval_text(p.ours), duration(p.peer.median), interval_text(p.peer),
               rate_text(p.ours), fmt::format("{:.1f} %", 100 * p.efficiency())});
  end_section(out);
}

void write_step(std::ostream& out, const DeviceStudy& device) {
  if (!device.step) return;
  const StepComparison& s = *device.step;
  begin_section(
      out, "A step of the layer at degree 1",
      "PyTorch's step has no exchanges. Ours has: they are held to modelled times, so that only the time of its "
      "compute stream is comparable.");
  write_row(out, "th", {"Step", "Time", "95 %"});
  write_row(out, "td",
            {escaped("PyTorch: " + s.what), duration(s.peer),
             fmt::format("{} - {}", duration(s.peer_low), duration(s.peer_high))});
  write_row(out, "td", {escaped(s.system + ", compute stream busy"), duration(s.ours_compute), "-"});
  write_row(out, "td", {escaped(s.system + ", whole step with held exchanges"), duration(s.ours), "-"});
  end_section(out);
}

void write_errors(std::ostream& out, const DeviceStudy& device) {
  const std::vector<PointError> errors = point_errors(device);
  if (errors.empty()) return;
  begin_section(out, "Kernels alone: predicted against measured",
                "Sizes that the costs of the device were not fitted to.");
  write_row(out, "th", {"Work", "Points", "Mean absolute error", "Worst"});
  for (const PointError& e : errors)
    write_row(out, "td",
              {e.what, fmt::format("{}", e.points), percent(e.mean) + " %", fmt::format("{:+.1f} %", 100 * e.worst)});
  end_section(out);
}

void write_points(std::ostream& out, const DeviceStudy& device, bool together) {
  const auto wanted = [&](const DevicePoint& p) { return p.kept_speed.has_value() == together; };
  if (std::ranges::none_of(device.points, wanted)) return;
  if (together)
    begin_section(out, "What kinds of work leave each other",
                  "Share of its own speed that each keeps beside the others. Exchanges are as fast as their blocks can "
                  "copy within the device: a paced one would wait for its deadline and show nothing.");
  else
    begin_section(out, "Measured points of the device");
  write_row(out, "th",
            {"Work", "Size", "Format", "Time", "95 %", "Rate", together ? "Beside" : "Samples",
             together ? "Keeps" : "Predicted"});
  for (const DevicePoint& p : device.points) {
    if (!wanted(p)) continue;
    write_row(out, "td",
              {std::string(name_in(device_work_names, p.what)), size_text(p),
               std::string(name_in(dtype_names, p.dtype)), duration(p.median), interval_text(p), rate_text(p),
               together ? escaped(p.beside) : fmt::format("{}", p.samples),
               together ? fmt::format("{:.1f} %", 100 * *p.kept_speed) : prediction_text(p)});
  }
  end_section(out);
}

}  // namespace

void write_labels(std::ostream& out, const DeviceStudy& device) {
  if (device.labels.empty()) return;
  begin_section(out, "Device and libraries");
  for (const auto& [name, value] : device.labels) write_row(out, "td", {escaped(name), escaped(value)});
  end_section(out);
}

void write_goals(std::ostream& out, const Validation& v) {
  begin_section(out, "Goals");
  write_row(out, "th", {"Goal", "At most", "Reached", ""});
  bool missed = false;
  for (const Goal& goal : goals(v)) {
    missed = missed || !goal.hit();
    write_row(out, "td",
              {goal.what, percent(goal.most) + " %", percent(goal.value) + " %",
               goal.hit() ? "hit" : "<strong>MISS</strong>"});
  }
  end_section(out);
  if (!missed) return;
  begin_section(
      out, "Where predictions and ops differ",
      "Sums over all plans and their steps, the largest difference first. Times of ops that overlap do not add "
      "up to steps: an error of steps that no op shows is one of overlap.");
  write_row(out, "th", {"Op", "Pass", "Origin", "Predicted", "Measured", "Difference"});
  for (const OpTimes& op : op_differences(v)) {
    const Seconds more = op.measured - op.predicted;
    write_row(out, "td",
              {std::string(name_in(op_kind_names, op.op)), std::string(name_in(phase_names, op.phase)),
               op.emulated ? "emulated" : "measured", duration(op.predicted), duration(op.measured),
               (more < Seconds(0) ? "-" : "+") + duration(std::max(more, -1.0 * more))});
  }
  end_section(out);
}

void write_restores(std::ostream& out, const Validation& v) {
  const std::vector<RestoreGroup> groups = restore_groups(v);
  if (groups.empty()) return;
  begin_section(
      out, "Ways to restore what a step does not keep",
      "Plans that differ in nothing else. Peaks are by lifetimes, of a rank; allocated: by the device for all "
      "tensors, which share memory only where buffers are reused, and scratch.");
  write_row(out, "th",
            {"Size", "System", "Degree", "Restore", "Predicted", "Measured", "Error", "Predicted peak", "Measured peak",
             "Allocated"});
  for (const RestoreGroup& group : groups)
    for (const PlanOutcome* p : group.plans)
      write_row(out, "td",
                {escaped(group.cell->name), escaped(p->system), fmt::format("{}", p->plan.forward_degree),
                 std::string(name_in(restore_names, p->plan.restore)), duration(p->predicted), duration(p->median),
                 fmt::format("{:+.2f} %", 100 * p->error()), memory_text(p->memory.predicted_peak),
                 memory_text(p->memory.measured_peak), memory_text(p->memory.allocated)});
  end_section(out);
}

void write_device(std::ostream& out, const DeviceStudy& device) {
  write_peers(out, device);
  write_step(out, device);
  write_errors(out, device);
  write_points(out, device, true);
  write_points(out, device, false);
}

}  // namespace dovetail::reports
