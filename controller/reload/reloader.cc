#include "controller/reload/reloader.h"

#include <fmt/format.h>

#include <chrono>
#include <type_traits>
#include <utility>

#include "controller/reload/quietly.h"

namespace stepwatch::reload {
namespace {

constexpr std::chrono::milliseconds kBoardAfterFault{100};

template <class Performed>
constexpr bool kIsReport =
    !std::is_same_v<Performed, const PublishPlan&> && !std::is_same_v<Performed, const RepublishPlan&> &&
    !std::is_same_v<Performed, const ContinueWindow&> && !std::is_same_v<Performed, const PublishStop&> &&
    !std::is_same_v<Performed, const SetPause&> && !std::is_same_v<Performed, const WriteBack&>;

// Ranks of a job are to collect the same steps.
std::string WhyBudgetDoesNotAct(const Options& options, bool dynamic, bool can_ask) {
  if (options.world_size <= 1 || (options.store && dynamic && can_ask)) return "";
  return fmt::format(
      "the ranks of a job must collect the same steps, and {} these {} cannot agree on them: the cost of measuring "
      "is reported, and the sampling is not reduced",
      dynamic ? "without a store" : "in static mode", options.world_size);
}

}  // namespace

Reloader::Reloader(const Options& options, bool dynamic, Parts parts, std::function<void(Event)> tell)
    : options_(options),
      dynamic_(dynamic),
      parts_(parts),
      tell_(std::move(tell)),
      limits_(options, parts.storage),
      pipeline_(options.rank, dynamic, &limits_),
      run_id_(options.run_id),
      plans_(options_, dynamic, parts.data_plane, parts.drain,
             [this](PlanId id) { TellSuperseded(id, "a newer one replaced it before it was applied"); }),
      budget_(WhyBudgetDoesNotAct(options, dynamic, parts.question_host != nullptr),
              [this](EventKind kind, std::string message, PlanId id) { Tell(kind, std::move(message), id); }),
      board_timer_(*parts.loop),
      config_work_(*parts.loop, *parts.io),
      output_work_(*parts.loop, *parts.output_io),
      config_writer_(*parts.loop, &config_work_, parts.files, options.config_path,
                     [this](const ConfigWriter::Finding& finding) { TellDisplaced(finding); }),
      history_(options, *parts.loop, &output_work_, &parts.storage->note_files(),
               [this](EventKind kind, std::string message) { Tell(kind, std::move(message)); }),
      journal_(options, dynamic, *parts.loop, &output_work_, &parts.storage->note_files(),
               {[this](EventKind kind, std::string message) { Tell(kind, std::move(message)); },
                [this](const std::string& directory) {
                  output_->SetDirectory(directory);
                  history_.SetDirectory(directory);
                }}),
      board_reader_(
          parts.board, &journal_, &history_, [this](const Input& input) { Feed(input); },
          [this](const drain::SegmentBegun& begun) { OnSegment(begun); }, tell_) {
  state_.dynamic = dynamic;
  if (options_.store && options_.world_size > 1)
    agreement_ = std::make_unique<PlanAgreement>(options_, dynamic, *parts_.loop, parts_.data_plane,
                                                 static_cast<PlanAgreement::Owner*>(this), parts_.question_host);
}

Status Reloader::ReadOnce() {
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(options_.config_path, *parts_.files);
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return Status(snapshot.kind == watch::SnapshotKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  snapshot.kind == watch::SnapshotKind::kUnstable ? options_.config_path + " changes while it is read"
                                                                  : snapshot.error);
  history_.Seen(snapshot, "");
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
    if (current_.compiled.plan) WarnIfForgotten(*current_.compiled.plan);
    Feed(BytesSeen{current_.sha256, intent});
    attached_ = true;
    return Status();
  }
  if (!agreement_ || agreement_->reads_the_file()) MakeWatcher();
  attached_ = true;
  JoinRanks();
  if (!watcher_) return Status();
  // Before the first look: an edit that a killed process left beside the config is what the config should hold.
  if (options_.rank == 0) config_writer_.TakeOver();
  LookNow();
  watcher_->Start();
  return Status();
}

void Reloader::MakeWatcher() {
  watch::WatcherOptions watch_options;
  watch_options.path = options_.config_path;
  watch_options.use_inotify = options_.use_inotify;
  watch_options.look_interval = options_.look_interval;
  watch_options.quiet_time = options_.quiet_time;
  watcher_ = std::make_unique<watch::Watcher>(
      *parts_.loop, *parts_.io, watch_options,
      watch::Watcher::Callbacks{[this](const watch::FileSnapshot& snapshot) { OnLook(snapshot); },
                                [this](const std::string& bytes) { return pipeline_.LooksWhole(bytes); },
                                [this](const std::string& what) { TellFault(what); }, [this] { EndFault(); },
                                [this](watch::LookCause cause) { ++looks_[static_cast<size_t>(cause)]; }},
      *parts_.files);
}

