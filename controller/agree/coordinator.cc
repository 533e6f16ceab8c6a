#include "controller/agree/coordinator.h"

#include <algorithm>
#include <utility>

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

// Replaces the text of a proposal that is over.
constexpr const char* kVoteOver = "over";
// The value of a bell; only its presence counts.
constexpr const char* kVoteRung = "rung";
// Minimum time between store reads of ranks with a bell, over the whole job.
constexpr milliseconds kBetweenStoreLooks{60};
// Minimum time between polls of ranks that await a decision, over the whole job.
constexpr std::chrono::microseconds kBetweenBusyPolls{50};

}  // namespace

Coordinator::Coordinator(Settings settings, std::shared_ptr<Store> store, RankDelegate* delegate,
                         Dependencies dependencies)
    : settings_(std::move(settings)),
      delegate_(delegate),
      dependencies_(std::move(dependencies)),
      store_(std::move(store), settings_.answer_time, ForStore()),
      rings_(store_.listens()),
      started_(dependencies_.now()),
      written_(settings_.rank, std::max(settings_.world_size, 1)),
      read_votes_(static_cast<size_t>(std::max(settings_.world_size, 1))),
      read_roll_(read_votes_.size()) {
  member_.rank = leader_.rank = settings_.rank;
  member_.incarnation = settings_.incarnation;
  leader_.world_size = settings_.world_size;
  leader_.vote_time = settings_.vote_time;
  leader_.margin_first = settings_.margin;
  if (is_leader()) session_ = leader_.session = settings_.incarnation;
}

StoreClient::Dependencies Coordinator::ForStore() {
  StoreClient::Dependencies dependencies;
  dependencies.now = dependencies_.now;
  dependencies.post = dependencies_.post;
  dependencies.owner = [this]() -> std::shared_ptr<void> {
    return delegate_ == nullptr ? nullptr : weak_from_this().lock();
  };
  dependencies.on_change = [this](const Status& status) { delegate_->StoreChanged(status); };
  dependencies.on_answer = [this] { Advance(); };
  return dependencies;
}

void Coordinator::Stop() {
  delegate_ = nullptr;
}

std::optional<int64_t> Coordinator::proposed_step() const {
  if (member_.pending) return member_.pending->proposal.at_step;
  if (leader_.ballot) return leader_.ballot->proposal.at_step;
  return std::nullopt;
}

void Coordinator::Want(agree::Change change, int64_t ticket, int64_t not_before) {
  Feed(LeaderInput(agree::Want{Wanted{std::move(change), ticket, not_before}}));
  Advance();
}

void Coordinator::WithdrawDeferred() {
  Feed(LeaderInput(Withdraw{}));
}

void Coordinator::AnnounceQuestion(int64_t number) {
  newest_question_ = number;
  Advance();
}

void Coordinator::ReportWritten(PlanId plan_id) {
  written_.Report(plan_id);
  Advance();
}

void Coordinator::AwaitWritten(PlanId plan_id, Time deadline, std::function<void()> then) {
  written_.Await(plan_id, deadline, std::move(then));
  Advance();
}

std::string Coordinator::Key(char kind, int64_t number) const {
  return SessionKey() + "/" + kind + "/" + std::to_string(number);
}

// --- the machines ---

// A machine steps on a copy: if memory runs out, its state is the one before.
void Coordinator::Feed(const MemberInput& input) {
  MemberTransition transition = Step(member_, input);
  member_ = std::move(transition.state);
  for (const MemberAction& action : transition.actions) std::visit([this](const auto& each) { Act(each); }, action);
}

