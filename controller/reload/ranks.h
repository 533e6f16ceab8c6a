// A reloader's part in a job of several ranks that share a store: what the machine wants is proposed by rank 0, agreed
// on by all, and put into the plan slot for the agreed step. Loop thread only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/agree/coordinator.h"
#include "controller/reload/reloader.h"
#include "controller/watch/loop_mailbox.h"

namespace stepwatch::reload {

class Reloader::Ranks final : public agree::RankDelegate {
 public:
  explicit Ranks(Reloader* reloader);
  ~Ranks() override;

  void Enter();
  // Nothing is agreed on after this; a step thread that waits goes on.
  void Leave();

  // Rank 0 alone reads and writes the config file.
  bool reads_the_file() const { return rank_ == 0; }
  // An edit is under way that is not decided on.
  bool settling() const { return !waiting_.empty() || coordinator_->busy(); }

  // Proposes a plan or a stop, or puts it into the slot in the midst of a commit.
  void Take(std::unique_ptr<step::PendingPlan> plan);
  // The plan was compiled again. If the ranks have agreed on it, it goes into the slot for the step that they agreed
  // on.
  void TakeAgain(std::unique_ptr<step::PendingPlan> plan);
  // What was agreed on is in the slot: nobody need wait at the gate for what comes after.
  void OnPlaced() {
    if (committing_ != nullptr) Release();
  }
  // This rank has written all rows of the plan.
  void TellWritten(PlanId plan_id) { coordinator_->TellWritten(AgreedId(plan_id)); }
  // Rank 0: writes back when all ranks have written their rows, after 30 s at the latest, and when this rank leaves;
  // not at all if a new edit comes before.
  void WriteBackWhenWritten(const WriteBack& order);
  void DropWriteBack() { write_back_.reset(); }

  // What was made ready for this plan when the rank voted; null: nothing.
  std::unique_ptr<step::PendingPlan> TakeBuilt(const std::shared_ptr<const plan::Plan>& plan);
  // The model has grown: what was compiled for a vote is compiled again for the commit.
  void DropBuilt() { built_.reset(); }

  // agree::RankDelegate
  int64_t arriving() override;
  int64_t begun() override;
  int64_t HoldAt(int64_t step) override;
  void Release() override;
  std::optional<agree::Decision> Build(const agree::Proposal& proposal) override;
  void Commit(const agree::Proposal& proposal) override;
  void Drop(const agree::Proposal& proposal, const agree::Decision& decision) override;
  void Settle(const agree::Settled& settled) override;
  void Join(const std::string& run_id) override;
  void StoreChanged(const Status& status) override;
  void LeaderIsSilent(std::chrono::milliseconds time) override;

 private:
  // Rank 0: a plan or a stop on which the ranks have not decided.
  struct Waiting {
    int64_t ticket = 0;
    agree::Change change;
    std::unique_ptr<step::PendingPlan> plan;
  };
  // Other ranks: what a proposal's bytes became.
  struct Built {
    int64_t number = 0;
    Edit edit;
    std::unique_ptr<step::PendingPlan> plan;  // kRun
  };

  void Propose(std::unique_ptr<step::PendingPlan> plan);
  // Takes the plan unless it throws.
  void Place(std::unique_ptr<step::PendingPlan>&& plan, const agree::Proposal& proposal);
  Built BuildFrom(const agree::Proposal& proposal);
  void CommitNow(const agree::Proposal& proposal);
  void CommitHere(const agree::Proposal& proposal);
  void Refuse(const agree::Settled& settled);
  void Forget(int64_t ticket);
  void ForgetOlder(int64_t kept);
  void Advance();
  void WriteBackNow();
  PlanId AgreedId(PlanId plan_id) const;
  void ReportDoubt();
  void EndDoubt();
  step::StepGate& gate();

  Reloader* const reloader_;
  const int rank_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  std::shared_ptr<agree::Coordinator> coordinator_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer retry_timer_;  // of a commit that failed
  bool has_entered_ = false;
  bool retries_commit_ = false;

  std::vector<Waiting> waiting_;  // by ticket
  int64_t tickets_ = 0;
  std::optional<Built> built_;
  const agree::Proposal* committing_ = nullptr;
  std::optional<agree::Proposal> placed_;  // the newest that went into the slot
  std::optional<WriteBack> write_back_;
  int64_t timeouts_told_ = 0;
  bool doubt_told_ = false;
};

}  // namespace stepwatch::reload
