// The keys of "detectors", one for each number of detectors/settings.h.
#pragma once

#include <string_view>

#include "operations/detectors/settings.h"
#include "src/config/field.h"

namespace stepwatch::operations {

// A number above 0.
template <auto member, class T>
Status ReadPositive(const config::Field& field, config::Notes& notes, T& out) {
  using Kind = config::JsonValue::Kind;
  if (!field.value.Is(Kind::kInteger) && !field.value.Is(Kind::kFloat))
    return notes.Refuse(StatusCode::kWrongType, field, "a number above 0");
  if (!(field.value.number > 0)) return notes.Refuse(StatusCode::kOutOfRange, field, "a number above 0");
  out.*member = field.value.number;
  return Status();
}

template <auto member, class T>
Status ReadCount(const config::Field& field, config::Notes& notes, T& out) {
  return config::ReadInteger(field, notes, {1, 1'000'000}, out.*member);
}

inline constexpr config::KeyRule<StuckSettings> kStuckRules[] = {
    {{.key = "silence_seconds_min"}, ReadPositive<&StuckSettings::silence_seconds_min, StuckSettings>},
    {{.key = "standstill_factor"}, ReadPositive<&StuckSettings::standstill_factor, StuckSettings>},
    {{.key = "witness_steps"}, ReadPositive<&StuckSettings::witness_steps, StuckSettings>},
    {{.key = "witness_seconds"}, ReadPositive<&StuckSettings::witness_seconds, StuckSettings>},
    {{.key = "odd_rank_seconds"}, ReadPositive<&StuckSettings::odd_rank_seconds, StuckSettings>},
    {{.key = "start_seconds"}, ReadPositive<&StuckSettings::start_seconds, StuckSettings>},
    {{.key = "start_alive_seconds"}, ReadPositive<&StuckSettings::start_alive_seconds, StuckSettings>},
    {{.key = "phase_seconds"}, ReadPositive<&StuckSettings::phase_seconds, StuckSettings>},
    {{.key = "phase_alive_seconds"}, ReadPositive<&StuckSettings::phase_alive_seconds, StuckSettings>},
    {{.key = "phase_seconds_min"}, ReadPositive<&StuckSettings::phase_seconds_min, StuckSettings>},
    {{.key = "phase_alive_seconds_min"}, ReadPositive<&StuckSettings::phase_alive_seconds_min, StuckSettings>},
    {{.key = "phase_factor"}, ReadPositive<&StuckSettings::phase_factor, StuckSettings>},
};

inline constexpr config::KeyRule<NumericsSettings> kNumericsRules[] = {
    {{.key = "samples_min"}, ReadCount<&NumericsSettings::samples_min, NumericsSettings>},
    {{.key = "spike_ratio"}, ReadPositive<&NumericsSettings::spike_ratio, NumericsSettings>},
    {{.key = "spike_ratio_at_once"}, ReadPositive<&NumericsSettings::spike_ratio_at_once, NumericsSettings>},
    {{.key = "spike_rise_min"}, ReadPositive<&NumericsSettings::spike_rise_min, NumericsSettings>},
    {{.key = "spike_deviations"}, ReadPositive<&NumericsSettings::spike_deviations, NumericsSettings>},
    {{.key = "spike_samples"}, ReadCount<&NumericsSettings::spike_samples, NumericsSettings>},
    {{.key = "divergence_ratio"}, ReadPositive<&NumericsSettings::divergence_ratio, NumericsSettings>},
    {{.key = "divergence_rise_min"}, ReadPositive<&NumericsSettings::divergence_rise_min, NumericsSettings>},
    {{.key = "explosion_ratio"}, ReadPositive<&NumericsSettings::explosion_ratio, NumericsSettings>},
    {{.key = "collapse_ratio"}, ReadPositive<&NumericsSettings::collapse_ratio, NumericsSettings>},
    {{.key = "collapse_samples"}, ReadCount<&NumericsSettings::collapse_samples, NumericsSettings>},
    {{.key = "scaler_steps_max"}, ReadCount<&NumericsSettings::scaler_steps_max, NumericsSettings>},
};

inline constexpr config::KeyRule<PaceSettings> kPaceRules[] = {
    {{.key = "drop_ratio"}, ReadPositive<&PaceSettings::drop_ratio, PaceSettings>},
    {{.key = "block_seconds"}, ReadPositive<&PaceSettings::block_seconds, PaceSettings>},
    {{.key = "block_steps"}, ReadCount<&PaceSettings::block_steps, PaceSettings>},
    {{.key = "baseline_blocks"}, ReadCount<&PaceSettings::baseline_blocks, PaceSettings>},
    {{.key = "baseline_blocks_min"}, ReadCount<&PaceSettings::baseline_blocks_min, PaceSettings>},
    {{.key = "straggler_ratio"}, ReadPositive<&PaceSettings::straggler_ratio, PaceSettings>},
    {{.key = "straggler_rounds"}, ReadCount<&PaceSettings::straggler_rounds, PaceSettings>},
    {{.key = "checkpoint_factor"}, ReadPositive<&PaceSettings::checkpoint_factor, PaceSettings>},
};

}  // namespace stepwatch::operations