void Coordinator::Feed(const LeaderInput& input) {
  LeaderTransition transition = Step(leader_, input);
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

void Coordinator::Act(const agree::Discard& action) {
  delegate_->Discard(action.proposal, action.decision);
  delegate_->Release();
}

void Coordinator::Advance() {
  if (delegate_ == nullptr) return;
  // The member goes first and last, so that it sees at once what the leader publishes or decides.
  AdvanceMember();
  if (is_leader()) {
    AdvanceLeader();
    AdvanceMember();
  }
  written_.Advance(&store_, SessionKey(), dependencies_.now(), settings_.poll);
  if (delegate_ == nullptr) return;
  const bool is_busy = busy();
  if (is_busy && !was_busy_) busy_since_ = dependencies_.now();
  was_busy_ = is_busy;
  const bool is_done = !settings_.steers && (is_leader() ? announced_ : !session_.empty());
  if (!is_done) dependencies_.wake_at(dependencies_.now() + Pause());
}

// --- leader ---

void Coordinator::AdvanceLeader() {
  if (!announced_) return Announce();
  PublishQuestion();
  Ring();
  Feed(LeaderInput(LeaderTick{delegate_->arriving(), dependencies_.now()}));
  if (!leader_.ballot) return;
  if (leader_.ballot->phase == BallotPhase::kCalling) CallRoll();
  switch (leader_.ballot->phase) {
    case BallotPhase::kCalling: return;
    case BallotPhase::kPublishing: return PublishBallot();
    case BallotPhase::kOpen: return ReadVotes();
    case BallotPhase::kDeciding: {
      const int64_t number = leader_.ballot->proposal.number;
      return store_.SetOnce(&decide_, Key('d', number), Encode(leader_.ballot->deciding),
                            [this, number](const auto& text) { OnDecision(number, text.value_or("")); });
    }
  }
}

void Coordinator::Announce() {
  announced_latest_ = Latest{session_, 0, settings_.run_id, rings_, 0};
  store_.Set(&announce_, settings_.prefix + "/latest", Encode(announced_latest_), [this](const auto&) {
    announced_ = true;
    ++rings_wanted_;
    delegate_->Join(settings_.run_id);
  });
}

// Both this and PublishBallot write `latest`, so each waits until the other's write is done.
void Coordinator::PublishQuestion() {
  const bool is_publishing = leader_.ballot && leader_.ballot->phase == BallotPhase::kPublishing;
  if (!announce_question_.is_out && (is_publishing || announced_latest_.question == newest_question_)) return;
  Latest latest = announced_latest_;
  latest.question = newest_question_;
  store_.Set(&announce_question_, settings_.prefix + "/latest", Encode(latest), [this, latest](const auto&) {
    announced_latest_ = latest;
    ++rings_wanted_;
  });
}

// Called after the news is in the store.
void Coordinator::Ring() {
  if (!rings_ || settings_.world_size <= 1 || rings_done_ == rings_wanted_) return;
  std::vector<std::string> bells;
  for (int rank = 0; rank < settings_.world_size; ++rank)
    if (rank != settings_.rank) bells.push_back(BellKey(rank));
  store_.SetAll(&ring_, bells, kVoteRung, [this, rung = rings_wanted_](const auto&) { rings_done_ = rung; });
}

void Coordinator::CallRoll() {
  const int64_t number = leader_.ballot->proposal.number;
  if (roll_.number != number) {
    roll_ = Roll{number, std::vector<Incarnation>(read_roll_.size()), std::vector<bool>(read_roll_.size(), false)};
    roll_.is_read.at(static_cast<size_t>(settings_.rank)) = true;
    for (StoreClient::Request& request : read_roll_) store_.Hurry(&request);
  }
  if (std::find(roll_.is_read.begin(), roll_.is_read.end(), false) == roll_.is_read.end())
    Feed(LeaderInput(RollCalled{number, roll_.incarnations, delegate_->arriving(), dependencies_.now()}));
  if (leader_.ballot->phase != BallotPhase::kCalling) return;
  std::vector<bool> is_known;
  for (const Incarnation& each : roll_.incarnations) is_known.push_back(!each.empty());
  is_known.at(static_cast<size_t>(settings_.rank)) = true;
  store_.ReadWords(
      &read_roll_, SessionKey() + "/r", is_known,
      [this, number](int rank, const auto& word) {
        if (roll_.number != number) return;
        roll_.is_read.at(static_cast<size_t>(rank)) = true;
        if (word && IsIncarnation(*word)) roll_.incarnations.at(static_cast<size_t>(rank)) = *word;
      },
      store_.appends() ? BusyPoll() : SharedBusyPoll());
}

// Order: the proposal, then `latest`, which announces it, then the bells.
void Coordinator::PublishBallot() {
  const Proposal proposal = leader_.ballot->proposal;
  const int64_t number = proposal.number;
  if (!proposal_is_in_store_)
    return store_.Set(&publish_, Key('p', number), Encode(proposal),
                      [this](const auto&) { proposal_is_in_store_ = true; });
  if (announce_question_.is_out) return;
  const Latest latest{session_, number, settings_.run_id, rings_, newest_question_};
  store_.Set(&publish_, settings_.prefix + "/latest", Encode(latest), [this, proposal, number, latest](const auto&) {
    announced_latest_ = latest;
    proposal_is_in_store_ = false;
    ++rings_wanted_;
    Feed(LeaderInput(Published{number, dependencies_.now()}));
    Feed(MemberInput(Seen{proposal, std::nullopt}));
    // The old text may be long and is no longer needed; this write is not awaited.
    if (number > 1) store_.Set(&clear_, Key('p', number - 1), kVoteOver, [](const auto&) {});
  });
}

void Coordinator::ReadVotes() {
  const int64_t number = leader_.ballot->proposal.number;
  std::vector<bool> is_known = leader_.ballot->has_voted;
  is_known.at(static_cast<size_t>(settings_.rank)) = true;
  if (std::find(is_known.begin(), is_known.end(), false) == is_known.end()) return;
  store_.ReadWords(
      &read_votes_, Key('v', number), is_known,
      [this, number](int rank, const auto& vote) {
        if (vote) Feed(LeaderInput(VoteIn{number, rank, *vote}));
      },
      store_.appends() ? BusyPoll() : SharedBusyPoll());
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
      if (is_leader()) {  // only the leader reads its own vote
        Feed(MemberInput(VoteWritten{number}));
        return Feed(LeaderInput(VoteIn{number, settings_.rank, settings_.incarnation}));
      }
      return store_.Enter(&write_vote_, Key('v', number), settings_.rank, settings_.incarnation,
                          [this, number](const auto&) { Feed(MemberInput(VoteWritten{number})); });
    case MemberPhase::kVoted: return store_.Get(&read_outcome_, Key('d', number), learn, OutcomePoll());
    case MemberPhase::kClosing:
      if (!is_leader() && !is_enrolled_) return Enrol();  // first, so that this rank is included in the next proposal
      return store_.SetOnce(&close_, Key('d', number), Encode(Closing()), learn);
  }
}

