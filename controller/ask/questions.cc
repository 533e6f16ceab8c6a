#include "controller/ask/questions.h"

#include <algorithm>
#include <exception>

#include "src/base/parse_number.h"

namespace stepwatch::ask {
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
      newest_requests_(static_cast<size_t>(std::max(settings_.world_size, 1))),
      read_answers_(newest_requests_.size()),
      write_replies_(newest_requests_.size()) {
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
  for (OpenQuestion& question : std::exchange(questions_, {}))
    for (const OnAnswers& then : question.thens) then(closed);
  for (OpenRequest& request : std::exchange(forwards_, {})) request.then(closed);
}

void Questions::Advance() {
  if (host_ == nullptr || !has_started_) return;
  const auto wake = [this] {
    if (const auto pause = Pause()) dependencies_.wake_at(dependencies_.now() + *pause);
  };
  wake();  // scheduled first, in case the work below runs out of memory
  if (is_leader()) {
    AdvanceQuestions();
    AdvanceRequests();
    WriteReplies();
  } else {
    AdvanceAnswering();
    AdvanceForwards();
  }
  AdvanceCleanup();
  if (host_ != nullptr) wake();
}

std::optional<milliseconds> Questions::Pause() const {
  const bool is_busy = !questions_.empty() || holds_question_ || !replies_.empty() || announced_ > answered_ ||
                       answer_ || !forwards_.empty() || !cleanups_.empty();
  if (is_busy) return settings_.busy_poll;
  return is_leader() ? std::optional<milliseconds>(settings_.poll) : std::nullopt;
}

// The poll interval grows with the time that a question takes.
milliseconds Questions::BusyPoll(Time begun, size_t requests) const {
  const auto age = std::chrono::duration_cast<milliseconds>(dependencies_.now() - begun);
  const auto shared = std::chrono::duration_cast<milliseconds>(kBetweenAnswerLooks * requests);
  return std::max(std::clamp(age / 4, settings_.busy_poll, std::max(settings_.busy_poll, kBusyPollMax)), shared);
}

void Questions::WriteLater(const std::string& key, const std::string& value) {
  cleanups_.emplace_back(key, value);
}

void Questions::AdvanceCleanup() {
  if (cleanups_.empty()) return;
  store_.Set(&cleanup_, cleanups_.front().first, cleanups_.front().second,
             [this](const auto&) { cleanups_.pop_front(); });
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
                                 [&](const OpenQuestion& each) { return each.number == 0 && each.text == text; });
  if (same != questions_.end()) return same->thens.push_back(std::move(then));
  if (questions_.size() >= kQuestionsMax)
    return then(Status(StatusCode::kExhausted, "too many questions to the ranks are waiting; try again"));
  OpenQuestion question;
  question.text = text;
  question.time = time;
  question.thens.push_back(std::move(then));
  questions_.push_back(std::move(question));
  Advance();
}

void Questions::AdvanceQuestions() {
  if (questions_.empty()) {
    // Uses the same request as Publish, so that this write cannot overtake the next question.
    if (holds_question_)
      store_.Set(&write_question_, Key("q"), kOver, [this](const auto&) { holds_question_ = false; });
    return;
  }
  OpenQuestion& question = questions_.front();
  if (question.number == 0) Begin(&question);
  if (question.is_published)
    ReadAnswers(question);
  else
    Publish(question);
  const bool is_complete =
      std::find(question.has_answered.begin(), question.has_answered.end(), false) == question.has_answered.end();
  if (is_complete || dependencies_.now() >= question.deadline) FinishQuestion();
}

void Questions::Begin(OpenQuestion* question) {
  question->answers.resize(newest_requests_.size());
  question->has_answered.assign(newest_requests_.size(), false);
  for (size_t rank = 0; rank < newest_requests_.size(); ++rank) question->answers[rank].rank = static_cast<int>(rank);
  question->begun = dependencies_.now();
  question->deadline = question->begun + question->time;
  question->number = ++numbers_;
  for (StoreClient::Request& request : read_answers_) store_.Restart(&request);
  OnAnswer(question->number, settings_.rank,
           Encode(AnswerToQuestion{kMessageVersion, question->number, AnswerHere(question->text)}));
}

void Questions::Publish(const OpenQuestion& question) {
  holds_question_ = true;
  store_.Set(&write_question_, Key("q"), Encode(Question{kMessageVersion, question.number, question.text}),
             [this, number = question.number](const auto&) {
               if (questions_.empty() || questions_.front().number != number) return;
               questions_.front().is_published = true;
               dependencies_.announce(number);
             });
}

