// Runs one rank's state machines over the job's store. Loop thread only; owns no thread and no timer.
//
// Keys under the job's prefix, their values, and their writers:
//   latest          the leader's session and its newest proposal        leader, replaced
//   b/RANK          a bell, rung for news or for the decision           leader; removed by the rank that listens
//   SESSION/r       the roll: incarnation of each rank that has joined  a word of each rank
//   SESSION/p/N     proposal N                                          leader
//   SESSION/v/N     the votes for proposal N                            a word of each rank
//   SESSION/d/N     the decision on N                                   the first rank to set it
//   SESSION/w/PLAN  the ranks that have written all rows of the plan    a word of each rank
//
// A rank whose store can listen waits for its bell and makes hardly any request in the meantime. A bell is a hint, like
// an inotify event: the rank reads the news from the other keys, and also polls them rarely in case a bell is lost.
// Without a bell a rank polls `latest`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/agree/leader.h"
#include "controller/agree/member.h"
#include "controller/agree/messages.h"
#include "controller/agree/store_client.h"
#include "controller/agree/written_tally.h"
#include "stepwatch/status.h"
#include "stepwatch/store.h"

namespace stepwatch::agree {

// The rank that a coordinator controls.
class RankDelegate {
 public:
  virtual ~RankDelegate() = default;
  // The step that began last: it is running, or held at the gate.
  virtual int64_t arriving() = 0;
  // The newest step for which the step thread has checked the plan slot.
  virtual int64_t begun() = 0;
  // Sets the gate: the step thread cannot begin `step`, or a later one, without checking the decision. Returns
  // arriving(), read after the gate was set.
  virtual int64_t HoldAt(int64_t step) = 0;
  virtual void Release() = 0;
  // Prepares Commit. Returns an abort if this rank cannot apply the change.
  virtual std::optional<Decision> Build(const Proposal& proposal) = 0;
  // Applies the change from its step, or from the next boundary if that step has passed.
  virtual void Commit(const Proposal& proposal) = 0;
  virtual void Discard(const Proposal& proposal, const Decision& decision) = 0;
  // Leader only; follows Commit or Discard.
  virtual void Settle(const Settled& settled) = 0;
  // Called when the job's run id is known.
  virtual void Join(const std::string& run_id) = 0;
  // Called with the reason when the store fails, and with Ok when it responds again.
  virtual void StoreChanged(const Status& status) = 0;
  // Not on the leader. Called once if no message of the leader has arrived for this time; edits come only from it.
  virtual void LeaderIsSilent(std::chrono::milliseconds time) = 0;
  // Not on the leader. Called once if the leader's messages have another version, so that no agreement is possible.
  virtual void LeaderIsIncompatible(const std::string& why) { (void)why; }
  // Not on the leader. `number`: count of questions by the leader of `session`, which this rank follows.
  virtual void QuestionAnnounced(const Incarnation& session, int64_t number) { (void)session, (void)number; }
};

struct Settings {
  std::string prefix = "stepwatch";
  int rank = 0;
  int world_size = 1;
  Incarnation incarnation;  // hex digits, unique to the process; the leader's incarnation is its session
  std::string run_id;       // set on the leader
  // False: ranks share only the run id (static mode).
  bool steers = true;
  // Shortest poll interval for proposals of a rank without a bell; longer when steps are long.
  std::chrono::milliseconds poll{20};
  std::chrono::milliseconds poll_max{250};
  // Longest poll interval while there is no leader.
  std::chrono::milliseconds poll_for_leader_max{1000};
  // Poll interval of a rank with a bell; longer in a job of more than a thousand ranks.
  std::chrono::milliseconds look{60000};
  // Shortest poll interval of the store and of the step while a proposal is in progress.
  std::chrono::milliseconds busy_poll{4};
  std::chrono::milliseconds busy_tick{2};
  // A request without an answer in this time is repeated.
  std::chrono::milliseconds answer_time{5000};
  std::chrono::milliseconds vote_time{30000};
  // Steps between the next boundary and the first proposed step.
  int64_t margin = 2;
};

class Coordinator : public std::enable_shared_from_this<Coordinator> {
 public:
  struct Dependencies {
    std::function<Time()> now;
    // Runs the work on the loop thread, never within the call. Safe on any thread, even after the loop has ended.
    std::function<void(std::function<void()>)> post;
    // Requests a call of Advance at this time; replaces the earlier request.
    std::function<void(Time)> wake_at;
  };

  // `delegate` must outlive the coordinator or the time of its Stop.
  Coordinator(Settings settings, std::shared_ptr<Store> store, RankDelegate* delegate, Dependencies dependencies);

