#include "operations/provision/dashboards.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace stepwatch::operations {
namespace {

constexpr std::string_view kOfRun = R"({cluster=~"$cluster",run=~"$run"})";
constexpr std::string_view kOfRank = R"({cluster=~"$cluster",run=~"$run",rank=~"$rank"})";
constexpr std::string_view kOfCluster = R"({cluster=~"$cluster"})";

std::string Selected(std::string_view name, std::string_view labels) {
  return std::string(name) + std::string(labels);
}

// The largest value over the daemons that watch a run.
std::string OfRun(std::string_view name) {
  return "max by (cluster, run) (" + Selected(name, kOfRun) + ")";
}

std::string OfRank(std::string_view name) {
  return "max by (run, rank) (" + Selected(name, kOfRank) + ")";
}

std::string RateOfRun(std::string_view name) {
  return "sum by (cluster, run) (rate(" + Selected(name, kOfRun) + "[$__rate_interval]))";
}

// An expression of gpu_names.h, limited to the chosen clusters.
std::string OfGpu(const std::string& expression) {
  return "max by (cluster, node, gpu_uuid, gpu) (" + expression +
         ") * on (cluster) group_left () (count by (cluster) (" + Selected("up", kOfCluster) + ") ^ 0)";
}

Panel OneQuery(std::string title, std::string unit, std::string description, std::string expression,
               std::string legend) {
  return {.title = std::move(title),
          .description = std::move(description),
          .unit = std::move(unit),
          .queries = {{std::move(expression), std::move(legend)}}};
}

Panel Logarithmic(Panel panel) {
  panel.is_logarithmic = true;
  return panel;
}

Panel Shaped(Panel panel, PanelType type, int width, int height) {
  panel.type = type;
  panel.width = width;
  panel.height = height;
  return panel;
}

Panel Stat(std::string title, std::string unit, std::string description, std::string expression) {
  return Shaped(OneQuery(std::move(title), std::move(unit), std::move(description), std::move(expression), "{{run}}"),
                PanelType::kStat, 4, 4);
}

Panel AlertsPanel() {
  return Shaped(
      OneQuery("Alerts", "short", "Firing alerts over time",
               R"(max by (alertname, severity, run, node) (ALERTS{alertstate="firing",alertname!="Watchdog"}))",
               "{{alertname}} {{run}} {{node}}"),
      PanelType::kStateTimeline, 24, 8);
}

std::vector<DashboardVariable> RunVariables() {
  return {{"cluster", "label_values(stepwatch_run_info, cluster)"},
          {"run", R"(label_values(stepwatch_run_info{cluster=~"$cluster"}, run))"},
          {"rank", R"(label_values(stepwatch_run_rank_step{cluster=~"$cluster",run=~"$run"}, rank))"}};
}

PanelRow NumbersRow() {
  return {
      "Numbers",
      {Logarithmic(OneQuery("Loss", "short", "The last reported loss; marks are alerts of the loss",
                            OfRun("stepwatch_run_loss"), "{{run}}")),
       Logarithmic(OneQuery("Gradient norm", "short", "The last reported norm of all gradients",
                            OfRun("stepwatch_run_grad_norm"), "{{run}}")),
       OneQuery("Learning rate", "sci", "As the optimizer used it", OfRun("stepwatch_run_learning_rate"), "{{run}}"),
       OneQuery(
           "Steps with NaN or infinity", "short", "In 10 minutes, over all ranks",
           "sum by (cluster, run) (increase(" + Selected("stepwatch_run_nonfinite_steps_total", kOfRun) + "[10m]))",
           "{{run}}"),
       OneQuery("Loss scale", "short", "Of mixed precision", OfRun("stepwatch_run_loss_scale"), "{{run}}"),
       OneQuery("Step", "short", "The last finished step", OfRun("stepwatch_run_step"), "{{run}}")}};
}

PanelRow PaceRow() {
  Panel parts =
      OneQuery("Parts of a step", "s", "Forward, backward and communication exist for collected steps only",
               "max by (run, part) (" + Selected("stepwatch_run_step_part_seconds", kOfRun) + ")", "{{run}} {{part}}");
  return {"Pace",
          {OneQuery("Tokens per second", "short", "Of all ranks", RateOfRun("stepwatch_run_tokens_total"), "{{run}}"),
           OneQuery("Samples per second", "short", "Of all ranks", RateOfRun("stepwatch_run_samples_total"), "{{run}}"),
           OneQuery("MFU", "percentunit", "FLOP per second against the peak of the devices, where FLOPs are reported",
                    OfRun("stepwatch_run_mfu_ratio"), "{{run}}"),
           OneQuery("Goodput", "percentunit", "Share of the time that went into steps that count",
                    OfRun("stepwatch_run_goodput_ratio"), "{{run}}"),
           {.title = "Time of a step",
            .description = "The usual time, and the 99th percentile",
            .unit = "s",
            .queries = {{OfRun("stepwatch_run_step_seconds"), "{{run}} usual"},
                        {OfRun("stepwatch_run_step_seconds_p99"), "{{run}} p99"}}},
           std::move(parts),
           Shaped(OneQuery("Distribution of step times", "s", "Steps by their time",
                           "sum by (le) (increase(" + Selected("stepwatch_run_step_duration_seconds_bucket", kOfRun) +
                               "[$__rate_interval]))",
                           "{{le}}"),
                  PanelType::kHeatmap, 24, 8)}};
}

PanelRow RanksRow() {
  return {"Ranks",
          {Shaped(OneQuery("Step time of each rank", "s", "A rank that stands out delays all others",
                           OfRank("stepwatch_run_rank_step_seconds"), "{{run}} {{rank}}"),
                  PanelType::kHeatmap, 24, 9),
           OneQuery("Steps behind the first rank", "short", "Difference to the rank that is furthest",
                    "max by (run) (" + Selected("stepwatch_run_rank_step", kOfRun) + ") - on (run) group_right () " +
                        OfRank("stepwatch_run_rank_step"),
                    "{{run}} {{rank}}"),
           OneQuery("Silence of each rank", "s", "Since its last line",
                    "time() - " + OfRank("stepwatch_run_rank_last_line_timestamp_seconds"), "{{run}} {{rank}}"),
           {.title = "CUDA allocator",
            .description = "Allocated by tensors, and reserved from the device",
            .unit = "bytes",
            .queries = {{OfRank("stepwatch_run_cuda_allocated_bytes"), "{{run}} {{rank}} allocated"},
                        {OfRank("stepwatch_run_cuda_reserved_bytes"), "{{run}} {{rank}} reserved"}}}}};
}

Dashboard Training() {
  PanelRow now{
      "Now",
      {Stat("Step", "short", "The last finished step", OfRun("stepwatch_run_step")),
       Stat("Since the last step", "s", "Seconds", "time() - " + OfRun("stepwatch_run_last_step_timestamp_seconds")),
       Stat("Ranks gone", "short", "Of the ranks that were seen", OfRun("stepwatch_run_ranks_gone")),
       Stat("Open incidents", "short", "Of stepwatchd",
            "sum by (cluster, run) (" + Selected("stepwatch_run_incidents_open", kOfRun) + ")"),
       Stat("Since the last checkpoint", "s", "Seconds",
            "time() - " + OfRun("stepwatch_run_last_checkpoint_timestamp_seconds")),
       Stat("Restarts", "short", "Since the run is known", OfRun("stepwatch_run_restarts_total")),
       Shaped(
           OneQuery("Phase", "short", "init, train, eval, checkpoint, paused",
                    "max by (run, phase) (" + Selected("stepwatch_run_phase", kOfRun) + ") == 1", "{{run}} {{phase}}"),
           PanelType::kStateTimeline, 24, 5)}};
  return {.uid = "stepwatch-training",
          .title = "Stepwatch: training",
          .runbook = "",
          .variables = RunVariables(),
          .marks =
              {{"Spikes and faults of the numbers",
                R"(ALERTS{alertstate="firing",alertname=~"TrainingLossSpike|NotFinite|GradientExplosion",run=~"$run"})",
                "red"}},
          .rows = {std::move(now), NumbersRow(), PaceRow(), RanksRow(), {"Alerts", {AlertsPanel()}}}};
}

Dashboard Gpu(const GpuNames& gpu) {
  const std::string legend = "{{node}} {{gpu}}";
  PanelRow health{
      "Health",
      {OneQuery("Temperature", "celsius", "Of the core", OfGpu(gpu.temperature), legend),
       OneQuery("Room to slowing down", "celsius", "Degrees below the slowdown threshold of the device",
                OfGpu(gpu.slowdown_temperature + " - on (cluster, node, gpu_uuid, gpu) " + gpu.temperature), legend),
       OneQuery("Memory temperature", "celsius", "Of the device memory", OfGpu(gpu.memory_temperature), legend),
       OneQuery("Power", "watt", "Of the device", OfGpu(gpu.power), legend),
       OneQuery("Xid errors", "short", "In 10 minutes", OfGpu(gpu.xid_errors), legend),
       OneQuery("Uncorrectable ECC errors", "short", "In an hour", OfGpu(gpu.ecc_errors), legend)}};
  PanelRow use{
      "Use",
      {OneQuery("Activity", "percentunit", "Of the SMs, else the time with a kernel", OfGpu(gpu.activity), legend),
       OneQuery("Memory", "percentunit", "Used of the total", OfGpu(gpu.memory_ratio), legend),
       OneQuery("Runs on GPUs", "short", "GPUs of each run",
                "count by (cluster, run) (count by (cluster, run, gpu_uuid) (" +
                    Selected("stepwatchd_gpu_process", kOfCluster) + "))",
                "{{run}}")}};
  return {
      .uid = "stepwatch-gpu",
      .title = "Stepwatch: GPUs and hosts",
      .runbook = "",
      .variables = {{"cluster", "label_values(up, cluster)"}},
      .marks = {},
      .rows = {
          std::move(health),
          std::move(use),
          {"Hosts",
           {OneQuery("Pressure", "percentunit", "Share of the time in which all tasks waited",
                     "max by (cluster, node, resource) (stepwatchd_host_pressure_ratio{cluster=~\"$cluster\","
                     "kind=\"full\"})",
                     "{{node}} {{resource}}"),
            OneQuery("Free disk space", "percentunit", "Of each watched path",
                     Selected("stepwatchd_host_disk_free_bytes", kOfCluster) + " / on (cluster, instance, path) " +
                         Selected("stepwatchd_host_disk_size_bytes", kOfCluster),
                     "{{node}} {{path}}"),
            OneQuery("Checkpoints that fit", "short", "By the size of the last one",
                     Selected("stepwatchd_host_disk_checkpoints_left", kOfCluster), "{{node}} {{run}} {{path}}")}}}};
}

Dashboard Monitoring() {
  PanelRow stack{
      "Stack",
      {Shaped(OneQuery("Targets", "short", "1: the last scrape succeeded",
                       "min by (job, instance) (" + Selected("up", kOfCluster) + ")", "{{job}} {{instance}}"),
              PanelType::kStateTimeline, 12, 8),
       Shaped(OneQuery("Duration of scrapes", "s", "By target",
                       "max by (job, instance) (" + Selected("scrape_duration_seconds", kOfCluster) + ")",
                       "{{job}} {{instance}}"),
              PanelType::kTimeSeries, 12, 8),
       OneQuery("Alertmanager peers", "short", "Members of its cluster", "alertmanager_cluster_members",
                "{{instance}}"),
       OneQuery("Failed notifications of Alertmanager", "short", "In 10 minutes, by integration",
                "sum by (integration) (increase(alertmanager_notifications_failed_total[10m]))", "{{integration}}"),
       OneQuery("Failed evaluations of rules", "short", "In 10 minutes",
                "sum by (rule_group) (increase(prometheus_rule_evaluation_failures_total[10m]))", "{{rule_group}}")}};
  PanelRow incidents{
      "Incidents and their delivery",
      {Shaped(OneQuery("Open incidents", "short", "By run, kind and severity",
                       "sum by (run, kind, severity) (stepwatch_run_incidents_open) > 0", "{{run}} {{kind}}"),
              PanelType::kTable, 8, 8),
       OneQuery("Opened incidents", "short", "In an hour, by kind",
                "sum by (kind) (increase(stepwatchd_incidents_opened_total[1h]))", "{{kind}}"),
       {.title = "Deliveries",
        .description = "Messages in 10 minutes, by receiver",
        .unit = "short",
        .queries = {{"sum by (receiver) (increase(stepwatchd_delivery_sent_total[10m]))", "{{receiver}} sent"},
                    {"sum by (receiver) (increase(stepwatchd_delivery_failed_total[10m]))", "{{receiver}} failed"},
                    {"max by (receiver) (stepwatchd_delivery_waiting)", "{{receiver}} waiting"},
                    {"max by (receiver) (stepwatchd_delivery_dead_letters)", "{{receiver}} dead letters"}}},
       AlertsPanel()}};
  return {.uid = "stepwatch-monitoring",
          .title = "Stepwatch: monitoring",
          .runbook = "",
          .variables = {{"cluster", "label_values(up, cluster)"}},
          .marks = {},
          .rows = {std::move(stack), std::move(incidents)}};
}

}  // namespace

std::vector<Dashboard> Dashboards(const GpuNames& gpu, const std::string& runbook) {
  std::vector<Dashboard> dashboards = {Training(), Gpu(gpu), Monitoring()};
  for (Dashboard& dashboard : dashboards) dashboard.runbook = runbook;
  return dashboards;
}

}  // namespace stepwatch::operations