void Questions::ReadAnswers(const OpenQuestion& question) {
  const milliseconds pause = BusyPoll(question.begun, newest_requests_.size());
  for (size_t rank = 0; rank < newest_requests_.size(); ++rank) {
    if (question.has_answered[rank]) continue;
    store_.Get(
        &read_answers_[rank], Key("a", static_cast<int64_t>(rank)),
        [this, number = question.number, rank](const auto& text) {
          if (text) OnAnswer(number, static_cast<int>(rank), *text);
        },
        pause);
  }
}

void Questions::OnAnswer(int64_t number, int rank, const std::string& text_untrusted) {
  if (questions_.empty() || questions_.front().number != number) return;
  OpenQuestion& question = questions_.front();
  RankAnswer& reply = question.answers.at(static_cast<size_t>(rank));
  std::optional<AnswerToQuestion> answer = AnswerFrom(text_untrusted);
  if (!answer) {
    reply.trouble = "its answer is unreadable";  // unless another answer arrives
    return;
  }
  if (answer->number != number) return;  // for an earlier question
  question.has_answered.at(static_cast<size_t>(rank)) = true;
  reply.trouble.clear();
  reply.after = std::chrono::duration_cast<milliseconds>(dependencies_.now() - question.begun);
  reply.text_untrusted = std::move(answer->text);
  if (answer->version != kMessageVersion)
    reply.trouble = IncompatibleText(rank, answer->version);
  else if (reply.text_untrusted.empty())
    reply.trouble = "it could not answer";
}

void Questions::FinishQuestion() {
  OpenQuestion question = std::move(questions_.front());
  questions_.pop_front();
  for (size_t rank = 0; rank < newest_requests_.size(); ++rank)
    if (!question.has_answered[rank] && question.answers[rank].trouble.empty())
      question.answers[rank].trouble =
          Within(question.time) + (store_trouble_.empty() ? "" : "; the job's store fails (" + store_trouble_ + ")");
  for (const OnAnswers& then : question.thens) then(question.answers);
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
  if (text_untrusted != kOver) WriteLater(Key("f", slot), kOver);
  WriteLater(Key("f", 0), std::to_string(next_slot_));
  if (!request || static_cast<size_t>(request->id.rank) >= newest_requests_.size()) return;
  NewestRequest& newest = newest_requests_[static_cast<size_t>(request->id.rank)];
  if (newest.incarnation == request->id.incarnation && newest.serial >= request->id.serial) return;
  newest = NewestRequest{request->id.incarnation, request->id.serial};
  if (request->version == kMessageVersion) return PerformRequest(*request);
  replies_[request->id.rank] = ForwardReply{kMessageVersion, request->id, ""};
}

