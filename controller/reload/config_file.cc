#include "controller/reload/config_file.h"

#include <exception>
#include <utility>

#include "src/base/ignore_exceptions.h"

namespace stepwatch::reload {

ConfigFile::ConfigFile(const Options& options, const Dependencies& dependencies)
    : options_(options),
      parts_(dependencies),
      work_(*dependencies.loop, *dependencies.io),
      writer_(*dependencies.loop, &work_, dependencies.files, options.config_path,
              // The watcher reports an edit that was put back like any other.
              [reports = dependencies.reports](const ConfigWriter::Finding& finding) {
                const bool is_put_back = finding.kind == ConfigWriter::Finding::Kind::kPutBack;
                reports->Emit(is_put_back ? EventKind::kNote : EventKind::kWarning, finding.message);
              }) {}

Status ConfigFile::ReadOnce() {
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(options_.config_path, *parts_.files);
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return Status(snapshot.kind == watch::SnapshotKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  snapshot.kind == watch::SnapshotKind::kUnstable ? options_.config_path + " changes while it is read"
                                                                  : snapshot.error);
  parts_.history->Seen(snapshot, "");
  Edit* const edit = parts_.controller->mutable_current();
  *edit = parts_.pipeline->Parse(snapshot.sha256, snapshot.bytes);
  return edit->parsed.status();
}

void ConfigFile::MakeWatcher() {
  watch::WatcherOptions watch_options;
  watch_options.path = options_.config_path;
  watch_options.use_inotify = options_.use_inotify;
  watch_options.look_interval = options_.look_interval;
  watch_options.quiet_time = options_.quiet_time;
  watcher_ = std::make_unique<watch::Watcher>(
      *parts_.loop, *parts_.io, watch_options,
      watch::Watcher::Callbacks{[this](const watch::FileSnapshot& snapshot) { OnLook(snapshot); },
                                [this](const std::string& bytes) { return parts_.pipeline->LooksWhole(bytes); },
                                [this](const std::string& what) { parts_.reports->ReportFault(what); },
                                [this] { parts_.reports->EndFault(); },
                                [this](watch::LookCause cause) { ++looks_[static_cast<size_t>(cause)]; }},
      *parts_.files);
}

void ConfigFile::Watch() {
  // Before the first look: an edit that a killed process left beside the config belongs into the config.
  if (options_.rank == 0) writer_.AdoptLeftovers();
  ++looks_awaited_;
  watcher_->LookNow([this] { --looks_awaited_; });
  watcher_->Start();
}

void ConfigFile::Refresh() {
  writer_.LookNow();
  if (!watcher_) return;
  ++looks_awaited_;
  watcher_->LookNow([this] { --looks_awaited_; });
}

void ConfigFile::LookNow(std::function<void()> then) {
  std::function<void()> done = [this, then = std::move(then)] {
    --looks_awaited_;
    then();
  };
  ++looks_awaited_;
  watcher_->LookNow(std::move(done));
}

void ConfigFile::LookAgain() {
  if (watcher_) watcher_->SetKnown("");
}

void ConfigFile::Stop() {
  if (watcher_) watcher_->Stop();
}

void ConfigFile::OnLook(const watch::FileSnapshot& snapshot) {
  PlanController& controller = *parts_.controller;
  const MachineState& state = controller.state();
  parts_.restart->DropReading();
  if (snapshot.kind != watch::SnapshotKind::kBytes) {
    parts_.reports->SetLookError(snapshot.error);
    controller.Feed(
        FileLost{snapshot.kind == watch::SnapshotKind::kMissing ? EventKind::kMissing : EventKind::kUnreadable});
    return;
  }
  if (!state.has_returned && snapshot.sha256 == state.in_file.value_or(state.seen)) {
    controller.Feed(BytesSeen{snapshot.sha256, EditIntent::kOff});  // no new bytes: the machine ignores the intent
    return;
  }
  if (controller.agreement() != nullptr) controller.agreement()->DiscardWriteBack();
  parts_.resampler->OnNewEdit();
  const std::string& first_seen = parts_.restart->first_seen();
  parts_.history->Seen(snapshot, state.seen.empty() && first_seen != snapshot.sha256 ? first_seen : state.seen);
  const bool was_once = parts_.restart->IsOnce();
  Edit* const edit = controller.mutable_current();
  *edit = parts_.pipeline->Parse(snapshot.sha256, snapshot.bytes);
  edit->at_step = ordered_step_.Take(snapshot.sha256);
  const EditIntent intent = parts_.pipeline->Classify(edit, state.next_plan_id);
  // If the window begins again, it counts as not done before.
  if (was_once && intent == EditIntent::kOff && !state.armed && !state.window) parts_.history->Off(snapshot.sha256);
  if (parts_.restart->MayBeDone(intent)) return parts_.restart->ReadHistories();
  controller.Feed(BytesSeen{snapshot.sha256, intent});
}

// The result of a write-back is not parsed: it differs from the bytes that were read in one word.
std::shared_ptr<const config::Config> ConfigFile::Config() {
  const Edit& edit = parts_.controller->current();
  const std::string& seen = parts_.controller->state().seen;
  const bool is_usable = edit.parsed.ok() && edit.intent != EditIntent::kRefused && !seen.empty();
  if (!is_usable) return nullptr;
  if (in_file_.config && in_file_.read == edit.sha256 && in_file_.seen == seen) return in_file_.config;
  auto config = std::make_shared<config::Config>(edit.parsed.value().config);
  if (edit.sha256 != seen) config->dynamic_on = false;
  in_file_ = {edit.sha256, seen, std::move(config)};
  return in_file_.config;
}

// If it fails for lack of memory, it stays due: the input that caused it does not come again.
void ConfigFile::WriteBack(const reload::WriteBack& action) try {
  PlanController& controller = *parts_.controller;
  if (!controller.mode().reads_the_file) return controller.agreement()->ReportWritten(action.plan_id);
  if (controller.mode().agrees()) return controller.agreement()->WriteBackWhenWritten(action);
  WriteBackNow(action);
} catch (const std::exception& error) {
  RetryWriteBack(action, error.what());
}

void ConfigFile::RetryWriteBack(const reload::WriteBack& action, const std::string& why) {
  parts_.controller->Feed(FoundEdited{action.base_sha256, action.plan_id});
  LookAgain();
  parts_.reports->ReportFault(why);
}

void ConfigFile::WriteBackNow(const reload::WriteBack& action) try {
  writer_.WriteBack(action.base_sha256, watcher_->IsUnchanged(),
                    [this, action](const Status& fault, const writeback::WriteBackResult& result) {
                      if (fault.ok()) return OnWroteBack(action, result);
                      RetryWriteBack(action, fault.message());
                    });
} catch (const std::exception& error) {
  RetryWriteBack(action, error.what());
}

void ConfigFile::OnWroteBack(const reload::WriteBack& action, const writeback::WriteBackResult& result) {
  const MachineState& state = parts_.controller->state();
  const bool is_edited = result.outcome == writeback::WriteBackOutcome::kEdited;
  const bool is_written = result.outcome == writeback::WriteBackOutcome::kWritten;
  // An edit that was found during the write-back is newer than both.
  const bool is_news = state.in_file.value_or(state.seen) == action.base_sha256;
  const std::string holds = is_edited || !is_news ? "" : is_written ? result.sha256 : action.base_sha256;
  if (is_edited)
    parts_.controller->Feed(FoundEdited{action.base_sha256, action.plan_id});
  else
    parts_.controller->Feed(WroteBack{action.base_sha256, holds});
  if (is_written && parts_.controller->current().sha256 == action.base_sha256 && parts_.restart->IsOnce())
    parts_.history->WroteBack(action.plan_id, action.base_sha256, result.sha256);
  watcher_->SetKnown(holds);  // empty: the next look treats the content of the file as new, the base bytes included
  const std::string message = is_written ? "dynamic_on is false in the file now (" + result.method + ")"
                                         : "dynamic_on was not written back: " + result.message;
  base::IgnoreExceptions(
      [&] { parts_.journal->Update(action.plan_id, [&](output::ManifestPlan& plan) { plan.write_back = message; }); });
  parts_.journal->AfterSaved(
      [reports = parts_.reports, message, id = action.plan_id] { reports->Emit(EventKind::kWroteBack, message, id); });
}

}  // namespace stepwatch::reload
