#include "controller/api/job_ranks.h"

#include <memory>
#include <utility>
#include <vector>

#include "controller/api/monitor_impl.h"
#include "controller/control_socket/forward.h"
#include "controller/control_socket/ranks.h"
#include "src/http/answers.h"

namespace stepwatch::api {
namespace {

control_socket::RankWords WordsOf(std::vector<ask::RankAnswer> answers) {
  control_socket::RankWords words;
  for (ask::RankAnswer& each : answers)
    words.words.push_back({each.rank, std::move(each.text_untrusted), each.after.count(), std::move(each.trouble)});
  return words;
}

}  // namespace

bool JobRanks::shares_store() const {
  return impl_.options_.store && impl_.options_.world_size > 1 && impl_.dynamic_;
}

bool JobRanks::Leads() const {
  return impl_.options_.rank == 0 || !shares_store();
}

std::string JobRanks::WhyAlone() const {
  if (impl_.options_.world_size <= 1 || shares_store()) return "";
  return impl_.options_.store ? "in static mode the ranks share only the run id; only this rank was asked"
                              : "the ranks share no store; only this rank was asked";
}

template <class Value>
void JobRanks::Deliver(const std::function<void(Result<Value>)>& then, Result<Value> value) {
  const auto shared = std::make_shared<const Result<Value>>(std::move(value));
  if (!impl_.server_ || !impl_.server_->OnWorker([then, shared] { then(*shared); }))
    then(Status(StatusCode::kUnavailable, "the control socket is closed, or too many requests are waiting"));
}

void JobRanks::Ask(const std::string& question, std::chrono::milliseconds time,
                   std::function<void(Result<control_socket::RankWords>)> then) {
  impl_.loop_.Post([this, question, time, then = std::move(then)] {
    ask::Questions* questions = impl_.reloader_.questions();
    if (questions == nullptr) {
      const control_socket::RankWord own{impl_.options_.rank, Answer(question), 0, ""};
      return Deliver<control_socket::RankWords>(then, control_socket::RankWords{{own}, WhyAlone()});
    }
    questions->Ask(question, time, [this, then](Result<std::vector<ask::RankAnswer>> answers) {
      if (!answers.ok()) return Deliver<control_socket::RankWords>(then, answers.status());
      Deliver<control_socket::RankWords>(then, WordsOf(std::move(answers).value()));
    });
  });
}

void JobRanks::Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
                       std::function<void(Result<std::string>)> then) {
  impl_.loop_.Post([this, request, time, is_urgent, then = std::move(then)] {
    ask::Questions* questions = impl_.reloader_.questions();
    if (questions == nullptr)
      return Deliver<std::string>(then, Status(StatusCode::kUnavailable, "this rank shares no store with rank 0"));
    questions->Forward(
        request, time, [this, then](Result<std::string> reply) { Deliver<std::string>(then, std::move(reply)); },
        is_urgent);
  });
}

std::string JobRanks::Answer(const std::string& question_untrusted) {
  if (const auto budget = budget::BudgetQuestionFrom(question_untrusted))
    return budget::Encode(impl_.reloader_.resampler().Propose(*budget));
  const control_socket::RankQuestion question = control_socket::RankQuestionFrom(question_untrusted);
  switch (question.matter) {
    case control_socket::RankMatter::kReport: return control_socket::ReportText(impl_.job_->GetStatus());
    case control_socket::RankMatter::kTrial:
      return control_socket::TrialText(impl_.reloader_.requests().Try(question.bytes));
    case control_socket::RankMatter::kUnknown: break;
  }
  return control_socket::UnknownQuestionText();
}

void JobRanks::Perform(int rank, const std::string& request_untrusted, Reply reply) {
  if (!impl_.server_)
    return reply(control_socket::AnswerText(
        http::Busy("rank 0 has no control socket: its options or STEPWATCH_SOCKET=0 disable it")));
  impl_.server_->AnswerForwarded(rank, request_untrusted, [this, reply = std::move(reply)](const std::string& answer) {
    impl_.loop_.Post([reply, answer] { reply(answer); });
  });
}

}  // namespace stepwatch::api
