#include "operations/metrics/run_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace stepwatch::operations {
namespace {

using Value = std::optional<double>;

Value Of(const std::optional<int64_t>& number) {
  return number ? Value(static_cast<double>(*number)) : std::nullopt;
}

Value Latest(const RunSnapshot& run, std::string_view name) {
  for (const auto& [key, value] : run.latest)
    if (key == name) return value;
  return std::nullopt;
}

Value Work(const RankSnapshot& rank, WorkNumber number) {
  for (const auto& [key, value] : rank.work)
    if (key == number) return value;
  return std::nullopt;
}

struct RunMetric {
  std::string_view name, type, help;
  Value (*of)(const RunSnapshot& run);
};

constexpr auto kRunMetrics = std::to_array<RunMetric>({
    {"stepwatch_run_ranks", "gauge", "Ranks that have reported since the last start.",
     [](const RunSnapshot& run) { return Value(static_cast<double>(run.ranks.size())); }},
    {"stepwatch_run_ranks_gone", "gauge", "Ranks whose process no longer exists.",
     [](const RunSnapshot& run) {
       return Value(static_cast<double>(
           std::count_if(run.ranks.begin(), run.ranks.end(), [](const RankSnapshot& rank) { return rank.gone; })));
     }},
    {"stepwatch_run_world", "gauge", "Ranks of the run, as it reports.",
     [](const RunSnapshot& run) { return Of(run.world); }},
    {"stepwatch_run_step", "gauge", "The largest finished step.", [](const RunSnapshot& run) { return Of(run.step); }},
    {"stepwatch_run_last_step_timestamp_seconds", "gauge", "The end of that step, in seconds since 1970.",
     [](const RunSnapshot& run) { return run.step_t; }},
    {"stepwatch_run_last_line_timestamp_seconds", "gauge", "The last beat or event, in seconds since 1970.",
     [](const RunSnapshot& run) { return Value(run.heard_t); }},
    {"stepwatch_run_started_timestamp_seconds", "gauge", "The first line, in seconds since 1970.",
     [](const RunSnapshot& run) { return Value(run.started_t); }},
    {"stepwatch_run_step_seconds", "gauge", "The typical duration of a step.",
     [](const RunSnapshot& run) { return run.step_seconds > 0 ? Value(run.step_seconds) : std::nullopt; }},
    {"stepwatch_run_step_seconds_p99", "gauge", "The 99th percentile of the durations of the last 256 steps.",
     [](const RunSnapshot& run) { return run.numbers.step_seconds_p99; }},
    {"stepwatch_run_loss", "gauge", "The last loss of the lowest rank that reports it.",
     [](const RunSnapshot& run) { return Latest(run, "loss"); }},
    {"stepwatch_run_grad_norm", "gauge", "The last gradient norm of the lowest rank that reports it.",
     [](const RunSnapshot& run) { return Latest(run, "grad_norm"); }},
    {"stepwatch_run_learning_rate", "gauge", "The last learning rate.",
     [](const RunSnapshot& run) { return Latest(run, "lr"); }},
    {"stepwatch_run_loss_scale", "gauge", "The last loss scale.",
     [](const RunSnapshot& run) { return Latest(run, "loss_scale"); }},
    {"stepwatch_run_tokens", "counter", "Tokens of all ranks.",
     [](const RunSnapshot& run) { return run.numbers.tokens; }},
    {"stepwatch_run_samples", "counter", "Samples of all ranks.",
     [](const RunSnapshot& run) { return run.numbers.samples; }},
    {"stepwatch_run_nonfinite_steps", "counter", "Steps with a loss or a gradient norm that was NaN or infinite.",
     [](const RunSnapshot& run) { return Value(static_cast<double>(run.numbers.nonfinite_steps)); }},
    {"stepwatch_run_restarts", "counter", "Restarts.",
     [](const RunSnapshot& run) { return Value(static_cast<double>(run.numbers.restarts)); }},
    {"stepwatch_run_checkpoint_step", "gauge", "The step of the last complete checkpoint.",
     [](const RunSnapshot& run) { return Of(run.checkpoint_step); }},
    {"stepwatch_run_last_checkpoint_timestamp_seconds", "gauge",
     "The end of the last complete checkpoint, in seconds since 1970.",
     [](const RunSnapshot& run) { return run.checkpoint_t; }},
    {"stepwatch_run_checkpoint_bytes", "gauge", "Size of the last checkpoint, over all ranks.",
     [](const RunSnapshot& run) { return run.numbers.checkpoint_bytes; }},
    {"stepwatch_run_goodput_ratio", "gauge", "Share of the time since the first line that went into new steps.",
     [](const RunSnapshot& run) { return run.numbers.goodput; }},
    {"stepwatch_run_flops", "counter", "Floating-point operations of all ranks.",
     [](const RunSnapshot& run) { return run.numbers.flops; }},
    {"stepwatch_run_mfu_ratio", "gauge", "Share of the peak that a typical step of the model uses.",
     [](const RunSnapshot& run) { return run.numbers.mfu; }},
    {"stepwatch_run_peak_flops", "gauge", "Peak of the devices of all ranks, in FLOP/s.",
     [](const RunSnapshot& run) { return run.numbers.peak_flops; }},
});

struct RankMetric {
  std::string_view name, type, help;
  Value (*of)(const RankSnapshot& rank, double now);
};

constexpr auto kRankMetrics = std::to_array<RankMetric>({
    {"stepwatch_run_rank_step", "gauge", "The last finished step of a rank.",
     [](const RankSnapshot& rank, double) { return Of(rank.step); }},
    {"stepwatch_run_rank_last_line_timestamp_seconds", "gauge", "The last beat of a rank, in seconds since 1970.",
     [](const RankSnapshot& rank, double now) { return Value(now - rank.heard_seconds_ago); }},
    {"stepwatch_run_rank_step_seconds", "gauge", "Duration of the last step of a rank, as it reports it.",
     [](const RankSnapshot& rank, double) { return rank.step_seconds; }},
    {"stepwatch_run_rank_gone", "gauge", "1 if the process of a rank no longer exists.",
     [](const RankSnapshot& rank, double) { return Value(rank.gone ? 1 : 0); }},
    {"stepwatch_run_cuda_allocated_bytes", "gauge", "Device memory that tensors of a rank use.",
     [](const RankSnapshot& rank, double) { return Work(rank, WorkNumber::kCudaAllocatedBytes); }},
    {"stepwatch_run_cuda_reserved_bytes", "gauge", "Device memory that the allocator of a rank holds.",
     [](const RankSnapshot& rank, double) { return Work(rank, WorkNumber::kCudaReservedBytes); }},
    {"stepwatch_run_cuda_alloc_retries", "counter", "Allocations of a rank that succeeded after the cache was freed.",
     [](const RankSnapshot& rank, double) { return Work(rank, WorkNumber::kCudaAllocRetries); }},
    {"stepwatch_run_cuda_ooms", "counter", "Allocations of a rank that failed.",
     [](const RankSnapshot& rank, double) { return Work(rank, WorkNumber::kCudaOoms); }},
});

constexpr std::array<std::string_view, 6> kStates = {"init", "train", "eval", "checkpoint", "paused", "ended"};

http::MetricLabels Run(const RunSnapshot& run) {
  return {{"run", run.id}};
}

http::MetricLabels Run(const RunSnapshot& run, std::string_view name, std::string_view value) {
  return {{"run", run.id}, {name, std::string(value)}};
}

http::MetricFamily Infos(const RunPage& page) {
  http::MetricFamily family{"stepwatch_run", "info", "A run: the host of its first rank, and its owner if known.", {}};
  for (const RunSnapshot& run : page.runs)
    family.Add(1, {{"run", run.id},
                   {"host", run.hosts.empty() ? "" : run.hosts.front()},
                   {"owner", run.owner},
                   {"partition", run.partition}});
  return family;
}

http::MetricFamily States(const RunPage& page) {
  http::MetricFamily family{
      "stepwatch_run_state", "gauge", "1 for the state that the run is in, 0 for the others.", {}};
  for (const RunSnapshot& run : page.runs)
    for (const std::string_view state : kStates) family.Add(StateOf(run) == state ? 1 : 0, Run(run, "state", state));
  return family;
}

http::MetricFamily Phases(const RunPage& page) {
  http::MetricFamily family{"stepwatch_run_phase",
                            "gauge",
                            "1 for the phase of the rank that excuses the longest standstill, 0 for the others.",
                            {}};
  for (const RunSnapshot& run : page.runs)
    for (size_t i = 0; i + 1 < kStates.size(); ++i)
      family.Add(!run.ended && NameOf(run.phase) == kStates[i] ? 1 : 0, Run(run, "phase", kStates[i]));
  return family;
}

http::MetricFamily Durations(const RunPage& page) {
  http::MetricFamily family{"stepwatch_run_step_duration_seconds", "histogram", "Durations of steps in training.", {}};
  for (const RunSnapshot& run : page.runs) {
    int64_t count = 0;
    const auto add = [&](std::string_view ending, double value) {
      family.samples.push_back({Run(run), value, ending});
    };
    for (size_t i = 0; i < run.numbers.steps.size(); ++i) {
      count += run.numbers.steps[i];
      add("_bucket", static_cast<double>(count));
      family.samples.back().labels.emplace_back("le",
                                                i < kStepBounds.size() ? fmt::format("{}", kStepBounds[i]) : "+Inf");
    }
    add("_sum", run.numbers.steps_seconds);
    add("_count", static_cast<double>(count));
  }
  return family;
}

http::MetricFamily Parts(const RunPage& page) {
  constexpr std::string_view kSeconds = "_seconds";
  http::MetricFamily family{"stepwatch_run_step_part_seconds",
                            "gauge",
                            "Part of the last step that reported it, on average over the ranks.",
                            {}};
  for (const RunSnapshot& run : page.runs)
    for (const auto& [number, value] : run.numbers.parts) {
      const std::string_view key = KeyOf(number);
      family.Add(value, Run(run, "part", key.substr(0, key.size() - kSeconds.size())));
    }
  return family;
}

http::MetricFamily Incidents(const RunPage& page) {
  http::MetricFamily family{"stepwatch_run_incidents_open", "gauge", "Open incidents of a run.", {}};
  std::set<std::string_view> shown;
  for (const RunSnapshot& run : page.runs) shown.insert(run.id);
  std::map<std::tuple<std::string_view, IncidentKind, Severity>, int> counts;
  for (const OpenIncident& each : page.incidents)
    if (shown.contains(each.run)) ++counts[{each.run, each.kind, each.severity}];
  for (const auto& [key, count] : counts)
    family.Add(count, {{"run", std::string(std::get<0>(key))},
                       {"kind", std::string(NameOf(std::get<1>(key)))},
                       {"severity", std::string(NameOf(std::get<2>(key)))}});
  return family;
}

// Leaves out runs beyond the limit. Returns their number.
size_t BoundRuns(size_t runs_max, RunPage* page) {
  std::vector<RunSnapshot>& runs = page->runs;
  if (runs.size() <= runs_max) return 0;
  const size_t more = runs.size() - runs_max;
  const auto end = runs.begin() + static_cast<std::ptrdiff_t>(runs_max);
  std::nth_element(runs.begin(), end, runs.end(), [](const RunSnapshot& a, const RunSnapshot& b) {
    return std::make_tuple(a.ended, -a.heard_t) < std::make_tuple(b.ended, -b.heard_t);
  });
  runs.erase(end, runs.end());
  std::sort(runs.begin(), runs.end(), [](const RunSnapshot& a, const RunSnapshot& b) { return a.id < b.id; });
  return more;
}

}  // namespace

