// The schedule of a learning rate, recognised by fit, and the steps at which the used rate departs from it. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "operations/performance/fit.h"

namespace stepwatch::operations {

enum class ScheduleKind { kConstant, kLinear, kCosine, kUnknown };
std::string_view NameOf(ScheduleKind kind);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kUnknown;
  std::optional<double> warm_up_until;  // the step; absent: no warm-up in the window
  double peak = 0;
  double error = 0;                 // the root mean square of the differences, as a share of the peak
  std::vector<Sampled> deviations;  // points that differ by more than kDeviationShare of the peak
};
inline constexpr double kDeviationShare = 0.05;

// `rates`: step and rate, ascending. Nullopt: fewer than eight points.
std::optional<Schedule> RecogniseSchedule(const std::vector<Sampled>& rates);

}  // namespace stepwatch::operations
