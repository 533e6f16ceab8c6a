// One rank's part in a job of several that share a store: rank 0 proposes the changes of its machine, all ranks agree
// on them, and each puts the plan into its slot for the agreed step. Loop thread only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/agree/coordinator.h"
#include "controller/ask/questions.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/machine.h"
#include "controller/watch/loop_mailbox.h"
#include "controller/watch/timer.h"
#include "src/step/data_plane.h"
#include "src/step/pending_plan.h"
#include "stepwatch/event.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::reload {

class PlanAgreement final : private agree::RankDelegate {
 public:
  // The bytes of a proposal, built on this rank.
  struct BuiltEdit {
    Edit edit;
    std::unique_ptr<step::PendingPlan> plan;  // kRun
  };

  // The edits of this rank. A call that throws has no effect, and is repeated.
  class Edits {
   public:
    virtual ~Edits() = default;
    // The first id that no plan of this rank has used.
    virtual PlanId next_plan_id() const = 0;
    virtual BuiltEdit Build(const agree::Change& change, PlanId plan_id) = 0;
    // All ranks but 0: as if these bytes had been found in the file. Submits the plan or the stop that they request.
    virtual void OnAgreed(const Edit& edit, PlanId plan_id) = 0;
    // Rank 0: a rank cannot apply the change.
    virtual void OnRejected(const agree::Change& change, const agree::Decision& decision) = 0;
    // Rank 0: a rank has used the plan's id. Submits the armed plan under a free one.
    virtual void Renumber(PlanId next_plan_id) = 0;
    // A plan or a stop waits for its at_step from now on. Takes ownership unless it throws.
    virtual void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) = 0;
    virtual void ReportArmed(const plan::Plan& plan, const std::string& when) noexcept = 0;
  };

  // The sampling of this rank's window. A call that throws has no effect, and is repeated.
  class Samplings {
   public:
    virtual ~Samplings() = default;
    // The reason why this rank cannot continue its window as the ranks are about to agree; Ok also without such a
    // window.
    virtual Status TrySampling(const agree::Change& change) = 0;
    // From this step on the window continues with the agreed sampling.
    virtual void OnSamplingAgreed(const agree::Change& change, int64_t at_step) = 0;
    // Rank 0: no rank applies it.
    virtual void OnSamplingRejected(const agree::Decision& decision) = 0;
  };

  class Reporter {
   public:
    virtual ~Reporter() = default;
    virtual void Emit(EventKind kind, std::string message, PlanId plan_id = 0) = 0;
    // A commit failed, and is retried.
    virtual void ReportFault(const std::string& what) = 0;
    // The retry has succeeded.
    virtual void EndFault() = 0;
  };

  // The parts of this rank that carry out the decisions of the ranks.
  struct Delegates {
    Edits* edits = nullptr;
    Samplings* samplings = nullptr;
    Reporter* reporter = nullptr;
    // From this step on the window in force collects nothing, or collects again.
    std::function<void(bool pause, int64_t at_step)> on_pause_agreed;
    std::function<void(const WriteBack&)> write_back;
    // The run id of the job is known.
    std::function<void(const std::string& run_id)> on_run_id;
  };

  // The loop, the data plane, the delegates and the host must outlive it. Without a host the ranks send each other no
  // questions; in static mode they exchange only the run id.
  PlanAgreement(const Options& options, bool dynamic, boost::asio::io_context& loop, step::DataPlane* data_plane,
                Delegates delegates, ask::QuestionHost* host);
  ~PlanAgreement() override;

  void Enter();
  // No change is agreed on after this; a waiting step thread continues.
  void Leave();

  const std::string& incarnation() const { return settings_.incarnation; }
  ask::Questions* questions() const { return questions_.get(); }  // null: no questions

  // Rank 0 alone reads and writes the config file.
  bool reads_the_file() const { return rank_ == 0; }
  bool knows_run_id() const { return reads_the_file() || has_joined_run_; }
  // True while an edit is undecided, unless it merely waits for its step to come near.
  bool undecided() const { return (!waiting_.empty() && !coordinator_->defers()) || coordinator_->busy(); }
  // The step proposed for such an edit; -1: none. Any thread.
  int64_t proposed_step() const { return proposed_step_.load(std::memory_order_relaxed); }

  // Proposes a plan or a stop that `edit` requests, or puts it into the slot during a commit.
  void Submit(std::unique_ptr<step::PendingPlan> plan, const Edit& edit);
  // The plan was compiled again. If the ranks have agreed on it, it goes into the slot for the agreed step.
  void SubmitAgain(std::unique_ptr<step::PendingPlan> plan, const Edit& edit);
  // Rank 0: an edit waits for its step to come near, and no other rank has received it.
  bool defers() const { return coordinator_->defers(); }
  // Rank 0: withdraws it.
  void WithdrawDeferred();
  // Rank 0: proposes to pause or resume the window in force, which came from `running`. No edit may be undecided.
  void ProposePause(bool pause, const Edit& running);
  // Rank 0: the undecided pause (true) or resumption.
  std::optional<bool> pausing() const;

  // Rank 0: proposes to continue the window in force, which came from `running`, under a plan of this id, with
  // `sampling`. No change may be undecided.
  void ProposeSampling(const std::string& sampling, PlanId plan_id, const Edit& running);
  // Rank 0: a sampling is undecided; an edit or a pause may replace it.
  bool is_resampling() const { return coordinator_->undecided() == agree::Deed::kSampling; }

  // The pending plan that was made for this plan when the rank voted; null: none.
  std::unique_ptr<step::PendingPlan> TakeBuilt(const std::shared_ptr<const plan::Plan>& plan);
  // The model has grown: compiles the plan of a vote again for the commit.
  void DiscardBuilt() { built_.reset(); }

  // This rank has written all rows of the plan.
  void ReportWritten(PlanId plan_id) { coordinator_->ReportWritten(AgreedId(plan_id)); }
  // Rank 0: writes back when all ranks have written their rows, after 30 s at the latest, and when this rank leaves;
  // not at all if a new edit comes before.
  void WriteBackWhenWritten(const WriteBack& action);
  void DiscardWriteBack() { write_back_.reset(); }

 private:
  // Rank 0: a plan or a stop on which the ranks have not decided.
  struct Waiting {
    int64_t ticket = 0;
    agree::Change change;
    std::unique_ptr<step::PendingPlan> plan;
  };
  // Other ranks: prepared for a vote.
  struct Built : BuiltEdit {
    int64_t number = 0;  // of the proposal
  };

  // agree::RankDelegate
  int64_t arriving() override { return data_plane_->gate.arriving(); }
  int64_t begun() override { return data_plane_->running.number(); }
  int64_t HoldAt(int64_t step) override { return data_plane_->gate.HoldAt(step); }
  void Release() override { data_plane_->gate.Release(); }
  std::optional<agree::Decision> Build(const agree::Proposal& proposal) override;
  void Commit(const agree::Proposal& proposal) override;
  void Discard(const agree::Proposal& proposal, const agree::Decision& decision) override;
  void Settle(const agree::Settled& settled) override;
  void Join(const std::string& run_id) override;
  void StoreChanged(const Status& status) override;
  void LeaderIsSilent(std::chrono::milliseconds time) override;
  void LeaderIsIncompatible(const std::string& why) override;
  void QuestionAnnounced(const agree::Incarnation& session, int64_t number) override;

  std::shared_ptr<ask::Questions> MakeQuestions(const Options& options, ask::QuestionHost* host);
  agree::Coordinator::Dependencies ForCoordinator();
  void WakeAt(agree::Time time);
  void Advance();
  void Propose(std::unique_ptr<step::PendingPlan> plan, const Edit& edit);
  void DiscardWaiting(int64_t ticket);
  void DiscardOlder(int64_t kept);
  // The id of this proposal's plan: the agreed one if it is free on this rank.
  PlanId IdFor(const agree::Proposal& proposal) const;
  Built BuildFrom(const agree::Proposal& proposal);
  std::optional<agree::Decision> TrySampling(const agree::Proposal& proposal);
  void CommitPause(const agree::Proposal& proposal);
  void CommitOwn(const agree::Proposal& proposal);
  void CommitProposed(const agree::Proposal& proposal);
  // Takes ownership of the plan unless it throws.
  void Place(std::unique_ptr<step::PendingPlan>&& plan, const agree::Proposal& proposal);
  void ReportDiscarded(const agree::Proposal& proposal, const agree::Decision& decision);
  void ReportLate(const agree::Proposal& proposal, int64_t steps, PlanId plan_id);
  void WriteBackNow();
  PlanId AgreedId(PlanId plan_id) const;
  void ReportDoubt();
  void EndDoubt();

  const Delegates delegates_;
  step::DataPlane* const data_plane_;
  const int rank_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  watch::Timer timer_;
  watch::Timer retry_timer_;  // for a commit that failed
  watch::Timer question_timer_;
  const agree::Settings settings_;
  const std::shared_ptr<agree::Coordinator> coordinator_;
  const std::shared_ptr<ask::Questions> questions_;
  std::atomic<int64_t> proposed_step_{-1};
  bool has_entered_ = false;
  bool has_joined_run_ = false;
  bool retries_commit_ = false;

  std::vector<Waiting> waiting_;  // by ticket
  int64_t tickets_ = 0;           // of edits
  std::optional<Built> built_;
  const agree::Proposal* committing_ = nullptr;
  std::optional<agree::Proposal> placed_;  // the newest one in the slot
  std::optional<WriteBack> write_back_;
  int64_t reported_timeouts_ = 0;
  bool is_doubt_reported_ = false;
};

}  // namespace stepwatch::reload
