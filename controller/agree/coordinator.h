// Runs one rank's state machines over the job's store. Loop thread only; owns no thread and no timer.
//
// Keys, under the job's prefix:
//   latest          the leader's session and its newest proposal        leader, replaced
//   b/RANK          a bell: there is something new, or the decision     leader; removed by the rank that listens
//   SESSION/r       who has come: each rank's incarnation               a word of each rank
//   SESSION/p/N     proposal N                                          leader
//   SESSION/v/N     the votes of those who are ready for N              a word of each rank
//   SESSION/d/N     the decision about N                                whoever is first
//   SESSION/w/PLAN  who has written all rows of the plan                a word of each rank
//
// A rank whose store listens waits for its bell alone and makes hardly a request while nothing happens. A bell is a
// hint, as an event of inotify is: the news is read from the other keys, which are also looked at now and then without
// a bell. Without a bell a rank polls `latest`.
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

// The rank that a coordinator steers.
class RankDelegate {
 public:
  virtual ~RankDelegate() = default;
  // The step that began last: runs, or is held at the gate.
  virtual int64_t arriving() = 0;
  // The step for which the plan slot was looked at last.
  virtual int64_t begun() = 0;
  // Sets the gate: the step thread does not begin `step`, or a later one, unknowingly. Returns arriving(), read after
  // it was set.
  virtual int64_t HoldAt(int64_t step) = 0;
  virtual void Release() = 0;
  // Makes ready what Commit needs. A fault: this rank cannot do it.
  virtual std::optional<Decision> Build(const Proposal& proposal) = 0;
  // The change holds from its step, or from the next boundary if that is past.
  virtual void Commit(const Proposal& proposal) = 0;
  virtual void Discard(const Proposal& proposal, const Decision& decision) = 0;
  // On the leader, after Commit or Discard.
  virtual void Settle(const Settled& settled) = 0;
  // The job's run id is known.
  virtual void Join(const std::string& run_id) = 0;
  // The store fails, with the reason; or Ok: it answers again.
  virtual void StoreChanged(const Status& status) = 0;
  // On other ranks than the leader, once: no message of it has arrived for so long, and edits come from it alone.
  virtual void LeaderIsSilent(std::chrono::milliseconds time) = 0;
  // On other ranks than the leader, once: its messages are of another version, and nothing can be agreed on.
  virtual void LeaderIsIncompatible(const std::string& why) { (void)why; }
  // On other ranks than the leader: the leader of this session, whom the rank follows, has asked so many questions.
  virtual void Asked(const Incarnation& session, int64_t number) { (void)session, (void)number; }
};

struct Settings {
  std::string prefix = "stepwatch";
  int rank = 0;
  int world_size = 1;
  Incarnation incarnation;  // hex digits, different for every process; the leader's is its session
  std::string run_id;       // leader
  // False: only the run id is shared (static mode).
  bool steers = true;
  // How often a rank without a bell looks for proposals, at most; less often when steps are long.
  std::chrono::milliseconds poll{20};
  std::chrono::milliseconds poll_max{250};
  // The same while there is no leader.
  std::chrono::milliseconds poll_for_leader_max{1000};
  // How often one with a bell looks nevertheless; less often in a job of more than a thousand ranks.
  std::chrono::milliseconds look{60000};
  // The same while a proposal is under way, and how often the step is looked at then.
  std::chrono::milliseconds busy_poll{4};
  std::chrono::milliseconds busy_tick{2};
  // A request that is not answered by then is made again.
  std::chrono::milliseconds answer_time{5000};
  std::chrono::milliseconds vote_time{30000};
  // Steps between the next boundary and the first one that is proposed.
  int64_t margin = 2;
};

class Coordinator : public std::enable_shared_from_this<Coordinator> {
 public:
  struct Dependencies {
    std::function<Time()> now;
    // Runs the work on the loop thread, never from within the call; safe from any thread, also when the loop is gone.
    std::function<void(std::function<void()>)> post;
    // Advance is wanted at this time; replaces what was wanted before.
    std::function<void(Time)> wake_at;
  };

  // `delegate` must outlive the coordinator, or its Stop.
  Coordinator(Settings settings, std::shared_ptr<Store> store, RankDelegate* delegate, Dependencies dependencies);

  bool is_leader() const { return settings_.rank == 0; }
  // Leader: the newest change replaces one that is not settled yet. An edit for a step that is far is proposed when it
  // comes near, and a pause replaces no edit that waits for that.
  void Want(Change change, int64_t ticket, int64_t not_before = 0);
  // Leader: the newest of what is wanted and not decided on.
  std::optional<Deed> undecided() const {
    if (leader_.wanted) return leader_.wanted->change.deed;
    return leader_.ballot ? std::optional(leader_.ballot->proposal.change.deed) : std::nullopt;
  }
  // Leader: an edit waits for its step to come near.
  bool defers() const { return leader_.later.has_value(); }
  // Leader: it is not wanted any more.
  void WithdrawDeferred();
  // Leader: there is a new question to all ranks, whose number they are to know.
  void AnnounceQuestion(int64_t number);
  // This rank has written all rows of the plan.
  void ReportWritten(PlanId plan_id);
  // Leader: calls `then` once every other rank has reported that of the plan, or at the deadline; replaces an earlier
  // call.
  void AwaitWritten(PlanId plan_id, Time deadline, std::function<void()> then);
  // Does what is due.
  void Advance();
  void Stop();

  // A change is under way that is not decided, on the leader also one that is not proposed yet.
  bool busy() const { return member_.pending || leader_.ballot || leader_.wanted; }
  // The step of the open proposal, if there is one.
  std::optional<int64_t> proposed_step() const;
  // For tests that visit each state once.
  std::string StateText() const;

 private:
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
  void PublishAsked();
  void Ring();
  void CallRoll();
  void PublishBallot();
  void AskForVotes();
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
  RankDelegate* delegate_;  // null: stopped
  const Dependencies dependencies_;
  StoreClient store_;

  LeaderState leader_;
  MemberState member_;
  std::string session_;                    // that the member follows; empty: none known yet
  std::optional<Latest> latest_;           // newest that was read
  std::optional<Decision> next_decision_;  // of the next proposal, read before the proposal itself
  bool next_was_over_ = false;             // at that time a newer one was there already
  bool announced_ = false;                 // leader: the session is in the store
  bool proposal_is_in_store_ = false;      // leader: of the ballot that is being published
  Latest announced_latest_;                // leader: as it was written last
  int64_t asked_ = 0;                      // leader: to be written; others: passed to the delegate
  const bool rings_;                       // leader: as `latest` says
  int64_t rings_wanted_ = 0, rings_done_ = 0;
  bool is_enrolled_ = false;  // the session's roll names this rank
  bool had_bell_ = false;
  bool has_rung_ = false;             // since `latest` was read
  bool bell_is_unreachable_ = false;  // news was there and it had not rung
  const Time started_;
  bool is_silence_reported_ = false;  // or that the leader is incompatible
  Time busy_since_;
  bool was_busy_ = false;

  int64_t step_seen_ = -1;
  Time step_seen_at_;
  std::chrono::milliseconds step_time_{0};

  // Leader: who has come, as far as it was read for a ballot.
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
