#include "controller/agree/questions.h"

#include <algorithm>
#include <charconv>
#include <exception>

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

// Maximum number of requests that the leader performs at one time; more wait in the store.
constexpr size_t kPerformedMax = 16;
constexpr milliseconds kBusyPollMax{100};
// Minimum time between polls for answers, over the whole job.
constexpr std::chrono::microseconds kBetweenAnswerLooks{100};

std::string Within(milliseconds time) {
  return "no answer within " + std::to_string(time.count()) + " ms";
}

Status NotInTime(milliseconds time) {
  return Status(StatusCode::kTimedOut, "rank 0 has not answered within " + std::to_string(time.count()) +
                                           " ms; whether it performs the request is not known");
}

}  // namespace

Questions::Questions(Settings settings, std::shared_ptr<Store> store, QuestionHost* host, Dependencies dependencies)
    : settings_(std::move(settings)),
      host_(host),
      dependencies_(std::move(dependencies)),
      store_(std::move(store), settings_.answer_time, ForStore()),
      heard_(static_cast<size_t>(std::max(settings_.world_size, 1))),
      read_answers_(heard_.size()),
      write_replies_(heard_.size()) {
  if (is_leader()) session_ = settings_.incarnation;
}

StoreClient::Dependencies Questions::ForStore() {
  StoreClient::Dependencies dependencies;
  dependencies.now = dependencies_.now;
  dependencies.post = dependencies_.post;
  dependencies.owner = [this]() -> std::shared_ptr<void> {
    return host_ == nullptr ? nullptr : weak_from_this().lock();
  };
  dependencies.on_change = [this](const Status& status) { store_trouble_ = status.ok() ? "" : status.message(); };
  dependencies.on_answer = [this] { Advance(); };
  return dependencies;
}

void Questions::Start() {
  has_started_ = true;
  Advance();
}

void Questions::Stop() {
  if (std::exchange(host_, nullptr) == nullptr) return;
  const Status closed(StatusCode::kUnavailable, "the monitor is closed");
  for (Asking& asking : std::exchange(questions_, {}))
    for (const OnAnswers& then : asking.thens) then(closed);
  for (Forwarding& forwarding : std::exchange(forwards_, {})) forwarding.then(closed);
}

void Questions::Advance() {
  if (host_ == nullptr || !has_started_) return;
  const auto wake = [this] {
    if (const auto pause = Pause()) dependencies_.wake_at(dependencies_.now() + *pause);
  };
  wake();  // scheduled first, in case the work below runs out of memory
  if (is_leader()) {
    AdvanceAsking();
    AdvanceRequests();
    WriteReplies();
  } else {
    AdvanceAnswering();
    AdvanceForwarding();
  }
  AdvanceChores();
  if (host_ != nullptr) wake();
}

std::optional<milliseconds> Questions::Pause() const {
  const bool is_busy = !questions_.empty() || holds_question_ || !replies_.empty() || asked_ > answered_ || answer_ ||
                       !forwards_.empty() || !chores_.empty();
  if (is_busy) return settings_.busy_poll;
  return is_leader() ? std::optional<milliseconds>(settings_.poll) : std::nullopt;
}

// The poll interval grows with the time that a question takes.
milliseconds Questions::BusyPoll(Time begun, size_t requests) const {
  const auto age = std::chrono::duration_cast<milliseconds>(dependencies_.now() - begun);
  const auto shared = std::chrono::duration_cast<milliseconds>(kBetweenAnswerLooks * requests);
  return std::max(std::clamp(age / 4, settings_.busy_poll, std::max(settings_.busy_poll, kBusyPollMax)), shared);
}

void Questions::Later(const std::string& key, const std::string& value) {
  chores_.emplace_back(key, value);
}

void Questions::AdvanceChores() {
  if (chores_.empty()) return;
  store_.Set(&chore_, chores_.front().first, chores_.front().second, [this](const auto&) { chores_.pop_front(); });
}

Status Questions::Present() const {
  if (host_ == nullptr) return Status(StatusCode::kUnavailable, "the monitor is closed");
  if (!has_started_) return Status(StatusCode::kUnavailable, "this rank has not joined its job yet; try again");
  return Status();
}

std::string Questions::AnswerHere(const std::string& question_untrusted) {
  try {
    std::string text = host_->Answer(question_untrusted);
    return text.size() <= kAnswerBytesMax ? text : "";
  } catch (const std::exception&) {  // no memory: answer with an empty text
    return "";
  }
}

