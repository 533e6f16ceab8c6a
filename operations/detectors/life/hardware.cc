#include "operations/detectors/life/hardware.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "operations/detectors/life/exception_words.h"

namespace stepwatch::operations {
namespace {

constexpr double kKillPatience = 2;
constexpr double kGoneSeconds = 15;
constexpr double kLaterGoneSeconds = 30;
constexpr size_t kHostsMax = 1024;
constexpr size_t kGpusMax = 1 << 14;
// A sampler that begins with the run may show an old fault; a sampler whose first sample comes later reports a new one.
constexpr double kFirstSampleSeconds = 60;
// An earlier sample reports a new fault if it comes alone, in training: a sampler reads all GPUs of a host.
constexpr double kSamplingSeconds = 1.5;
constexpr int64_t kTrainedAdvances = 10;
// Time in which the same fault appears on all GPUs that have it.
constexpr double kSameFaultSeconds = 5;
constexpr double kHotCelsius = 95;
constexpr double kHotSeconds = 20;
constexpr int64_t kHotSamples = 3;
constexpr double kCoolCelsius = 5;  // below that
constexpr int64_t kLinksDownSamples = 2;
constexpr double kSlowSeconds = 20, kSlowSecondsMax = 40;
constexpr int64_t kSlowSamples = 3;
constexpr double kSlowGapSeconds = 10;  // a longer gap between samples counts as this much
constexpr double kWellSeconds = 30;     // a late sample, or one from elsewhere, may show the past

// 48 double-bit ECC, 62 and 61 internal micro-controller, 64 row remapper, 74 NVLink, 79 fallen off the bus, 95
// uncontained and 94 contained ECC, 109 context switch timeout, 110 security fault, 119 and 120 GSP, 140 unrecovered
// ECC, 143 GPU initialisation, 144 to 150 NVLink 5.
constexpr int64_t kHardwareXids[] = {48,  61,  62,  64,  74,  79,  94,  95,  109, 110, 119, 120,
                                     136, 140, 142, 143, 144, 145, 146, 147, 148, 149, 150};

}  // namespace

bool IsHardwareXid(int64_t code) {
  return std::find(std::begin(kHardwareXids), std::end(kHardwareXids), code) != std::end(kHardwareXids);
}

void HostMemoryDetector::OnRestart() {
  gone_rank_.reset();
  waiting_.reset();
  reported_.reset();
}

void HostMemoryDetector::OnEvent(const RunState& run, const Line& line, double now, Findings* findings) {
  const Event& event = std::get<Event>(line.what);
  if (std::holds_alternative<ProcessGoneEvent>(event)) return TakeGone(run, line, now, findings);
  // The run ends because of it: no end of a process will identify the rank.
  if (std::holds_alternative<EndEvent>(event) && waiting_)
    return findings->Raise(*std::exchange(waiting_, std::nullopt));
  if (const auto* exception = std::get_if<ExceptionEvent>(&event))
    return TakeException(line, *exception, now, findings);
  const auto* host = std::get_if<HostEvent>(&event);
  if (host == nullptr) return;
  if (host->psi) psi_ = *host->psi;
  if (!host->oom_kill || !std::isfinite(*host->oom_kill)) return TakeCgroup(*host);
  const std::string name = !host->host.empty() ? host->host : line.rank ? "rank " + std::to_string(*line.rank) : "";
  if (kills_.size() >= kHostsMax && kills_.count(name) == 0) return;
  const auto [found, is_first] = kills_.try_emplace(name, *host->oom_kill);
  const double more = *host->oom_kill - found->second;
  found->second = *host->oom_kill;
  if (is_first || more <= 0 || run.ended()) return TakeCgroup(*host);
  Finding finding;
  finding.kind = IncidentKind::kOutOfMemory;
  finding.since_step = run.step();
  const bool is_explained = gone_rank_ && now - gone_at_ < kGoneSeconds;
  if (is_explained)
    finding.ranks = {*gone_rank_};
  else if (line.rank)
    finding.ranks = {*line.rank};
  DescribeMemory(*host, &finding.evidence);
  TakeCgroup(*host);
  if (!name.empty()) finding.evidence.Set("host", name);
  finding.evidence.Set("oom_kills", static_cast<int64_t>(more));
  finding.evidence.Set("psi_percent", psi_);
  killed_at_ = now;
  is_named_ = false;
  waiting_.reset();
  reported_ = finding;
  if (is_explained)
    findings->Raise(std::move(finding));
  else
    waiting_ = std::move(finding);
}

void HostMemoryDetector::TakeCgroup(const HostEvent& host) {
  if (host.cgroup_oom_kill) cgroup_kills_ = host.cgroup_oom_kill;
  cgroup_bytes_ = host.cgroup_bytes;
  cgroup_bytes_max_ = host.cgroup_bytes_max;
}

// The host or cgroup that ran out of memory, and its amount of memory.
void HostMemoryDetector::DescribeMemory(const HostEvent& host, Evidence* evidence) const {
  const bool is_in_cgroup = host.cgroup_oom_kill.value_or(0) > cgroup_kills_.value_or(0);
  evidence->SetText("where", is_in_cgroup ? "cgroup" : "host");
  const std::optional<double> most = std::max(cgroup_bytes_, host.cgroup_bytes);
  const std::optional<double> limit = host.cgroup_bytes_max ? host.cgroup_bytes_max : cgroup_bytes_max_;
  if (most) evidence->Set("cgroup_bytes", *most);
  if (limit) evidence->Set("cgroup_bytes_max", *limit);
}

void HostMemoryDetector::TakeGone(const RunState& run, const Line& line, double now, Findings* findings) {
  if (run.ended() || !line.rank) return;
  if (!gone_rank_ || now - gone_at_ >= kGoneSeconds) {
    gone_rank_ = line.rank;
    gone_at_ = now;
  }
  if (!reported_ || now - killed_at_ > kLaterGoneSeconds || (gone_at_ < killed_at_ && !waiting_)) return;
  if (gone_rank_ != line.rank || is_named_) return;
  reported_->ranks = {*gone_rank_};
  if (const RankState* rank = run.FindRank(*gone_rank_))
    if (rank->step) reported_->since_step = rank->step;
  waiting_.reset();
  findings->Raise(*reported_);
}

// An exception right after an OOM kill is its consequence: a loader of the rank was killed. A rank that reports a
// failure of peers was not hit.
void HostMemoryDetector::TakeException(const Line& line, const ExceptionEvent& exception, double now,
                                       Findings* findings) {
  const ExceptionWords words = WordsOf(exception);
  if (!reported_ || is_named_ || now - killed_at_ > kGoneSeconds || (words.are_of_peers && !words.are_of_child)) return;
  // The lost process is already identified.
  if (!waiting_ && !reported_->ranks.empty()) return;
  if (line.rank) reported_->ranks = {*line.rank};
  is_named_ = line.rank.has_value();
  waiting_.reset();
  findings->Raise(*reported_);
}

void HostMemoryDetector::OnTick(const RunState&, double now, Findings* findings) {
  if (!waiting_ || now - killed_at_ < kKillPatience) return;
  findings->Raise(*std::exchange(waiting_, std::nullopt));
}

void GpuDetector::OnEvent(const RunState& run, const Line& line, double now, Findings* findings) {
  const auto* event = std::get_if<GpuEvent>(&std::get<Event>(line.what));
  if (event == nullptr || !std::isfinite(event->value)) return;
  if (gpus_.size() >= kGpusMax && gpus_.count(event->uuid) == 0) return;
  const std::string name = !event->uuid.empty() ? event->uuid : line.rank ? "rank " + std::to_string(*line.rank) : "";
  Gpu& gpu = gpus_[name];
  if (line.rank) gpu.rank = line.rank;
  const bool is_alone = now - sampled_at_ > kSamplingSeconds;
  if (name != first_name_) first_.reset();
  sampled_at_ = now;
  const Judgement judgement = Judge(run, *event, &gpu, now);
  if (gpu.values.size() < 64 || gpu.values.count(event->field) > 0) gpu.values[event->field] = event->value;
  if (judgement == Judgement::kNone) NoteRecovery(*event, now, &gpu);
  if (judgement == Judgement::kNone || run.ended()) return;
  Finding finding = Describe(run, *event, gpu, name);
  if (judgement == Judgement::kFault) return Report(std::move(finding), *event, &gpu, now, findings);
  if (!is_alone) return;
  first_ = std::move(finding);
  first_name_ = name;
  first_event_ = *event;
  first_at_ = now;
}

// The same fault of several GPUs at about the same time has one cause.
void GpuDetector::Report(Finding finding, const GpuEvent& event, Gpu* gpu, double now, Findings* findings) {
  // Counters differ between GPUs, codes do not.
  const bool is_same = fault_ && fault_->field == event.field && now - fault_->at <= kSameFaultSeconds &&
                       (event.field != "xid" || fault_->value == event.value);
  gpu->well_since[event.field] = RunState::kNever;
  gpu->reported_key = is_same ? fault_->finding.key : finding.key;
  if (!is_same) {
    fault_ = Fault{finding, event.field, event.value, now};
    return findings->Raise(std::move(finding));
  }
  fault_->at = now;
  std::vector<int64_t>& ranks = fault_->finding.ranks;
  for (const int64_t rank : finding.ranks)
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  findings->Raise(fault_->finding);
}

// A withdrawn code, or a GPU that has cooled down. Counters only fall at a reset of the GPU.
void GpuDetector::NoteRecovery(const GpuEvent& event, double now, Gpu* gpu) const {
  const auto found = gpu->well_since.find(event.field);
  if (found == gpu->well_since.end()) return;
  const double well_max = event.field == "temperature_celsius" ? kHotCelsius - kCoolCelsius
                          : event.field == "nvlink_down"       ? gpu->links_down_before
                                                               : 0;
  found->second = event.value > well_max ? RunState::kNever : std::min(found->second, now);
}

void GpuDetector::WatchRecovery(const RunState& run, double now, Findings* findings) {
  const auto& ranks = run.ranks();
  // The ranks that it has ended have not come back.
  if (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.second.gone; })) return;
  std::set<std::string> well, ill;
  for (auto& [name, gpu] : gpus_) {
    if (gpu.well_since.empty()) continue;
    const bool is_well = std::all_of(gpu.well_since.begin(), gpu.well_since.end(),
                                     [&](const auto& field) { return now - field.second >= kWellSeconds; });
    (is_well ? well : ill).insert(gpu.reported_key);
    if (is_well) gpu.well_since.clear();
  }
  for (const std::string& key : well)
    if (ill.count(key) == 0) findings->Clear(IncidentKind::kGpuFault, key);
}

