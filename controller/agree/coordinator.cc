#include "controller/agree/coordinator.h"

#include <algorithm>
#include <utility>

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

// After a failed request; doubled up to the second.
constexpr milliseconds kPauseAfterFault{20};
constexpr milliseconds kPauseAfterFaultMax{1000};
// A store is well again when nothing failed for so long.
constexpr milliseconds kWellAfter{2000};
// What stands under the key of a proposal that is over.
constexpr const char* kOver = "over";

}  // namespace

Coordinator::Coordinator(Settings settings, std::shared_ptr<Store> store, RankDelegate* delegate,
                         Dependencies surroundings)
    : settings_(std::move(settings)),
      store_(std::move(store)),
      delegate_(delegate),
      around_(std::move(surroundings)),
      read_votes_(static_cast<size_t>(std::max(settings_.world_size, 1))),
      read_written_(read_votes_.size()) {
  member_.rank = settings_.rank;
  leader_.rank = settings_.rank;
  leader_.world_size = settings_.world_size;
  leader_.vote_time = settings_.vote_time;
  if (is_leader())
    session_ = settings_.session;
  else if (settings_.steers)
    looks_since_ = around_.now();
}

void Coordinator::Stop() {
  delegate_ = nullptr;
}

std::optional<int64_t> Coordinator::proposed_step() const {
  if (member_.pending) return member_.pending->proposal.at_step;
  if (leader_.ballot) return leader_.ballot->proposal.at_step;
  return std::nullopt;
}

void Coordinator::Want(agree::Change change, int64_t ticket) {
  Feed(LeaderInput(agree::Want{Wanted{std::move(change), ticket}}));
  Advance();
}

void Coordinator::TellWritten(PlanId plan_id) {
  written_here_ = plan_id;
  Advance();
}

void Coordinator::AwaitWritten(PlanId plan_id, Time deadline, std::function<void()> then) {
  awaited_rows_ = AwaitedRows{plan_id, deadline, std::vector<bool>(read_written_.size(), false), std::move(then)};
  awaited_rows_->has_written[static_cast<size_t>(settings_.rank)] = true;
  Advance();
}

void Coordinator::AdvanceWritten() {
  if (written_here_ && !session_.empty()) {
    const PlanId plan_id = *written_here_;
    Set(&write_written_, settings_.prefix + "/" + session_ + "/w/" + std::to_string(settings_.rank),
        std::to_string(plan_id), [this, plan_id](const auto&) {
          if (written_here_ == plan_id) written_here_.reset();
        });
  }
  if (!awaited_rows_) return;
  const std::vector<bool>& written = awaited_rows_->has_written;
  if (around_.now() >= awaited_rows_->deadline || std::find(written.begin(), written.end(), false) == written.end()) {
    const std::function<void()> then = std::exchange(awaited_rows_, std::nullopt)->then;
    return then();
  }
  for (size_t rank = 0; rank < written.size(); ++rank) {
    if (written[rank]) continue;
    Get(
        &read_written_[rank], settings_.prefix + "/" + session_ + "/w/" + std::to_string(rank),
        [this, rank](const auto& text) {
          const std::optional<PlanId> newest = NumberFrom(text.value_or(""));
          if (awaited_rows_ && newest && *newest >= awaited_rows_->plan_id) awaited_rows_->has_written[rank] = true;
        },
        settings_.poll);
  }
}

// --- requests ---

std::string Coordinator::Key(char kind, int64_t number) const {
  return settings_.prefix + "/" + session_ + "/" + kind + "/" + std::to_string(number);
}