// --- leader: questions ---

void Questions::Ask(const std::string& text, milliseconds time, OnAnswers then) {
  if (const Status present = Present(); !present.ok()) return then(present);
  if (text.size() > kQuestionBytesMax)
    return then(Status(StatusCode::kExhausted, "the question is larger than the " + std::to_string(kQuestionBytesMax) +
                                                   " bytes that ranks accept"));
  const auto same = std::find_if(questions_.begin(), questions_.end(),
                                 [&](const Asking& each) { return each.number == 0 && each.text == text; });
  if (same != questions_.end()) return same->thens.push_back(std::move(then));
  if (questions_.size() >= kQuestionsMax)
    return then(Status(StatusCode::kExhausted, "too many questions to the ranks are waiting; try again"));
  Asking asking;
  asking.text = text;
  asking.time = time;
  asking.thens.push_back(std::move(then));
  questions_.push_back(std::move(asking));
  Advance();
}

void Questions::AdvanceAsking() {
  if (questions_.empty()) {
    // Uses the same request as Publish, so that this write cannot overtake the next question.
    if (holds_question_)
      store_.Set(&write_question_, Key("q"), kOver, [this](const auto&) { holds_question_ = false; });
    return;
  }
  Asking& asking = questions_.front();
  if (asking.number == 0) Begin(&asking);
  if (asking.is_published)
    ReadAnswers(asking);
  else
    Publish(asking);
  const bool is_complete = std::find(asking.is_heard.begin(), asking.is_heard.end(), false) == asking.is_heard.end();
  if (is_complete || dependencies_.now() >= asking.deadline) FinishAsking();
}

void Questions::Begin(Asking* asking) {
  asking->answers.resize(heard_.size());
  asking->is_heard.assign(heard_.size(), false);
  for (size_t rank = 0; rank < heard_.size(); ++rank) asking->answers[rank].rank = static_cast<int>(rank);
  asking->begun = dependencies_.now();
  asking->deadline = asking->begun + asking->time;
  asking->number = ++numbers_;
  for (StoreClient::Request& request : read_answers_) store_.Restart(&request);
  OnAnswer(asking->number, settings_.rank,
           Encode(AnswerToQuestion{kSpeechVersion, asking->number, AnswerHere(asking->text)}));
}

void Questions::Publish(const Asking& asking) {
  holds_question_ = true;
  store_.Set(&write_question_, Key("q"), Encode(Question{kSpeechVersion, asking.number, asking.text}),
             [this, number = asking.number](const auto&) {
               if (questions_.empty() || questions_.front().number != number) return;
               questions_.front().is_published = true;
               dependencies_.announce(number);
             });
}

void Questions::ReadAnswers(const Asking& asking) {
  const milliseconds pause = BusyPoll(asking.begun, heard_.size());
  for (size_t rank = 0; rank < heard_.size(); ++rank) {
    if (asking.is_heard[rank]) continue;
    store_.Get(
        &read_answers_[rank], Key("a", static_cast<int64_t>(rank)),
        [this, number = asking.number, rank](const auto& text) {
          if (text) OnAnswer(number, static_cast<int>(rank), *text);
        },
        pause);
  }
}

void Questions::OnAnswer(int64_t number, int rank, const std::string& text_untrusted) {
  if (questions_.empty() || questions_.front().number != number) return;
  Asking& asking = questions_.front();
  RankAnswer& said = asking.answers.at(static_cast<size_t>(rank));
  std::optional<AnswerToQuestion> answer = AnswerFrom(text_untrusted);
  if (!answer) {
    said.trouble = "its answer is unreadable";  // unless another answer arrives
    return;
  }
  if (answer->number != number) return;  // for an earlier question
  asking.is_heard.at(static_cast<size_t>(rank)) = true;
  said.trouble.clear();
  said.after = std::chrono::duration_cast<milliseconds>(dependencies_.now() - asking.begun);
  said.text_untrusted = std::move(answer->text);
  if (answer->version != kSpeechVersion)
    said.trouble = IncompatibleText(rank, answer->version);
  else if (said.text_untrusted.empty())
    said.trouble = "it could not answer";
}

void Questions::FinishAsking() {
  Asking asking = std::move(questions_.front());
  questions_.pop_front();
  for (size_t rank = 0; rank < heard_.size(); ++rank)
    if (!asking.is_heard[rank] && asking.answers[rank].trouble.empty())
      asking.answers[rank].trouble =
          Within(asking.time) + (store_trouble_.empty() ? "" : "; the job's store fails (" + store_trouble_ + ")");
  for (const OnAnswers& then : asking.thens) then(asking.answers);
}