void GpuDetector::OnTick(const RunState& run, double now, Findings* findings) {
  if (fault_ && !run.ended()) WatchRecovery(run, now, findings);
  if (!first_ || now - first_at_ < kSamplingSeconds) return;
  const Finding finding = *std::exchange(first_, std::nullopt);
  if (!run.ended()) Report(finding, first_event_, &gpus_[first_name_], now, findings);
}

Finding GpuDetector::Describe(const RunState& run, const GpuEvent& event, const Gpu& gpu,
                              const std::string& name) const {
  Finding finding;
  finding.kind = IncidentKind::kGpuFault;
  finding.key = name;
  if (event.field == "temperature_celsius" || event.field == "hw_slowdown")
    finding.unusual_severity = Severity::kWarning;
  if (gpu.rank) finding.ranks = {*gpu.rank};
  const RankState* rank = gpu.rank ? run.FindRank(*gpu.rank) : nullptr;
  finding.since_step = rank != nullptr && rank->step ? rank->step : run.step();
  finding.evidence.Set("uuid", event.uuid);
  finding.evidence.Set("field", event.field);
  finding.evidence.Set(event.field, event.value);
  return finding;
}

GpuDetector::Judgement GpuDetector::JudgeHeat(double celsius, double now, Gpu* gpu) {
  if (celsius < kHotCelsius) {
    gpu->hot_samples = 0;
    return Judgement::kNone;
  }
  if (gpu->hot_samples++ == 0) gpu->hot_since = now;
  const bool is_hot = gpu->hot_samples >= kHotSamples && now - gpu->hot_since >= kHotSeconds;
  return is_hot ? Judgement::kFault : Judgement::kNone;
}

