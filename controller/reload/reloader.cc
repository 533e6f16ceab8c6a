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
constexpr bool kIsReport = !std::is_same_v<Performed, const OfferPlan&> &&
                           !std::is_same_v<Performed, const OfferStop&> && !std::is_same_v<Performed, const WriteBack&>;

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
      record_(options, dynamic, *parts.files),
      displaced_(*parts.loop, [this](const DisplacedWatch::Finding& finding) { TellDisplaced(finding); }) {
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

Status Reloader::Attach(SiteIndex sites) {
  pipeline_.SetSites(std::move(sites));
  record_.SetSites(pipeline_.sites());
  if (attached_) return AttachAgain();
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
  if (options_.rank == 0) displaced_.TakeOver(options_.config_path);
  LookNow();
  watcher_->Start();
  return Status();
}

void Reloader::Refresh() {
  OnBoard();
  outcome_ = RefreshOutcome::kUnchanged;
  displaced_.LookNow();
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
  return state == RunState::kArmed && undecided() ? RunState::kPreparing : state;
}

void Reloader::StopWatching() {
  if (ranks_) ranks_->Leave();
  displaced_.Stop();
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

// What is only told: nothing fails because of it.
template <class Report>
void Reloader::Quietly(Report report) noexcept {
  try {
    report();
  } catch (...) {  // no memory for an event: what it tells of has happened all the same
  }
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
    DropOldSources();
    throw;
  }
  DropOldSources();
}

void Reloader::DropOldSources() {
  std::erase_if(sources_, [this](const auto& source) {
    const auto is_its = [&](const MachinePlan& plan) { return plan.plan_id == source.first; };
    return !(state_.window && is_its(*state_.window)) &&
           std::none_of(state_.offered.begin(), state_.offered.end(), is_its);
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

void Reloader::Perform(const OfferPlan& order) {
  // There already if it was compiled again.
  const Edit& source = sources_.try_emplace(order.plan_id, current_).first->second;
  const std::shared_ptr<const plan::Plan> plan = source.compiled.plan;
  Quietly([&] { Warn(source.compiled.warnings); });
  std::unique_ptr<step::Offer> offer = ranks_ ? ranks_->TakeBuilt(plan) : nullptr;
  if (!offer) offer = MakeOffer(plan, order.keeps_window);
  if (ranks_ && dynamic_ && !order.keeps_window) return ranks_->Take(std::move(offer));
  // In dynamic mode an edit accepted during step n holds from n + 1; all else holds from the step about to begin.
  offer->at_step = parts_.data_plane->step() + (dynamic_ && !order.keeps_window ? 1 : 0);
  Arm(std::move(offer));
}

std::unique_ptr<step::Offer> Reloader::MakeOffer(std::shared_ptr<const plan::Plan> plan, bool keeps_window) const {
  auto offer = std::make_unique<step::Offer>();
  offer->plan = plan;
  offer->pipeline = step::MakePipeline(std::move(plan), options_.grad_acc_steps, options_.ring_bytes_max);
  offer->starts_when_applied = dynamic_;
  offer->keeps_window = keeps_window;
  return offer;
}

void Reloader::Arm(std::unique_ptr<step::Offer>&& offer) {
  const std::shared_ptr<const plan::Plan> plan = offer->plan;
  const std::string when = offer->keeps_window     ? ", the window goes on"
                           : offer->starts_at_step ? ", from step " + std::to_string(offer->at_step)
                                                   : "";
  PrepareOutput(*plan);
  parts_.drain->Adopt(offer->pipeline);
  PutInSlot(std::move(offer));
  outcome_ = RefreshOutcome::kArmed;
  if (ranks_) ranks_->OnPlaced();
  Quietly([&] {
    record_.AddPlan(*plan);
    SaveManifest();
    Tell(EventKind::kArmed, Plural(static_cast<int64_t>(plan->layout.sites.size()), "site") + when,
         plan->layout.plan_id);
  });
}

void Reloader::Perform(const OfferStop&) {
  auto stop = std::make_unique<step::Offer>();
  stop->at_step = parts_.data_plane->step() + 1;
  if (ranks_ && dynamic_) return ranks_->Take(std::move(stop));
  PutInSlot(std::move(stop));
}

void Reloader::PutInSlot(std::unique_ptr<step::Offer>&& offer) {
  const bool keeps_window = offer->keeps_window;
  step::DataPlane& plane = *parts_.data_plane;
  Supersede((keeps_window ? plane.successor_slot() : plane.slot()).Offer(std::move(offer)));
  TidySlot();
}

void Reloader::TidySlot() {
  Supersede(parts_.data_plane->slot().TakeSuperseded());
  parts_.data_plane->Reclaim();
}

void Reloader::Supersede(std::unique_ptr<step::Prepared> prepared) {
  const std::unique_ptr<step::Offer> old(static_cast<step::Offer*>(prepared.release()));
  if (old == nullptr || old->pipeline == nullptr) return;
  Quietly([&] {
    const PlanId id = old->plan->layout.plan_id;
    parts_.drain->Forget(old->pipeline);
    record_.Update(id, [](output::ManifestPlan& plan) { plan.state = "superseded"; });
    SaveManifest();
    Tell(EventKind::kSuperseded, "a newer one took its place before it was applied", id);
  });
}

// Not done, for want of memory, it stays due: no input that led to it comes again.
void Reloader::Perform(const WriteBack& order) try {
  if (ranks_ && !ranks_->reads_the_file()) return ranks_->TellWritten(order.plan_id);
  if (ranks_ && dynamic_) return ranks_->WriteBackWhenWritten(order);
  WriteBackHere(order);
} catch (const std::exception& error) {
  Feed(FoundEdited{order.base_sha256, order.plan_id});
  if (watcher_) watcher_->SetKnown("");
  TellFault(error.what());
}

void Reloader::WriteBackHere(const WriteBack& order) {
  displaced_.LookNow();
  writeback::WriteBackResult result =
      writeback::WriteBackDynamicOff(options_.config_path, order.base_sha256, [this](const std::string& sha256) {
        Feed(WroteBack{sha256});
        watcher_->SetKnown(sha256);
      });
  displaced_.Add(&result);
  if (result.outcome == writeback::WriteBackOutcome::kEdited) {
    Feed(FoundEdited{order.base_sha256, order.plan_id});
    watcher_->SetKnown("");  // whatever the file holds now is looked at, the base bytes included
  } else if (result.outcome == writeback::WriteBackOutcome::kImpossible) {
    displaced_.TakeOver(options_.config_path);
    Feed(WroteBack{order.base_sha256});
    watcher_->SetKnown(order.base_sha256);
  }
  const std::string message = result.outcome == writeback::WriteBackOutcome::kWritten
                                  ? "dynamic_on is false in the file now (" + result.method + ")"
                                  : "dynamic_on was not written back: " + result.message;
  record_.Update(order.plan_id, [&](output::ManifestPlan& plan) { plan.write_back = message; });
  SaveManifest();
  Tell(EventKind::kWroteBack, message, order.plan_id);
}

// An edit that was put in is seen by the watcher like any other.
void Reloader::TellDisplaced(const DisplacedWatch::Finding& finding) {
  const bool is_put_back = finding.kind == DisplacedWatch::Finding::Kind::kPutBack;
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
  std::string note;
  record_.FixDirectory(plan, &note);
  output_->SetDirectory(record_.directory());
  if (plan.layout.format == OutputFormat::kApi) parts_.drain->KeepLatest();
  if (!note.empty()) Quietly([&] { Tell(EventKind::kNote, note); });
}

void Reloader::PublishStructure(const std::string& json) {
  const Result<std::string> path = record_.SaveStructure(json);
  if (path.ok()) return Tell(EventKind::kNote, "print_struct: the structure is in " + path.value());
  Tell(EventKind::kDegraded, "print_struct: " + path.status().message());
}

void Reloader::PublishStacks(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string note;
  const Status saved = record_.SaveStacks(rows, &note);
  if (saved.ok()) return Tell(EventKind::kNote, "stack_info: " + note);
  Tell(EventKind::kDegraded, "stack_info: " + saved.message());
}

void Reloader::SaveManifest() {
  const Status saved = record_.Save();
  const bool was_failing = std::exchange(manifest_failing_, !saved.ok());
  if (!saved.ok() && !was_failing) Tell(EventKind::kDegraded, "manifest.json: " + saved.message());
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