// The decision with which this rank closes the proposal. The leader adds the missing votes: a rank without a monitor
// never votes, and no other message names it.
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
  if (text_untrusted.empty()) return;  // no decision yet
  std::optional<Decision> decision = DecisionFrom(text_untrusted);
  // All ranks read the same unreadable text, so all abort.
  if (!decision)
    decision = Decision{false, Cause::kSilent, settings_.rank, 0, "the decision in the store is unreadable", 0};
  Feed(MemberInput(Learned{number, *decision}));
  if (!is_leader() || !leader_.ballot || leader_.ballot->proposal.number != number) return;
  ++rings_wanted_;
  Feed(LeaderInput(Decided{number, *decision}));
}

void Coordinator::LookForProposals() {
  if (settings_.steers) ListenForBell();
  store_.Get(
      &read_latest_, settings_.prefix + "/latest", [this](const auto& text) { OnLatest(text.value_or("")); },
      IdlePoll());
  if (!latest_) return ReportSilence();
  const bool is_new = latest_->session != session_;
  // A newer proposal or leader implies that the pending proposal is decided, or must be, under its own keys.
  if (member_.pending && (is_new || latest_->number > member_.known)) Feed(MemberInput(agree::Settle{}));
  if (!is_new && latest_->question > newest_question_) {
    newest_question_ = latest_->question;
    delegate_->QuestionAnnounced(session_, newest_question_);
  }
  if (member_.pending) return;
  if (is_new) Follow(*latest_);
  if (!settings_.steers) return;
  if (!is_enrolled_) return Enrol();
  if (latest_->number > member_.known) FetchNext();
}

void Coordinator::OnLatest(const std::string& text_untrusted) {
  std::optional<Latest> latest = LatestFrom(text_untrusted);
  if (!latest) {
    const std::string why = OtherVersion(text_untrusted);
    if (!why.empty() && !std::exchange(is_silence_reported_, true)) delegate_->LeaderIsIncompatible(why);
    return;
  }
  const bool is_news = latest_ && (latest->session != latest_->session || latest->number > latest_->number ||
                                   latest->question > latest_->question);
  if (is_news && !std::exchange(has_rung_, false)) bell_is_unreachable_ = true;  // until the bell rings again
  latest_ = std::move(latest);
}

// While its bell is unreachable the rank polls.
void Coordinator::ListenForBell() {
  if (store_.listens())
    store_.Listen(&listen_, BellKey(settings_.rank), [this] {
      has_rung_ = true;
      bell_is_unreachable_ = false;
      store_.Hurry(&read_latest_);
      store_.Hurry(&read_outcome_);
    });
  const bool had_bell = std::exchange(had_bell_, has_bell());
  if (had_bell && !had_bell_) store_.Hurry(&read_latest_);
}

void Coordinator::ReportSilence() {
  if (!settings_.steers || is_silence_reported_ || dependencies_.now() - started_ < settings_.vote_time) return;
  is_silence_reported_ = true;
  delegate_->LeaderIsSilent(settings_.vote_time);
}

