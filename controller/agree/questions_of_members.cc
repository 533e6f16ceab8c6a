// What ranks other than the leader do: answer its questions, and hand requests on to it.
#include <algorithm>
#include <charconv>

#include "controller/agree/questions.h"

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

Status NotInTime(milliseconds time) {
  return Status(StatusCode::kTimedOut, "rank 0 has not answered within " + std::to_string(time.count()) +
                                           " ms; whether it performs the request is not known");
}

}  // namespace

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

// A question of another release is answered as well: the leader learns from the answer what this rank speaks.
void Questions::OnQuestion(const std::string& text_untrusted) {
  answered_ = asked_;
  const std::optional<Question> question = QuestionFrom(text_untrusted);
  if (!question) return;  // it is over
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
  forwarding.begun = around_.now();
  forwarding.deadline = forwarding.begun + time;
  forwarding.then = std::move(then);
  const bool is_behind_first = !forwards_.empty() && forwards_.front().serial != 0;
  forwards_.insert(is_urgent ? forwards_.begin() + is_behind_first : forwards_.end(), std::move(forwarding));
  Advance();
}

void Questions::AdvanceForwarding() {
  while (!forwards_.empty() && around_.now() >= forwards_.front().deadline) {
    const Forwarding& late = forwards_.front();
    if (late.slot != 0) Later(Key("f", late.slot), kOver);  // withdrawn, if the leader has not read it
    EndForwarding(session_.empty() ? Status(StatusCode::kUnavailable, "no message of rank 0 has arrived yet")
                                   : NotInTime(late.time));
  }
  if (forwards_.empty() || session_.empty()) return;
  Forwarding& first = forwards_.front();
  // The leader takes the requests of a rank in the order of their serials.
  if (first.serial == 0) {
    first.serial = ++serials_;
    first.message =
        Encode(ForwardedRequest{kSpeechVersion, {settings_.rank, settings_.incarnation, first.serial}, first.text});
  }
  if (first.slot == 0) {
    if (chores_.empty()) Post(&first);  // the key of the reply before is emptied
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
  if (standing != message) {  // another rank was first; the leader has written down how far it has read
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
    return EndForwarding(Status(StatusCode::kUnavailable, ForeignText(0, reply->version)));
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