void Coordinator::Ask(Request* request, const Issue& issue, Handler handler, milliseconds pause) {
  const Time now = around_.now();
  if (request->is_out && now - request->asked < settings_.answer_time) return;
  if (request->is_out) {  // never answered: as if it had failed
    request->is_out = false;
    OnAnswer(request,
             Status(StatusCode::kTimedOut, "no answer within " + std::to_string(settings_.answer_time.count()) + " ms"),
             handler);
  }
  if (now < request->not_before) return;
  request->is_out = true;
  request->asked = now;
  request->not_before = now + pause;
  issue([weak = weak_from_this(), post = around_.post, request, serial = ++request->serial, session = session_,
         handler = std::move(handler)](const Store::Answer& answer) {
    post([weak, request, serial, session, handler, answer] {
      const auto self = weak.lock();
      if (!self || !self->delegate_ || !request->is_out || request->serial != serial) return;
      request->is_out = false;
      // Numbers mean something else under another session.
      if (session == self->session_) self->OnAnswer(request, answer, handler);
      self->Advance();
    });
  });
}

void Coordinator::OnAnswer(Request* request, const Store::Answer& answer, const Handler& handler) {
  if (answer.ok()) {
    request->pause = milliseconds(0);
    if (store_fails_ && around_.now() - last_fault_ > kWellAfter) {
      store_fails_ = false;
      delegate_->StoreChanged(Status());
    }
    return handler(answer.value());
  }
  request->pause = std::clamp(request->pause * 2, kPauseAfterFault, kPauseAfterFaultMax);
  last_fault_ = around_.now();
  request->not_before = last_fault_ + request->pause;
  if (!std::exchange(store_fails_, true)) delegate_->StoreChanged(answer.status());
}

void Coordinator::Get(Request* request, const std::string& key, Handler handler, milliseconds pause) {
  Ask(
      request, [&](Store::Done done) { store_->Get(key, std::move(done)); }, std::move(handler), pause);
}

void Coordinator::Set(Request* request, const std::string& key, const std::string& value, Handler handler) {
  Ask(
      request, [&](Store::Done done) { store_->Set(key, value, std::move(done)); }, std::move(handler));
}

void Coordinator::SetOnce(Request* request, const std::string& key, const std::string& value, Handler handler) {
  Ask(
      request, [&](Store::Done done) { store_->SetOnce(key, value, std::move(done)); }, std::move(handler));
}

// --- the machines ---

void Coordinator::Feed(const MemberInput& input) {
  MemberTransition transition = Step(std::move(member_), input);
  member_ = std::move(transition.state);
  for (const MemberAction& action : transition.actions) std::visit([this](const auto& each) { Act(each); }, action);
}

void Coordinator::Feed(const LeaderInput& input) {
  LeaderTransition transition = Step(std::move(leader_), input);
  leader_ = std::move(transition.state);
  if (transition.settled) delegate_->Settle(*transition.settled);
}

void Coordinator::Act(const Prepare& action) {
  Prepared prepared;
  prepared.fault = delegate_->Build(action.proposal);
  const bool holds = !prepared.fault && action.proposal.change.mode == Mode::kStrict;
  prepared.arriving = holds ? delegate_->HoldAt(action.proposal.at_step) : delegate_->arriving();
  Feed(MemberInput(prepared));
}

void Coordinator::Act(const agree::Commit& action) {
  delegate_->Commit(action.proposal);
  delegate_->Release();
}

void Coordinator::Act(const agree::Drop& action) {
  delegate_->Drop(action.proposal, action.decision);
  delegate_->Release();
}

void Coordinator::Advance() {
  if (delegate_ == nullptr) return;
  // The member goes first and last: what the leader publishes or decides is news to it at once.
  AdvanceMember();
  if (is_leader()) {
    AdvanceLeader();
    AdvanceMember();
  }
  AdvanceWritten();
  const bool is_busy = busy();
  if (is_busy && !was_busy_) busy_since_ = around_.now();
  was_busy_ = is_busy;
  const bool is_done = !settings_.steers && (is_leader() ? announced_ : !session_.empty());
  if (delegate_ != nullptr && !is_done)
    around_.wake_at(around_.now() + (is_busy                         ? settings_.busy_tick
                                     : is_leader() && !awaited_rows_ ? settings_.poll_max
                                                                     : settings_.poll));
}

// --- leader ---