// --- leader: forwarded requests ---

void Questions::AdvanceRequests() {
  if (store_.listens()) store_.Listen(&listen_, BellKey(), [this] { store_.Hurry(&read_request_); });
  if (performing_ >= kPerformedMax) return;
  store_.Get(
      &read_request_, Key("f", next_slot_),
      [this, slot = next_slot_](const auto& text) {
        if (text && slot == next_slot_) OnRequest(slot, *text);
      },
      store_.listens() ? settings_.look : settings_.poll);
}

// The serial number identifies a request that was posted twice because the store confirmed the first one late.
void Questions::OnRequest(int64_t slot, const std::string& text_untrusted) {
  ++next_slot_;
  store_.Hurry(&read_request_);
  const std::optional<ForwardedRequest> request = RequestFrom(text_untrusted);
  if (text_untrusted != kOver) Later(Key("f", slot), kOver);
  Later(Key("f", 0), std::to_string(next_slot_));
  if (!request || static_cast<size_t>(request->id.rank) >= heard_.size()) return;
  Heard& heard = heard_[static_cast<size_t>(request->id.rank)];
  if (heard.incarnation == request->id.incarnation && heard.serial >= request->id.serial) return;
  heard = Heard{request->id.incarnation, request->id.serial};
  if (request->version == kSpeechVersion) return PerformRequest(*request);
  replies_[request->id.rank] = ForwardReply{kSpeechVersion, request->id, ""};
}

void Questions::PerformRequest(const ForwardedRequest& request) {
  ++performing_;
  const auto reply = [this, alive = weak_from_this(), id = request.id,
                      is_over = std::make_shared<bool>(false)](const std::string& text) {
    const auto self = alive.lock();
    if (!self || host_ == nullptr || std::exchange(*is_over, true)) return;
    --performing_;
    replies_[id.rank] = ForwardReply{kSpeechVersion, id, text.size() <= kReplyBytesMax ? text : std::string()};
    Advance();
  };
  host_->Perform(request.id.rank, request.text, reply);
}

void Questions::WriteReplies() {
  for (const auto& [rank, reply] : replies_)
    store_.Set(&write_replies_[static_cast<size_t>(rank)], Key("g", rank), Encode(reply),
               [this, id = reply.id](const auto&) {
                 const auto written = replies_.find(id.rank);
                 if (written != replies_.end() && written->second.id == id) replies_.erase(written);
               });
}

// --- other ranks ---

void Questions::Asked(const Incarnation& session, int64_t number) {
  if (host_ == nullptr) return;
  if (session != session_) {
    session_ = session;
    store_.IgnoreOldAnswers();
    for (StoreClient::Request* request : {&post_, &find_slot_, &ring_, &read_reply_}) store_.Restart(request);
    asked_ = answered_ = 0;
    answer_.reset();
    free_slot_ = 1;
    if (!forwards_.empty() && forwards_.front().slot != 0)
      EndForwarding(Status(StatusCode::kUnavailable,
                           "rank 0 has restarted; whether it has performed the request is "
                           "not known"));
  }
  if (number <= asked_) return Advance();
  asked_ = number;
  for (StoreClient::Request* request : {&read_question_, &write_answer_}) store_.Restart(request);
  Advance();
}

void Questions::AdvanceAnswering() {
  if (answer_)
    store_.Set(&write_answer_, Key("a", settings_.rank), Encode(*answer_),
               [this, number = answer_->number](const auto&) {
                 if (answer_ && answer_->number == number) answer_.reset();
               });
  if (asked_ > answered_)
    store_.Get(
        &read_question_, Key("q"), [this](const auto& text) { OnQuestion(text.value_or("")); }, settings_.busy_poll);
}

// A question of another release is answered as well, so that the leader learns this rank's version.
void Questions::OnQuestion(const std::string& text_untrusted) {
  answered_ = asked_;
  const std::optional<Question> question = QuestionFrom(text_untrusted);
  if (!question) return;  // the question is over
  answered_ = asked_ = std::max(asked_, question->number);
  const bool is_ours = question->version == kSpeechVersion;
  answer_ = AnswerToQuestion{kSpeechVersion, question->number, is_ours ? AnswerHere(question->text) : ""};
}