void Reloader::OnBoard() {
  try {
    board_reader_.Read();
  } catch (...) {
    board_timer_.After(kBoardAfterFault, [this] { OnBoard(); });
    throw;
  }
  plans_.TidySlot();
  StopIfDiskUsedUp();  // a plan may have begun that was armed before
  KeepBudget();
}

void Reloader::OnDiskLevel() {
  using Level = base::DiskMeter::Level;
  const Level level = parts_.storage->meter()->level();
  if (level <= std::exchange(told_disk_level_, level)) return;
  if (level == Level::kNear)
    Tell(EventKind::kLimited, limits_.DiskText() + "; when they are used up, the collection ends");
  else
    Tell(EventKind::kLimited,
         limits_.DiskText() + ": the collection ends, and no more rows are written until it is started again");
  StopIfDiskUsedUp();
}

void Reloader::StopIfDiskUsedUp() {
  if (told_disk_level_ != base::DiskMeter::Level::kUsedUp) return;
  const std::optional<MachinePlan>& newest = state_.armed ? state_.armed : state_.window;
  const Edit* source = newest ? plans_.Find(newest->plan_id) : nullptr;
  if (source == nullptr || !PlanLimits::WritesFiles(*source->compiled.plan)) return;
  agreed_.reset();
  WithdrawResampled();
  Feed(LimitReached{});
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

RunState Reloader::state() const {
  const RunState state = RunStateOf(state_);
  const bool is_quiet = state == RunState::kIdle || state == RunState::kOff;
  if (!fault_.empty() && is_quiet) return RunState::kFailed;
  if (state == RunState::kIdle && is_recording()) return RunState::kDraining;
  return state == RunState::kArmed && undecided() ? RunState::kPreparing : state;
}

void Reloader::JoinRanks() {
  if (agreement_) agreement_->Enter();
}

void Reloader::StopWatching() {
  is_stopped_ = true;
  if (agreement_) agreement_->Leave();
  config_writer_.Stop();
  journal_.Stop();
  history_.Stop();
  if (watcher_) watcher_->Stop();
}

void Reloader::OnLook(const watch::FileSnapshot& snapshot) {
  restart_question_.reset();
  if (snapshot.kind != watch::SnapshotKind::kBytes) {
    look_error_ = snapshot.error;
    Feed(FileLost{snapshot.kind == watch::SnapshotKind::kMissing ? EventKind::kMissing : EventKind::kUnreadable});
    return;
  }
  if (snapshot.sha256 == state_.in_file.value_or(state_.seen)) {
    Feed(BytesSeen{snapshot.sha256, EditIntent::kOff});  // nothing new: the intent is not looked at
    return;
  }
  if (agreement_) agreement_->DiscardWriteBack();
  if (!agrees()) WithdrawResampled();
  history_.Seen(snapshot, state_.seen.empty() && first_seen_ != snapshot.sha256 ? first_seen_ : state_.seen);
  const bool was_once = IsOnce();
  current_ = pipeline_.Parse(snapshot.sha256, snapshot.bytes);
  current_.at_step = StepOrdered(snapshot.sha256);
  const EditIntent intent = pipeline_.Classify(&current_, state_.next_plan_id);
  // If it comes back, what was done before counts no more.
  if (was_once && intent == EditIntent::kOff && !state_.armed && !state_.window) history_.Off(snapshot.sha256);
  if (MayBeDone(snapshot, intent)) return AskHistory();
  Feed(BytesSeen{snapshot.sha256, intent});
}

// --- what the ranks have agreed on ---

PlanAgreement::BuiltEdit Reloader::Build(const agree::Change& change, PlanId plan_id) {
  PlanAgreement::BuiltEdit built{pipeline_.Parse(change.sha256, change.bytes), nullptr};
  if (pipeline_.Classify(&built.edit, plan_id) == EditIntent::kRun)
    built.plan = plans_.MakeWindow(built.edit.compiled.plan);
  return built;
}

void Reloader::TakeAgreed(const Edit& edit, PlanId plan_id) {
  current_ = edit;
  Feed(AgreedBytes{edit.sha256, edit.intent, plan_id});
}

void Reloader::JoinRun(const std::string& run_id) {
  run_id_ = run_id;
  if (parts_.on_change) parts_.on_change();
  journal_.SetRunId(run_id);
  history_.SetRunId(run_id);
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
    plans_.DiscardOldSources(state_);
    throw;
  }
  plans_.DiscardOldSources(state_);
  EndRotation();
}

}  // namespace stepwatch::reload