void Coordinator::Follow(const Latest& latest) {
  session_ = latest.session;
  store_.IgnoreOldAnswers();
  is_enrolled_ = false;
  // Proposals from before this rank joined exclude it, except the newest if it is undecided.
  member_.known = std::max<int64_t>(latest.number - 1, 0);
  next_decision_.reset();
  newest_question_ = latest.question;
  delegate_->QuestionAnnounced(session_, newest_question_);
  delegate_->Join(latest.run_id);
}

// Only the newest word of a rank counts, so enrolling twice is harmless.
void Coordinator::Enrol() {
  store_.Enter(&enrol_, SessionKey() + "/r", settings_.rank, settings_.incarnation,
               [this](const auto&) { is_enrolled_ = true; });
}

// Proposals that ended before this rank read them are processed in order, so that it reports every abort.
void Coordinator::FetchNext() {
  const int64_t number = member_.known + 1;
  const bool is_over = number < latest_->number;
  if (is_over && !next_was_over_) next_decision_.reset();  // there was no decision when it was read
  if (!next_decision_) {
    return store_.Get(
        &read_decision_, Key('d', number),
        [this, number, is_over](const auto& text) {
          if (number != member_.known + 1) return;
          next_was_over_ = is_over;
          next_decision_ = text ? DecisionFrom(*text) : std::nullopt;
          if (!next_decision_) next_decision_ = Decision{true, Cause::kNone, -1, 0, "", 0};  // rank -1: no decision
        },
        BusyPoll());
  }
  if (is_over || next_decision_->rank >= 0) {
    const Decision decision = *std::exchange(next_decision_, std::nullopt);
    Proposal over;
    over.number = number;
    return Feed(MemberInput(Seen{over, decision}));
  }
  store_.Get(
      &read_proposal_, Key('p', number),
      [this, number](const auto& text) {
        if (number != member_.known + 1) return;
        next_decision_.reset();
        const std::optional<Proposal> proposal = ProposalFrom(text.value_or(""));
        if (!proposal || proposal->number != number) return;
        Feed(MemberInput(Seen{*proposal, std::nullopt}));
        if (member_.pending && !member_.pending->is_for_us) is_enrolled_ = false;
      },
      BusyPoll());
}

// --- pace ---

milliseconds Coordinator::Pause() const {
  if (busy()) return settings_.busy_tick;
  if (written_.awaits()) return settings_.poll;
  return is_leader() || has_bell() ? settings_.poll_max : settings_.poll;
}

// Without a bell, polling every third of a step is enough: a proposal is at least two steps ahead of its step.
milliseconds Coordinator::IdlePoll() {
  const Time now = dependencies_.now();
  if (has_bell()) return std::max(settings_.look, kBetweenStoreLooks * settings_.world_size);
  if (!latest_) {
    const auto age = std::chrono::duration_cast<milliseconds>(now - started_);
    return std::clamp(age / 8, settings_.poll, std::max(settings_.poll, settings_.poll_for_leader_max));
  }
  const int64_t step = delegate_->arriving();
  if (step != step_seen_) {
    const auto since = std::chrono::duration_cast<milliseconds>(now - step_seen_at_);
    step_time_ = step_seen_ < 0 ? milliseconds(0) : since / std::max<int64_t>(step - step_seen_, 1);
    step_seen_ = step;
    step_seen_at_ = now;
  }
  return std::clamp(step_time_ / 3, settings_.poll, std::max(settings_.poll, settings_.poll_max));
}

// The longer a change takes, the less often its keys are polled.
milliseconds Coordinator::BusyPoll() const {
  const auto age =
      was_busy_ ? std::chrono::duration_cast<milliseconds>(dependencies_.now() - busy_since_) : milliseconds(0);
  return std::clamp(age / 8, settings_.busy_poll, std::max(settings_.busy_poll, settings_.poll_max));
}

// For keys that every rank polls.
milliseconds Coordinator::SharedBusyPoll() const {
  return std::max(BusyPoll(), std::chrono::duration_cast<milliseconds>(kBetweenBusyPolls * settings_.world_size));
}

// The leader rings the bell when it decides. A rank that reaches the step before that reads the decision itself.
milliseconds Coordinator::OutcomePoll() const {
  if (is_leader()) return BusyPoll();
  return has_bell() ? std::max(SharedBusyPoll(), settings_.poll_max) : SharedBusyPoll();
}

}  // namespace stepwatch::agree