std::vector<http::MetricFamily> RunFamilies(RunPage page, const RunPageLimits& limits) {
  const size_t runs_left_out = BoundRuns(limits.runs, &page);
  std::vector<http::MetricFamily> families = {Infos(page), States(page), Phases(page)};
  for (const RunMetric& metric : kRunMetrics) {
    http::MetricFamily family{metric.name, metric.type, metric.help, {}};
    for (const RunSnapshot& run : page.runs)
      if (const Value value = metric.of(run)) family.Add(*value, Run(run));
    families.push_back(std::move(family));
  }
  families.push_back(Durations(page));
  families.push_back(Parts(page));
  families.push_back(Incidents(page));
  size_t room = limits.ranks, ranks_left_out = 0;
  for (RunSnapshot& run : page.runs) {
    const size_t kept = std::min({run.ranks.size(), limits.ranks_of_run, room});
    ranks_left_out += run.ranks.size() - kept;
    run.ranks.resize(kept);
    room -= kept;
  }
  for (const RankMetric& metric : kRankMetrics) {
    http::MetricFamily family{metric.name, metric.type, metric.help, {}};
    for (const RunSnapshot& run : page.runs)
      for (const RankSnapshot& rank : run.ranks)
        if (const Value value = metric.of(rank, page.now))
          family.Add(*value, Run(run, "rank", fmt::format("{}", rank.rank)));
    families.push_back(std::move(family));
  }
  http::MetricFamily left_out{"stepwatchd_metrics_left_out",
                              "gauge",
                              "Runs, and ranks of the others, that are not on this page to limit its size.",
                              {}};
  left_out.Add(static_cast<double>(runs_left_out), {{"what", "runs"}});
  left_out.Add(static_cast<double>(ranks_left_out), {{"what", "ranks"}});
  families.push_back(std::move(left_out));
  return families;
}

}  // namespace stepwatch::operations