void Coordinator::AdvanceLeader() {
  if (!announced_)
    return Set(&announce_, settings_.prefix + "/latest", Encode(Latest{session_, 0, settings_.run_id}),
               [this](const auto&) {
                 announced_ = true;
                 delegate_->Join(settings_.run_id);
               });
  Feed(LeaderInput(LeaderTick{delegate_->arriving(), around_.now()}));
  if (!leader_.ballot) return;
  switch (leader_.ballot->phase) {
    case BallotPhase::kPublishing: return PublishBallot();
    case BallotPhase::kOpen: return AskForVotes();
    case BallotPhase::kDeciding: {
      const int64_t number = leader_.ballot->proposal.number;
      return SetOnce(&decide_, Key('d', number), Encode(leader_.ballot->deciding),
                     [this, number](const auto& text) { OnDecision(number, text.value_or("")); });
    }
  }
}

// The proposal first, then the mark that it is there.
void Coordinator::PublishBallot() {
  const Proposal proposal = leader_.ballot->proposal;
  const int64_t number = proposal.number;
  if (!proposal_is_in_store_)
    return Set(&publish_, Key('p', number), Encode(proposal), [this](const auto&) { proposal_is_in_store_ = true; });
  Set(&publish_, settings_.prefix + "/latest", Encode(Latest{session_, number, settings_.run_id}),
      [this, proposal, number](const auto&) {
        proposal_is_in_store_ = false;
        Feed(LeaderInput(Published{number, around_.now()}));
        Feed(MemberInput(Seen{proposal, std::nullopt}));
        // Its text may be long and is not needed any more; nobody waits for this.
        if (number > 1) Set(&forget_, Key('p', number - 1), kOver, [](const auto&) {});
      });
}

void Coordinator::AskForVotes() {
  const int64_t number = leader_.ballot->proposal.number;
  for (size_t rank = 0; rank < read_votes_.size(); ++rank) {
    if (static_cast<int>(rank) == settings_.rank || leader_.ballot->has_voted[rank]) continue;
    Get(
        &read_votes_[rank], Key('v', number) + "/" + std::to_string(rank),
        [this, number, rank](const auto& vote) {
          if (vote) Feed(LeaderInput(VoteIn{number, static_cast<int>(rank)}));
        },
        BusyPoll());
  }
}

// --- member ---

void Coordinator::AdvanceMember() {
  Feed(MemberInput(MemberTick{delegate_->arriving(), delegate_->begun()}));
  if (!is_leader() && (settings_.steers || session_.empty())) LookForProposals();
  if (!member_.pending) return;
  const int64_t number = member_.pending->proposal.number;
  const auto learn = [this, number](const auto& text) { OnDecision(number, text.value_or("")); };
  switch (member_.pending->phase) {
    case MemberPhase::kWaiting:
    case MemberPhase::kPreparing: return;
    case MemberPhase::kVoting:
      if (is_leader()) {  // it need not write down what only it reads
        Feed(MemberInput(VoteWritten{number}));
        return Feed(LeaderInput(VoteIn{number, settings_.rank}));
      }
      return Set(&write_vote_, Key('v', number) + "/" + std::to_string(settings_.rank), "ready",
                 [this, number](const auto&) { Feed(MemberInput(VoteWritten{number})); });
    case MemberPhase::kVoted: return Get(&read_outcome_, Key('d', number), learn, BusyPoll());
    case MemberPhase::kClosing: return SetOnce(&close_, Key('d', number), Encode(Closing()), learn);
  }
}

// What this rank closes the proposal with. The leader knows whose votes are missing: a rank without a monitor never
// votes, and nothing else would tell that it is that rank on which all wait.
Decision Coordinator::Closing() const {
  Decision closing = member_.pending->closing;
  if (closing.cause != Cause::kLate || !leader_.ballot) return closing;
  Ballot ballot = *leader_.ballot;
  ballot.has_voted.at(static_cast<size_t>(settings_.rank)) = true;
  const std::string missing = RanksWithoutVote(ballot);
  if (!missing.empty()) closing.reason = missing + " had not voted: slow, or without a monitor";
  return closing;
}