void Questions::Forward(const std::string& text, milliseconds time, OnReplied then, bool is_urgent) {
  if (const Status present = Present(); !present.ok()) return then(present);
  if (text.size() > kQuestionBytesMax)
    return then(Status(StatusCode::kExhausted, "the request is larger than the " + std::to_string(kQuestionBytesMax) +
                                                   " bytes that a rank forwards"));
  if (forwards_.size() >= kForwardsMax && !is_urgent)
    return then(Status(StatusCode::kExhausted, "too many requests are waiting for rank 0; try again"));
  Forwarding forwarding;
  forwarding.text = text;
  forwarding.time = time;
  forwarding.begun = dependencies_.now();
  forwarding.deadline = forwarding.begun + time;
  forwarding.then = std::move(then);
  const bool is_behind_first = !forwards_.empty() && forwards_.front().serial != 0;
  forwards_.insert(is_urgent ? forwards_.begin() + is_behind_first : forwards_.end(), std::move(forwarding));
  Advance();
}

void Questions::AdvanceForwarding() {
  while (!forwards_.empty() && dependencies_.now() >= forwards_.front().deadline) {
    const Forwarding& late = forwards_.front();
    if (late.slot != 0) Later(Key("f", late.slot), kOver);  // withdraws it if the leader has not read it yet
    EndForwarding(session_.empty() ? Status(StatusCode::kUnavailable, "no message of rank 0 has arrived yet")
                                   : NotInTime(late.time));
  }
  if (forwards_.empty() || session_.empty()) return;
  Forwarding& first = forwards_.front();
  // The leader accepts the requests of a rank in the order of their serials.
  if (first.serial == 0) {
    first.serial = ++serials_;
    first.message =
        Encode(ForwardedRequest{kSpeechVersion, {settings_.rank, settings_.incarnation, first.serial}, first.text});
  }
  if (first.slot == 0) {
    if (chores_.empty()) Post(&first);  // only after the key of the previous reply is cleared
    return;
  }
  if (store_.listens() && !first.has_rung)
    store_.SetAll(&ring_, {BellKey()}, kRung, [this, serial = first.serial](const auto&) {
      if (!forwards_.empty() && forwards_.front().serial == serial) forwards_.front().has_rung = true;
    });
  store_.Get(
      &read_reply_, Key("g", settings_.rank),
      [this, serial = first.serial](const auto& text) {
        if (text) OnReply(serial, *text);
      },
      BusyPoll(first.begun, 1));
}

void Questions::Post(Forwarding* forwarding) {
  store_.SetOnce(&post_, Key("f", free_slot_), forwarding->message,
                 [this, serial = forwarding->serial, slot = free_slot_, message = forwarding->message](
                     const auto& standing) { OnPosted(serial, slot, message, standing.value_or("")); });
}

void Questions::OnPosted(int64_t serial, int64_t slot, const std::string& message, const std::string& standing) {
  if (standing != message) {  // another rank used the slot first; the leader publishes the next slot that it reads
    store_.Get(&find_slot_, Key("f", 0), [this, slot](const auto& text) {
      int64_t free = 0;
      if (text) std::from_chars(text->data(), text->data() + text->size(), free);
      free_slot_ = std::max(free, slot + 1);
    });
    free_slot_ = std::max(free_slot_, slot + 1);
    return;
  }
  free_slot_ = slot + 1;
  if (forwards_.empty() || forwards_.front().serial != serial) return Later(Key("f", slot), kOver);
  forwards_.front().slot = slot;
  store_.Restart(&read_reply_);
}

void Questions::OnReply(int64_t serial, const std::string& text_untrusted) {
  const std::optional<ForwardReply> reply = ReplyFrom(text_untrusted);
  const ForwardId own{settings_.rank, settings_.incarnation, serial};
  if (!reply || reply->id != own || forwards_.empty() || forwards_.front().serial != serial) return;
  Later(Key("g", settings_.rank), kOver);
  if (reply->version != kSpeechVersion)
    return EndForwarding(Status(StatusCode::kUnavailable, IncompatibleText(0, reply->version)));
  if (reply->text.empty())
    return EndForwarding(Status(StatusCode::kExhausted,
                                "the answer of rank 0 is too large to be forwarded; use its "
                                "own control socket"));
  EndForwarding(reply->text);
}

void Questions::EndForwarding(const Result<std::string>& reply) {
  const OnReplied then = std::move(forwards_.front().then);
  forwards_.pop_front();
  then(reply);
}

}  // namespace stepwatch::agree