  bool is_leader() const { return settings_.rank == 0; }
  // Leader: the newest change replaces an unsettled one. An edit for a distant step is proposed when that step comes
  // near; a pause does not replace such an edit.
  void Want(Change change, int64_t ticket, int64_t not_before = 0);
  // Leader: the newest change without a decision.
  std::optional<Deed> undecided() const {
    if (leader_.wanted) return leader_.wanted->change.deed;
    return leader_.ballot ? std::optional(leader_.ballot->proposal.change.deed) : std::nullopt;
  }
  // Leader: true while an edit waits for its step to come near.
  bool defers() const { return leader_.later.has_value(); }
  // Leader: drops that edit.
  void WithdrawDeferred();
  // Leader: announces a new question to all ranks.
  void AnnounceQuestion(int64_t number);
  // Reports that this rank has written all rows of the plan.
  void ReportWritten(PlanId plan_id);
  // Leader: calls `then` when every other rank has reported this for the plan, or at the deadline; replaces an earlier
  // call.
  void AwaitWritten(PlanId plan_id, Time deadline, std::function<void()> then);
  // Performs the work that is due.
  void Advance();
  void Stop();

  // True while a change is undecided; on the leader also while one is not proposed yet.
  bool busy() const { return member_.pending || leader_.ballot || leader_.wanted; }
  // The step of the open proposal; nullopt without one.
  std::optional<int64_t> proposed_step() const;

 private:
  friend struct CoordinatorState;  // of tests

  StoreClient::Dependencies ForStore();
  std::string SessionKey() const { return session_.empty() ? "" : settings_.prefix + "/" + session_; }
  std::string Key(char kind, int64_t number) const;
  std::string BellKey(int rank) const { return settings_.prefix + "/b/" + std::to_string(rank); }

  void Feed(const MemberInput& input);
  void Feed(const LeaderInput& input);
  void Act(const Prepare& action);
  void Act(const Commit& action);
  void Act(const Discard& action);

  void AdvanceLeader();
  void Announce();
  void PublishQuestion();
  void Ring();
  void CallRoll();
  void PublishBallot();
  void ReadVotes();
  void AdvanceMember();
  agree::Decision Closing() const;
  void LookForProposals();
  void ListenForBell();
  void ReportSilence();
  void OnLatest(const std::string& text_untrusted);
  void Follow(const Latest& latest);
  void Enrol();
  void FetchNext();
  void OnDecision(int64_t number, const std::string& text_untrusted);
  bool has_bell() const { return listen_.is_out && !bell_is_unreachable_ && latest_ && latest_->rings; }
  std::chrono::milliseconds Pause() const;
  std::chrono::milliseconds IdlePoll();
  std::chrono::milliseconds BusyPoll() const;
  std::chrono::milliseconds SharedBusyPoll() const;
  std::chrono::milliseconds OutcomePoll() const;

  const Settings settings_;
  RankDelegate* delegate_;  // null once stopped
  const Dependencies dependencies_;
  StoreClient store_;

  LeaderState leader_;
  MemberState member_;
  std::string session_;                    // the session that the member follows; empty: not known yet
  std::optional<Latest> latest_;           // newest value read
  std::optional<Decision> next_decision_;  // of the next proposal, read before the proposal itself
  bool next_was_over_ = false;             // when it was read, a newer proposal existed already
  bool announced_ = false;                 // leader: the session is in the store
  bool proposal_is_in_store_ = false;      // leader: for the ballot that is being published
  Latest announced_latest_;                // leader: the value written last
  int64_t newest_question_ = 0;            // leader: to be written; others: passed to the delegate
  const bool rings_;                       // leader: `latest` announces that it rings bells
  int64_t rings_wanted_ = 0, rings_done_ = 0;
  bool is_enrolled_ = false;  // the session's roll names this rank
  bool had_bell_ = false;
  bool has_rung_ = false;             // since the last read of `latest`
  bool bell_is_unreachable_ = false;  // a poll found news although the bell had not rung
  const Time started_;
  bool is_silence_reported_ = false;  // or an incompatible leader was reported
  Time busy_since_;
  bool was_busy_ = false;

  int64_t step_seen_ = -1;
  Time step_seen_at_;
  std::chrono::milliseconds step_time_{0};

  // Leader: the incarnations read so far for a ballot.
  struct Roll {
    int64_t number = 0;
    std::vector<Incarnation> incarnations;  // by rank
    std::vector<bool> is_read;              // by rank
  };
  Roll roll_;

  WrittenTally written_;
  StoreClient::Request read_latest_, read_proposal_, read_decision_, write_vote_, read_outcome_, close_, decide_,
      announce_, publish_, announce_question_, clear_, enrol_, ring_, listen_;
  std::vector<StoreClient::Request> read_votes_, read_roll_;  // by rank
};

}  // namespace stepwatch::agree