void Coordinator::OnDecision(int64_t number, const std::string& text_untrusted) {
  if (text_untrusted.empty()) return;  // none yet
  std::optional<Decision> decision = DecisionFrom(text_untrusted);
  // Not ours, and for all ranks the same: an abort.
  if (!decision)
    decision = Decision{false, Cause::kSilent, settings_.rank, 0, "the decision in the store is unreadable", 0};
  Feed(MemberInput(Learned{number, *decision}));
  if (is_leader()) Feed(LeaderInput(Decided{number, *decision}));
}

void Coordinator::LookForLeader() {
  if (!looks_since_ || around_.now() - *looks_since_ < settings_.vote_time) return;
  looks_since_.reset();
  delegate_->LeaderIsSilent(settings_.vote_time);
}

void Coordinator::LookForProposals() {
  if (session_.empty()) LookForLeader();
  Get(
      &read_latest_, settings_.prefix + "/latest", [this](const auto& text) { OnLatest(text.value_or("")); },
      IdlePoll());
  if (!latest_ || latest_->session != session_ || latest_->number <= member_.known) return;
  // A newer proposal means that the one before it is decided.
  if (member_.pending) return Feed(MemberInput(agree::Settle{}));
  FetchNext();
}

void Coordinator::OnLatest(const std::string& text_untrusted) {
  std::optional<Latest> latest = LatestFrom(text_untrusted);
  if (!latest) return;
  latest_ = std::move(latest);
  if (latest_->session == session_) return;
  if (member_.pending) return Feed(MemberInput(agree::Settle{}));  // decided under the old leader's keys first
  session_ = latest_->session;
  // What was before this rank came is not for it, except the newest, if that is not decided yet.
  member_.known = std::max<int64_t>(latest_->number - 1, 0);
  next_decision_.reset();
  delegate_->Join(latest_->run_id);
}

// Proposals that were over before this rank looked are taken in turn, so that it tells of every abort.
void Coordinator::FetchNext() {
  const int64_t number = member_.known + 1;
  const bool is_over = number < latest_->number;
  if (is_over && !next_was_over_) next_decision_.reset();  // there was none yet when it was read
  if (!next_decision_) {
    return Get(
        &read_decision_, Key('d', number),
        [this, number, is_over](const auto& text) {
          if (number != member_.known + 1) return;
          next_was_over_ = is_over;
          next_decision_ = text ? DecisionFrom(*text) : std::nullopt;
          if (!next_decision_) next_decision_ = Decision{true, Cause::kNone, -1, 0, "", 0};  // rank -1: none stands
        },
        BusyPoll());
  }
  if (is_over || next_decision_->rank >= 0) {
    const Decision decision = *std::exchange(next_decision_, std::nullopt);
    Proposal over;
    over.number = number;
    return Feed(MemberInput(Seen{over, decision}));
  }
  Get(
      &read_proposal_, Key('p', number),
      [this, number](const auto& text) {
        if (number != member_.known + 1) return;
        next_decision_.reset();
        const std::optional<Proposal> proposal = ProposalFrom(text.value_or(""));
        if (proposal && proposal->number == number) Feed(MemberInput(Seen{*proposal, std::nullopt}));
      },
      BusyPoll());
}

// --- pace ---

// A third of a step is soon enough: two steps and more lie between a proposal and its step.
milliseconds Coordinator::IdlePoll() {
  const Time now = around_.now();
  const int64_t step = delegate_->arriving();
  if (step != step_seen_) {
    const auto since = std::chrono::duration_cast<milliseconds>(now - step_seen_at_);
    step_time_ = step_seen_ < 0 ? milliseconds(0) : since / std::max<int64_t>(step - step_seen_, 1);
    step_seen_ = step;
    step_seen_at_ = now;
  }
  return std::clamp(step_time_ / 3, settings_.poll, std::max(settings_.poll, settings_.poll_max));
}

// What takes long is asked for less and less often.
milliseconds Coordinator::BusyPoll() const {
  const auto age = was_busy_ ? std::chrono::duration_cast<milliseconds>(around_.now() - busy_since_) : milliseconds(0);
  return std::clamp(age / 8, settings_.busy_poll, std::max(settings_.busy_poll, settings_.poll_max));
}

}  // namespace stepwatch::agree
