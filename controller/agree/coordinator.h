// Runs one rank's state machines over the job's store. Loop thread only; owns no thread and no timer.
//
// Keys, under the job's prefix:
//   latest             the leader's session and its newest proposal     leader, replaced
//   SESSION/p/N        proposal N                                       leader
//   SESSION/v/N/RANK   the vote of a rank: that it is ready for N       that rank
//   SESSION/d/N        the decision about N                             whoever is first
//   SESSION/w/RANK     the newest plan of which all rows are written    that rank, replaced
// Everything in the store is repeated until it is answered; each key's meaning allows that.
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
#include "stepwatch/status.h"
#include "stepwatch/store.h"

namespace stepwatch::agree {

// What the coordinator steers on its rank.
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
  virtual void Drop(const Proposal& proposal, const Decision& decision) = 0;
  // On the leader, after Commit or Drop.
  virtual void Settle(const Settled& settled) = 0;
  // The job's run id is known.
  virtual void Join(const std::string& run_id) = 0;
  // The store fails, with the reason; or Ok: it answers again.
  virtual void StoreChanged(const Status& status) = 0;
  // On other ranks than the leader, once: nothing was heard of it for so long, and edits come from it alone.
  virtual void LeaderIsSilent(std::chrono::milliseconds time) = 0;
};

struct Settings {
  std::string prefix = "stepwatch";
  int rank = 0;
  int world_size = 1;
  std::string session;  // leader: hex digits, different for every process
  std::string run_id;   // leader
  // False: only the run id is shared (static mode).
  bool steers = true;
  // How often a rank looks for proposals, at most; less often when steps are long.
  std::chrono::milliseconds poll{20};
  std::chrono::milliseconds poll_max{250};
  // The same while a proposal is under way, and how often the step is looked at then.
  std::chrono::milliseconds busy_poll{4};
  std::chrono::milliseconds busy_tick{2};
  // A request that is not answered by then is made again.
  std::chrono::milliseconds answer_time{5000};
  std::chrono::milliseconds vote_time{30000};
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
  Coordinator(Settings settings, std::shared_ptr<Store> store, RankDelegate* delegate, Dependencies surroundings);

  bool is_leader() const { return settings_.rank == 0; }
  // Leader: the newest change replaces one that is not settled yet.
  void Want(Change change, int64_t ticket);
  // This rank has written all rows of the plan.
  void TellWritten(PlanId plan_id);
  // Leader: calls once every other rank has told that of the plan, or at the deadline; replaces an earlier wish.
  void AwaitWritten(PlanId plan_id, Time deadline, std::function<void()> then);
  // Does what is due.
  void Advance();
  void Stop();

  // A change is under way that is not decided, on the leader also one that is not proposed yet.
  bool busy() const { return member_.pending || leader_.ballot || leader_.wanted; }
  // Of what is under way and has a proposed step.
  std::optional<int64_t> proposed_step() const;

 private:
  // One request of a kind at a time; an answer that comes after its time is ignored.
  struct Request {
    bool is_out = false;
    uint64_t serial = 0;
    Time asked;
    Time not_before;  // pause between two of them
    std::chrono::milliseconds pause{0};
  };
  using Handler = std::function<void(const std::optional<std::string>&)>;
  using Issue = std::function<void(Store::Done)>;

  void Ask(Request* request, const Issue& issue, Handler handler, std::chrono::milliseconds pause = {});
  void OnAnswer(Request* request, const Store::Answer& answer, const Handler& handler);
  void Get(Request* request, const std::string& key, Handler handler, std::chrono::milliseconds pause = {});
  void Set(Request* request, const std::string& key, const std::string& value, Handler handler);
  void SetOnce(Request* request, const std::string& key, const std::string& value, Handler handler);
  std::string Key(char kind, int64_t number) const;

  void Feed(const MemberInput& input);
  void Feed(const LeaderInput& input);
  void Act(const Prepare& action);
  void Act(const Commit& action);
  void Act(const Drop& action);

  void AdvanceLeader();
  void PublishBallot();
  void AskForVotes();
  void AdvanceMember();
  agree::Decision Closing() const;
  void AdvanceWritten();
  void LookForLeader();
  void LookForProposals();
  void OnLatest(const std::string& text_untrusted);
  void FetchNext();
  void OnDecision(int64_t number, const std::string& text_untrusted);
  std::chrono::milliseconds IdlePoll();
  std::chrono::milliseconds BusyPoll() const;

  const Settings settings_;
  const std::shared_ptr<Store> store_;
  RankDelegate* delegate_;  // null: stopped
  const Dependencies around_;

  LeaderState leader_;
  MemberState member_;
  std::string session_;                    // that the member follows; empty: none known yet
  std::optional<Latest> latest_;           // newest that was read
  std::optional<Decision> next_decision_;  // of the next proposal, read before the proposal itself
  bool next_was_over_ = false;             // at that time a newer one was there already
  bool announced_ = false;                 // leader: the session is in the store
  bool proposal_is_in_store_ = false;      // leader: of the ballot that is being published
  std::optional<Time> looks_since_;        // for a leader; none: told that there is none
  Time busy_since_;
  bool was_busy_ = false;

  int64_t step_seen_ = -1;
  Time step_seen_at_;
  std::chrono::milliseconds step_time_{0};

  // Of the ranks whose rows are awaited.
  struct AwaitedRows {
    PlanId plan_id = 0;
    Time deadline;
    std::vector<bool> has_written;  // by rank
    std::function<void()> then;
  };
  std::optional<PlanId> written_here_;  // to be told
  std::optional<AwaitedRows> awaited_rows_;

  Request read_latest_, read_proposal_, read_decision_, write_vote_, read_outcome_, close_, decide_, announce_,
      publish_, forget_, write_written_;
  std::vector<Request> read_votes_, read_written_;
  bool store_fails_ = false;
  Time last_fault_;
};

}  // namespace stepwatch::agree