// Links that are not connected are down all the time.
GpuDetector::Judgement GpuDetector::JudgeLinks(double down, Gpu* gpu) {
  if (gpu->links_down_before < 0 || down <= gpu->links_down_before) {
    gpu->links_down_before = down;
    gpu->links_down_samples = 0;
    return Judgement::kNone;
  }
  return ++gpu->links_down_samples == kLinksDownSamples ? Judgement::kFault : Judgement::kNone;
}

// A hot GPU goes in and out of it, many times a minute.
GpuDetector::Judgement GpuDetector::JudgeSlowdown(const GpuEvent& event, double now, Gpu* gpu) {
  const auto before = gpu->values.find(event.field);
  if (before != gpu->values.end()) {
    const double seconds = std::min(now - gpu->slow_at, kSlowGapSeconds);
    gpu->slow_seconds += before->second > 0 ? seconds : -(now - gpu->slow_at);
    gpu->slow_seconds = std::clamp(gpu->slow_seconds, 0.0, kSlowSecondsMax);
  }
  gpu->slow_at = now;
  if (event.value <= 0) {
    if (gpu->slow_seconds == 0) gpu->slow_samples = 0;
    return Judgement::kNone;
  }
  const bool is_slow = ++gpu->slow_samples >= kSlowSamples && gpu->slow_seconds >= kSlowSeconds;
  return is_slow ? Judgement::kFault : Judgement::kNone;
}

GpuDetector::Judgement GpuDetector::Judge(const RunState& run, const GpuEvent& event, Gpu* gpu, double now) const {
  const auto before = gpu->values.find(event.field);
  const bool is_first = before == gpu->values.end();
  if (event.field == "temperature_celsius") return JudgeHeat(event.value, now, gpu);
  if (event.field == "nvlink_down") return JudgeLinks(event.value, gpu);
  if (event.field == "hw_slowdown") return JudgeSlowdown(event, now, gpu);
  if (event.field == "ecc_uncorrected_total")
    return !is_first && event.value > before->second ? Judgement::kFault : Judgement::kNone;
  const bool is_flag = event.field == "row_remap_failure" || event.field == "lost";
  const bool is_bad =
      is_flag ? event.value > 0 : event.field == "xid" && IsHardwareXid(static_cast<int64_t>(event.value));
  if (!is_bad || (!is_first && event.value == before->second)) return Judgement::kNone;
  if (!is_first || now - run.began_at() > kFirstSampleSeconds) return Judgement::kFault;
  return run.pace().advances >= kTrainedAdvances ? Judgement::kIfAlone : Judgement::kNone;
}

}  // namespace stepwatch::operations
