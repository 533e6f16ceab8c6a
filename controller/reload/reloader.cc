#include "controller/reload/reloader.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "controller/reload/ranks.h"
#include "controller/writeback/write_back.h"
#include "src/plan/plan.h"

namespace stepwatch::reload {
namespace {

template <class Performed>
constexpr bool kIsReport =
    !std::is_same_v<Performed, const PublishPlan&> && !std::is_same_v<Performed, const RepublishPlan&> &&
    !std::is_same_v<Performed, const ContinueWindow&> && !std::is_same_v<Performed, const PublishStop&> &&
    !std::is_same_v<Performed, const WriteBack&>;

std::string Plural(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

Reloader::Reloader(const Options& options, bool dynamic, Parts parts, std::function<void(Event)> tell)
    : options_(options),
      dynamic_(dynamic),
      parts_(parts),
      tell_(std::move(tell)),
      pipeline_(options.rank, dynamic),
      board_timer_(*parts.loop),
      config_work_(*parts.loop, *parts.io),
      output_work_(*parts.loop, *parts.output_io),
      config_writer_(*parts.loop, &config_work_, parts.files, options.config_path,
                     [this](const ConfigWriter::Finding& finding) { TellDisplaced(finding); }),
      journal_(options, dynamic, *parts.loop, &output_work_, parts.files,
               {[this](EventKind kind, std::string message) { Tell(kind, std::move(message)); },
                [this](const std::string& directory) { output_->SetDirectory(directory); }}) {
  state_.dynamic = dynamic;
  if (options_.store && options_.world_size > 1) ranks_ = std::make_unique<Ranks>(this);
}

Reloader::~Reloader() = default;

Status Reloader::ReadOnce() {
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(options_.config_path, *parts_.files);
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return Status(snapshot.kind == watch::SnapshotKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  snapshot.kind == watch::SnapshotKind::kUnstable ? options_.config_path + " changes while it is read"
                                                                  : snapshot.error);
  current_ = pipeline_.Parse(snapshot.sha256, snapshot.bytes);
  return current_.parsed.status();
}

Replanned Reloader::Attach(SiteIndex sites) {
  pipeline_.SetSites(std::move(sites));
  journal_.SetSites(pipeline_.shared_sites());
  return attached_ ? AttachAgain() : Replanned{AttachFirst(), nullptr, nullptr};
}

Status Reloader::AttachFirst() {
  if (!dynamic_) {
    const EditIntent intent = pipeline_.Classify(&current_, state_.next_plan_id);
    if (intent == EditIntent::kRefused) return current_.refusal;
    Feed(BytesSeen{current_.sha256, intent});
    attached_ = true;
    return Status();
  }
  if (ranks_ && !ranks_->reads_the_file()) {
    attached_ = true;
    JoinRanks();
    return Status();
  }
  watch::WatcherOptions watch_options;
  watch_options.path = options_.config_path;
  watch_options.use_inotify = options_.use_inotify;
  watch_options.look_interval = options_.look_interval;
  watch_options.quiet_time = options_.quiet_time;
  watcher_ = std::make_unique<watch::Watcher>(
      *parts_.loop, *parts_.io, watch_options,
      watch::Watcher::Callbacks{[this](const watch::FileSnapshot& snapshot) { OnLook(snapshot); },
                                [this](const std::string& bytes) { return pipeline_.LooksWhole(bytes); },
                                [this](const std::string& what) { TellFault(what); }, [this] { EndFault(); }},
      *parts_.files);
  attached_ = true;
  JoinRanks();
  // Before the first look: an edit that a killed process left beside the config is what the config should hold.
  if (options_.rank == 0) config_writer_.TakeOver();
  LookNow();
  watcher_->Start();
  return Status();
}

void Reloader::Refresh() {
  OnBoard();
  outcome_ = RefreshOutcome::kUnchanged;
  config_writer_.LookNow();
  if (watcher_) LookNow();
}

void Reloader::LookNow() {
  ++looks_awaited_;
  watcher_->LookNow([this] { --looks_awaited_; });
}

bool Reloader::undecided() const {
  return ranks_ && ranks_->settling();
}

void Reloader::JoinRanks() {
  if (ranks_) ranks_->Enter();
}

bool Reloader::knows_run_id() const {
  return !ranks_ || ranks_->reads_the_file() || knows_run_id_;
}

RunState Reloader::state() const {
  const RunState state = RunStateOf(state_);
  if (!fault_.empty() && quiet()) return RunState::kFailed;
  if (state == RunState::kIdle && is_recording()) return RunState::kDraining;
  return state == RunState::kArmed && undecided() ? RunState::kPreparing : state;
}

void Reloader::StopWatching() {
  if (ranks_) ranks_->Leave();
  config_writer_.Stop();
  if (watcher_) watcher_->Stop();
}

void Reloader::OnLook(const watch::FileSnapshot& snapshot) {
  if (snapshot.kind != watch::SnapshotKind::kBytes) {
    look_error_ = snapshot.error;
    Feed(FileLost{snapshot.kind == watch::SnapshotKind::kMissing ? EventKind::kMissing : EventKind::kUnreadable});
    return;
  }
  if (snapshot.sha256 == state_.seen) {
    Feed(BytesSeen{snapshot.sha256, EditIntent::kOff});  // nothing new: the intent is not looked at
    return;
  }
  if (ranks_) ranks_->DropWriteBack();
  current_ = pipeline_.Parse(snapshot.sha256, snapshot.bytes);
  Feed(BytesSeen{snapshot.sha256, pipeline_.Classify(&current_, state_.next_plan_id)});
}

void Reloader::TellFault(const std::string& what) {
  outcome_ = RefreshOutcome::kFailed;
  const bool was_failing = !fault_.empty();
  fault_ = what;
  if (!was_failing)
    Tell(EventKind::kDegraded, "what " + options_.config_path + " holds could not be taken over: " + what +
                                   (state_.window ? "; the running plan stays" : "") + "; it is tried again");
}

void Reloader::EndFault() {
  fault_.clear();
  Tell(EventKind::kRecovered, "what " + options_.config_path + " holds is taken over again");
}

void Reloader::Feed(const Input& input) {
  Transition transition = Step(state_, input);
  MachineState before = std::exchange(state_, std::move(transition.state));
  try {
    for (const Action& action : transition.actions)
      std::visit(
          [this](const auto& each) {
            if constexpr (kIsReport<decltype(each)>)
              Quietly([&] { Perform(each); });
            else
              Perform(each);
          },
          action);
  } catch (...) {
    state_ = std::move(before);
    DiscardOldSources();
    throw;
  }
  DiscardOldSources();
}

void Reloader::DiscardOldSources() {
  std::erase_if(sources_, [this](const auto& source) {
    const PlanId id = source.first;
    const bool in_window = state_.window && (state_.window->plan_id == id || state_.window->continuation == id);
    return !in_window && std::none_of(state_.published.begin(), state_.published.end(),
                                      [&](const MachinePlan& plan) { return plan.plan_id == id; });
  });
}

void Reloader::Perform(const ReportSeen&) {
  Event event;
  event.kind = EventKind::kSeen;
  event.sha256 = current_.sha256;
  event.bytes = static_cast<int64_t>(current_.text.size());
  event.message = "new bytes in " + options_.config_path +
                  (dynamic_ && ranks_ && !ranks_->reads_the_file() ? " (from rank 0)" : "");
  Tell(std::move(event));
  if (current_.parsed.ok()) Warn(current_.parsed.value().warnings);
}

void Reloader::Perform(const ReportRefused&) {
  outcome_ = RefreshOutcome::kRefused;
  Event event;
  event.kind = EventKind::kRefused;
  event.sha256 = current_.sha256;
  event.bytes = static_cast<int64_t>(current_.text.size());
  event.place = current_.refusal.place();
  event.message = current_.refusal.message() + (state_.window || state_.armed ? "; the running plan stays" : "");
  Tell(std::move(event));
}

void Reloader::Perform(const ReportLost& lost) {
  outcome_ = RefreshOutcome::kMissing;
  Tell(lost.kind, look_error_ + (state_.window ? "; the running plan stays" : ""));
}

void Reloader::Perform(const ReportRestored&) {
  outcome_ = RefreshOutcome::kUnchanged;
  Tell(EventKind::kRestored, "the file holds the bytes in force again");
}

void Reloader::Perform(const ReportStopping&) {
  outcome_ = RefreshOutcome::kStopping;
  Tell(EventKind::kStopping,
       ranks_ ? "the collection ends at the step that the ranks agree on"
              : "the collection ends at the next step boundary",
       state_.window ? state_.window->plan_id : 0);
}

void Reloader::Perform(const ReportSuperseded& superseded) {
  TellSuperseded(superseded.plan_id, "its window ended, or another plan took its place, before it was applied");
}

void Reloader::Perform(const PublishPlan& order) {
  std::unique_ptr<step::PendingPlan> plan = PendingOf(order.plan_id);
  if (ranks_ && dynamic_) return ranks_->Take(std::move(plan));
  // In dynamic mode an edit accepted during step n holds from n + 1; all else holds from the step about to begin.
  plan->at_step = parts_.data_plane->running.number() + (dynamic_ ? 1 : 0);
  Arm(std::move(plan));
}

void Reloader::Perform(const RepublishPlan& order) {
  if (!ranks_ || !dynamic_) return Perform(PublishPlan{order.plan_id});
  ranks_->TakeAgain(PendingOf(order.plan_id));
}

// The step thread waits for this plan, and takes it with the answer.
void Reloader::Perform(const ContinueWindow& order) {
  const std::shared_ptr<const plan::Plan> plan = sources_.at(order.plan_id).compiled.plan;
  Quietly([&] { Warn(sources_.at(order.plan_id).compiled.warnings); });
  continuation_ = MakePending(plan, step::Continue{});
  TellArmed(*plan, ", the window goes on");
}

std::unique_ptr<step::PendingPlan> Reloader::PendingOf(PlanId plan_id) {
  // There already if it was compiled again.
  const Edit& source = sources_.try_emplace(plan_id, current_).first->second;
  Quietly([&] { Warn(source.compiled.warnings); });
  auto built = ranks_ ? ranks_->TakeBuilt(source.compiled.plan) : nullptr;
  return built ? std::move(built) : MakePending(source.compiled.plan, OwnWindow());
}

step::NewWindow Reloader::OwnWindow() const {
  return {dynamic_ ? step::StartRule::kWhenApplied : step::StartRule::kAsWritten};
}

std::unique_ptr<step::PendingPlan> Reloader::MakePending(std::shared_ptr<const plan::Plan> plan, Effect effect) const {
  std::shared_ptr<step::Pipeline> pipeline =
      step::MakePipeline(std::move(plan), options_.grad_acc_steps, options_.ring_bytes_max);
  std::unique_ptr<step::BegunPlan> stream = parts_.drain->MakeStream(pipeline);
  return std::make_unique<step::PendingPlan>(effect, std::move(pipeline), std::move(stream));
}

void Reloader::Arm(std::unique_ptr<step::PendingPlan>&& pending) {
  const std::shared_ptr<const plan::Plan> plan = pending->pipeline->plan;
  const bool is_agreed = std::get<step::NewWindow>(pending->effect).start == step::StartRule::kAtStep;
  const std::string when = is_agreed ? ", from step " + std::to_string(pending->at_step) : "";
  PrepareOutput(*plan);
  PutInSlot(std::move(pending));
  if (ranks_) ranks_->OnPlaced();
  TellArmed(*plan, when);
}

void Reloader::TellArmed(const plan::Plan& plan, const std::string& when) {
  outcome_ = RefreshOutcome::kArmed;
  Quietly([&] { journal_.AddPlan(plan); });
  Quietly([&] {
    Tell(EventKind::kArmed, Plural(static_cast<int64_t>(plan.layout.sites.size()), "site") + when, plan.layout.plan_id);
  });
}

void Reloader::Perform(const PublishStop&) {
  auto stop = std::make_unique<step::PendingPlan>();
  stop->at_step = parts_.data_plane->running.number() + 1;
  if (ranks_ && dynamic_) return ranks_->Take(std::move(stop));
  PutInSlot(std::move(stop));
}

void Reloader::PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) {
  Supersede(parts_.data_plane->plans.slot().Publish(std::move(plan)));
  TidySlot();
}

void Reloader::TidySlot() {
  while (auto old = parts_.data_plane->plans.slot().TakeSuperseded()) Supersede(std::move(old));
  parts_.data_plane->plans.Reclaim();
}

void Reloader::Supersede(std::unique_ptr<step::PendingPlan> old) {
  if (old != nullptr && old->pipeline != nullptr)
    TellSuperseded(old->plan().layout.plan_id, "a newer one took its place before it was applied");
}

void Reloader::TellSuperseded(PlanId plan_id, const char* why) {
  Quietly([&] { journal_.Update(plan_id, [](output::ManifestPlan& plan) { plan.state = "superseded"; }); });
  Quietly([&] { Tell(EventKind::kSuperseded, why, plan_id); });
}

// Not done, for want of memory, it stays due: no input that led to it comes again.
void Reloader::Perform(const WriteBack& order) try {
  if (ranks_ && !ranks_->reads_the_file()) return ranks_->TellWritten(order.plan_id);
  if (ranks_ && dynamic_) return ranks_->WriteBackWhenWritten(order);
  WriteBackHere(order);
} catch (const std::exception& error) {
  RetryWriteBack(order, error.what());
}

void Reloader::RetryWriteBack(const WriteBack& order, const std::string& why) {
  Feed(FoundEdited{order.base_sha256, order.plan_id});
  if (watcher_) watcher_->SetKnown("");
  TellFault(why);
}

void Reloader::WriteBackHere(const WriteBack& order) {
  config_writer_.WriteBack(order.base_sha256, watcher_->IsUnchanged(),
                           [this, order](const Status& fault, const writeback::WriteBackResult& result) {
                             if (fault.ok()) return OnWroteBack(order, result);
                             RetryWriteBack(order, fault.message());
                           });
}

void Reloader::OnWroteBack(const WriteBack& order, const writeback::WriteBackResult& result) {
  const bool is_edited = result.outcome == writeback::WriteBackOutcome::kEdited;
  const bool is_written = result.outcome == writeback::WriteBackOutcome::kWritten;
  // An edit that was seen while the write-back was under way is newer than both.
  const bool is_news = state_.seen == order.base_sha256;
  const std::string holds = is_edited || !is_news ? "" : is_written ? result.sha256 : order.base_sha256;
  if (is_edited)
    Feed(FoundEdited{order.base_sha256, order.plan_id});
  else
    Feed(WroteBack{order.base_sha256, holds});
  watcher_->SetKnown(holds);  // unknown: whatever the file holds is looked at, the base bytes included
  const std::string message = is_written ? "dynamic_on is false in the file now (" + result.method + ")"
                                         : "dynamic_on was not written back: " + result.message;
  Quietly([&] { journal_.Update(order.plan_id, [&](output::ManifestPlan& plan) { plan.write_back = message; }); });
  journal_.AfterSaved([this, message, id = order.plan_id] { Tell(EventKind::kWroteBack, message, id); });
}

// An edit that was put in is seen by the watcher like any other.
void Reloader::TellDisplaced(const ConfigWriter::Finding& finding) {
  const bool is_put_back = finding.kind == ConfigWriter::Finding::Kind::kPutBack;
  Tell(is_put_back ? EventKind::kNote : EventKind::kWarning, finding.message);
}

void Reloader::Warn(const std::vector<config::Warning>& warnings) {
  for (const config::Warning& warning : warnings) {
    if (warning.kind == config::Warning::Kind::kNotEffective && !said_.insert(warning.place.key).second) continue;
    Event event;
    event.kind = EventKind::kWarning;
    event.place = warning.place;
    event.message = warning.message;
    Tell(std::move(event));
  }
}

void Reloader::PrepareOutput(const plan::Plan& plan) {
  if (output_ == nullptr) {
    const auto output = std::make_shared<sinks::FormatSink>(options_.rank, *parts_.files);
    std::vector<std::shared_ptr<Sink>> sinks{output};
    sinks.insert(sinks.end(), options_.extra_sinks.begin(), options_.extra_sinks.end());
    parts_.drain->SetSinks(std::move(sinks));
    output_ = output;
  }
  journal_.FixDirectory(plan);
  if (plan.layout.format == OutputFormat::kApi) parts_.drain->KeepLatest();
}

void Reloader::Tell(EventKind kind, std::string message, PlanId plan_id) {
  Event event;
  event.kind = kind;
  event.plan_id = plan_id;
  event.message = std::move(message);
  Tell(std::move(event));
}

void Reloader::Tell(Event event) {
  tell_(std::move(event));
}

}  // namespace stepwatch::reload