void Questions::PerformRequest(const ForwardedRequest& request) {
  ++performing_;
  const auto reply = [this, alive = weak_from_this(), id = request.id,
                      is_over = std::make_shared<bool>(false)](const std::string& text) {
    const auto self = alive.lock();
    if (!self || host_ == nullptr || std::exchange(*is_over, true)) return;
    --performing_;
    replies_[id.rank] = ForwardReply{kMessageVersion, id, text.size() <= kReplyBytesMax ? text : std::string()};
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

void Questions::OnAnnounced(const Incarnation& session, int64_t number) {
  if (host_ == nullptr) return;
  if (session != session_) {
    session_ = session;
    store_.IgnoreOldAnswers();
    for (StoreClient::Request* request : {&post_, &find_slot_, &ring_, &read_reply_}) store_.Restart(request);
    announced_ = answered_ = 0;
    answer_.reset();
    free_slot_ = 1;
    if (!forwards_.empty() && forwards_.front().slot != 0)
      EndForward(Status(StatusCode::kUnavailable,
                        "rank 0 has restarted; whether it has performed the request is "
                        "not known"));
  }
  if (number <= announced_) return Advance();
  announced_ = number;
  for (StoreClient::Request* request : {&read_question_, &write_answer_}) store_.Restart(request);
  Advance();
}

void Questions::AdvanceAnswering() {
  if (answer_)
    store_.Set(&write_answer_, Key("a", settings_.rank), Encode(*answer_),
               [this, number = answer_->number](const auto&) {
                 if (answer_ && answer_->number == number) answer_.reset();
               });
  if (announced_ > answered_)
    store_.Get(
        &read_question_, Key("q"), [this](const auto& text) { OnQuestion(text.value_or("")); }, settings_.busy_poll);
}

// A question of another release is answered as well, so that the leader learns this rank's version.
void Questions::OnQuestion(const std::string& text_untrusted) {
  answered_ = announced_;
  const std::optional<Question> question = QuestionFrom(text_untrusted);
  if (!question) return;  // the question is over
  answered_ = announced_ = std::max(announced_, question->number);
  const bool is_ours = question->version == kMessageVersion;
  answer_ = AnswerToQuestion{kMessageVersion, question->number, is_ours ? AnswerHere(question->text) : ""};
}

void Questions::Forward(const std::string& text, milliseconds time, OnReplied then, bool is_urgent) {
  if (const Status present = Present(); !present.ok()) return then(present);
  if (text.size() > kQuestionBytesMax)
    return then(Status(StatusCode::kExhausted, "the request is larger than the " + std::to_string(kQuestionBytesMax) +
                                                   " bytes that a rank forwards"));
  if (forwards_.size() >= kForwardsMax && !is_urgent)
    return then(Status(StatusCode::kExhausted, "too many requests are waiting for rank 0; try again"));
  OpenRequest request;
  request.text = text;
  request.time = time;
  request.begun = dependencies_.now();
  request.deadline = request.begun + time;
  request.then = std::move(then);
  const bool is_behind_first = !forwards_.empty() && forwards_.front().serial != 0;
  forwards_.insert(is_urgent ? forwards_.begin() + is_behind_first : forwards_.end(), std::move(request));
  Advance();
}

void Questions::AdvanceForwards() {
  while (!forwards_.empty() && dependencies_.now() >= forwards_.front().deadline) {
    const OpenRequest& late = forwards_.front();
    if (late.slot != 0) WriteLater(Key("f", late.slot), kOver);  // withdraws it if the leader has not read it yet
    EndForward(session_.empty() ? Status(StatusCode::kUnavailable, "no message of rank 0 has arrived yet")
                                : NotInTime(late.time));
  }
  if (forwards_.empty() || session_.empty()) return;
  OpenRequest& first = forwards_.front();
  // The leader accepts the requests of a rank in the order of their serials.
  if (first.serial == 0) {
    first.serial = ++serials_;
    first.message =
        Encode(ForwardedRequest{kMessageVersion, {settings_.rank, settings_.incarnation, first.serial}, first.text});
  }
  if (first.slot == 0) {
    if (cleanups_.empty()) Post(&first);  // only after the key of the previous reply is cleared
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

void Questions::Post(OpenRequest* request) {
  store_.SetOnce(&post_, Key("f", free_slot_), request->message,
                 [this, serial = request->serial, slot = free_slot_, message = request->message](const auto& standing) {
                   OnPosted(serial, slot, message, standing.value_or(""));
                 });
}

void Questions::OnPosted(int64_t serial, int64_t slot, const std::string& message, const std::string& standing) {
  if (standing != message) {  // another rank used the slot first; the leader publishes the next slot that it reads
    store_.Get(&find_slot_, Key("f", 0), [this, slot](const auto& text) {
      const int64_t free = text ? base::ParseNumber<int64_t>(*text).value_or(0) : 0;
      free_slot_ = std::max(free, slot + 1);
    });
    free_slot_ = std::max(free_slot_, slot + 1);
    return;
  }
  free_slot_ = slot + 1;
  if (forwards_.empty() || forwards_.front().serial != serial) return WriteLater(Key("f", slot), kOver);
  forwards_.front().slot = slot;
  store_.Restart(&read_reply_);
}

void Questions::OnReply(int64_t serial, const std::string& text_untrusted) {
  const std::optional<ForwardReply> reply = ReplyFrom(text_untrusted);
  const ForwardId own{settings_.rank, settings_.incarnation, serial};
  if (!reply || reply->id != own || forwards_.empty() || forwards_.front().serial != serial) return;
  WriteLater(Key("g", settings_.rank), kOver);
  if (reply->version != kMessageVersion)
    return EndForward(Status(StatusCode::kUnavailable, IncompatibleText(0, reply->version)));
  if (reply->text.empty())
    return EndForward(Status(StatusCode::kExhausted,
                             "the answer of rank 0 is too large to be forwarded; use its "
                             "own control socket"));
  EndForward(reply->text);
}

void Questions::EndForward(const Result<std::string>& reply) {
  const OnReplied then = std::move(forwards_.front().then);
  forwards_.pop_front();
  then(reply);
}

}  // namespace stepwatch::ask
