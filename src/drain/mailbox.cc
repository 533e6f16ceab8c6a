#include "src/drain/mailbox.h"

#include <algorithm>
#include <utility>

namespace stepwatch::drain {
namespace {

// The drain answers at the deadline, unless it is in a call of a hanging sink.
constexpr std::chrono::milliseconds kGrace{100};

}  // namespace

bool Mailbox::Flush(Time deadline) {
  const auto request = std::make_shared<FlushRequest>();
  request->deadline = deadline;
  const base::MutexLock lock(&mutex_);
  if (closed_) return true;
  new_flush_requests_.push_back(request);
  wake_up_->Post();
  while (!request->done && !closed_ && answer_.WaitUntil(&mutex_, deadline + kGrace)) {
  }
  return closed_ || request->in_time;
}

std::vector<LatestValue> Mailbox::Latest(SiteKind kind, int rank, Time deadline) {
  const auto question = std::make_shared<Question>();
  question->kind = kind;
  question->rank = rank;
  question->deadline = deadline;
  const base::MutexLock lock(&mutex_);
  if (closed_) return {};
  keep_latest_ = true;
  new_questions_.push_back(question);
  wake_up_->Post();
  while (!question->answered && !closed_ && answer_.WaitUntil(&mutex_, deadline + kGrace)) {
  }
  return std::move(question->answer);
}

void Mailbox::KeepLatest() {
  const base::MutexLock lock(&mutex_);
  keep_latest_ = true;
}

void Mailbox::Take() noexcept {
  const base::MutexLock lock(&mutex_);
  questions_.splice(questions_.end(), new_questions_);
  flush_requests_.splice(flush_requests_.end(), new_flush_requests_);
  takes_latest_ = keep_latest_;
}

void Mailbox::AnswerFlushes(bool is_out, Time now) noexcept {
  if (flush_requests_.empty()) return;
  const base::MutexLock lock(&mutex_);
  flush_requests_.remove_if([&](const std::shared_ptr<FlushRequest>& request) {
    if (!is_out && now < request->deadline) return false;
    request->in_time = is_out;
    return request->done = true;
  });
  answer_.NotifyAll();
}

bool Mailbox::HasDueQuestion(bool pending, Time now) const {
  return std::any_of(questions_.begin(), questions_.end(),
                     [&](const auto& question) { return !pending || now >= question->deadline; });
}

void Mailbox::AnswerLatest(bool pending, Time now, const LatestOf& latest_of) {
  for (auto question = questions_.begin(); question != questions_.end();) {
    if (pending && now < (*question)->deadline) {
      ++question;
      continue;
    }
    std::vector<LatestValue> answer = latest_of((*question)->kind, (*question)->rank);
    const base::MutexLock lock(&mutex_);
    (*question)->answer = std::move(answer);
    (*question)->answered = true;
    answer_.NotifyAll();
    question = questions_.erase(question);
  }
}

void Mailbox::Close() noexcept {
  const base::MutexLock lock(&mutex_);
  closed_ = true;
  answer_.NotifyAll();
}

}  // namespace stepwatch::drain
