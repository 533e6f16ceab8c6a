// Questions and requests between the ranks of a job, through its store. Loop thread only; owns no thread and no timer.
//
// The leader sends a question to all ranks, and each answers for itself; any other rank forwards requests to the
// leader. A rank sees only the text of a question. An answer that is late is reported as missing.
//
// Keys under the job's prefix and the leader's session, their values, and their writers:
//   q        the open question                               leader, replaced; cleared when it is over
//   a/RANK   the rank's answer to the newest question        rank, replaced
//   f/0      the first of the next keys that is free         leader, replaced
//   f/N      a forwarded request                             the first rank to set it; cleared by the leader
//   g/RANK   the leader's reply to the rank                  leader, replaced; cleared by the rank
//   b/0      (of the prefix) the leader's bell               a rank; removed by the leader
//
// No store traffic while no question is open, with one exception: a leader whose store does not listen polls for
// requests four times a second. Other ranks learn of a question as they learn of a proposal (agree/coordinator.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/agree/store_client.h"
#include "controller/ask/messages.h"
#include "stepwatch/status.h"
#include "stepwatch/store.h"

namespace stepwatch::ask {

using agree::StoreClient;
using agree::Time;

inline constexpr const char* kOver = "over";  // replaces a value that is no longer needed
inline constexpr const char* kRung = "rung";  // the value of a bell

// Answers questions and performs requests for its rank.
class QuestionHost {
 public:
  using Reply = std::function<void(std::string)>;

  virtual ~QuestionHost() = default;
  virtual std::string Answer(const std::string& question_untrusted) = 0;
  // Leader: calls `reply` once, on the loop thread, within the call or later.
  virtual void Perform(int rank, const std::string& request_untrusted, Reply reply) = 0;
};

struct RankAnswer {
  int rank = 0;
  std::string text_untrusted;          // empty: no answer has arrived
  std::chrono::milliseconds after{0};  // time after the question
  std::string trouble;                 // why there is no answer, or why it is unreadable
};

class Questions : public std::enable_shared_from_this<Questions> {
 public:
  struct Settings {
    std::string prefix = "stepwatch";
    int rank = 0;
    int world_size = 1;
    Incarnation incarnation;
    // Poll interval for requests of a leader whose store does not listen.
    std::chrono::milliseconds poll{250};
    // Poll interval with a bell.
    std::chrono::milliseconds look{60000};
    // Shortest poll interval for an answer.
    std::chrono::milliseconds busy_poll{5};
    // A store request without an answer in this time is repeated.
    std::chrono::milliseconds answer_time{5000};
  };
  struct Dependencies {
    std::function<Time()> now;
    // Runs the work on the loop thread, never within the call. Safe on any thread, even after the loop has ended.
    std::function<void(std::function<void()>)> post;
    // Requests a call of Advance at this time; replaces the earlier request.
    std::function<void(Time)> wake_at;
    // Leader: announces the question with this number, which is in the store, to all ranks.
    std::function<void(int64_t)> announce;
  };
  using OnAnswers = std::function<void(Result<std::vector<RankAnswer>>)>;  // by rank, the leader's own included
  using OnReplied = std::function<void(Result<std::string>)>;

  // Maximum number of waiting questions; more are rejected.
  static constexpr size_t kQuestionsMax = 8;
  static constexpr size_t kForwardsMax = 8;

  // `host` must outlive this object or the time of its Stop.
  Questions(Settings settings, std::shared_ptr<Store> store, QuestionHost* host, Dependencies dependencies);

  bool is_leader() const { return settings_.rank == 0; }
  // Called when this rank has joined the job. Before that, questions and requests are rejected.
  void Start();
  // Waiting calls receive kUnavailable.
  void Stop();

  // Leader: sends a question to all ranks; calls `then` when all have answered, or after `time`. Questions are sent one
  // after another; callers with the text of a waiting question share its answers.
  void Ask(const std::string& text, std::chrono::milliseconds time, OnAnswers then);
  // Other ranks: forwards a request to the leader. kTimedOut: no reply in time; the request may have been performed
  // nevertheless. An urgent request overtakes all waiting ones.
  void Forward(const std::string& text, std::chrono::milliseconds time, OnReplied then, bool is_urgent = false);
  // Other ranks: `number` is the count of questions by the leader that this rank follows.
  void OnAnnounced(const Incarnation& session, int64_t number);
  // Performs the work that is due.
  void Advance();

 private:
  struct OpenQuestion {
    int64_t number = 0;  // 0: waiting
    std::string text;
    std::chrono::milliseconds time{0};
    Time begun, deadline;
    bool is_published = false;
    std::vector<RankAnswer> answers;  // by rank
    std::vector<bool> has_answered;
    std::vector<OnAnswers> thens;
  };
  struct OpenRequest {
    int64_t serial = 0;  // 0: waiting
    std::string text;
    std::string message;  // includes the serial
    std::chrono::milliseconds time{0};
    Time begun, deadline;
    int64_t slot = 0;  // 0: not in the store
    bool has_rung = false;
    OnReplied then;
  };
  // The newest request that a rank has forwarded.
  struct NewestRequest {
    Incarnation incarnation;
    int64_t serial = 0;
  };

  StoreClient::Dependencies ForStore();
  std::string Key(const char* kind) const { return settings_.prefix + "/" + session_ + "/" + kind; }
  std::string Key(const char* kind, int64_t number) const { return Key(kind) + "/" + std::to_string(number); }
  std::string BellKey() const { return settings_.prefix + "/b/0"; }

  void AdvanceQuestions();
  void Begin(OpenQuestion* question);
  void Publish(const OpenQuestion& question);
  void ReadAnswers(const OpenQuestion& question);
  void OnAnswer(int64_t number, int rank, const std::string& text_untrusted);
  void FinishQuestion();
  std::string AnswerHere(const std::string& question_untrusted);
  // Ok: this rank has joined the job.
  Status Present() const;

  void AdvanceRequests();
  void OnRequest(int64_t slot, const std::string& text_untrusted);
  void PerformRequest(const ForwardedRequest& request);
  void WriteReplies();

  void AdvanceAnswering();
  void OnQuestion(const std::string& text_untrusted);
  void AdvanceForwards();
  void Post(OpenRequest* request);
  void OnPosted(int64_t serial, int64_t slot, const std::string& message, const std::string& standing);
  void OnReply(int64_t serial, const std::string& text_untrusted);
  void EndForward(const Result<std::string>& reply);

  void WriteLater(const std::string& key, const std::string& value);
  void AdvanceCleanup();
  std::optional<std::chrono::milliseconds> Pause() const;
  std::chrono::milliseconds BusyPoll(Time begun, size_t requests) const;

  const Settings settings_;
  QuestionHost* host_;  // null once stopped
  const Dependencies dependencies_;
  StoreClient store_;
  std::string store_trouble_;  // empty: the store responds
  Incarnation session_;        // of the leader; empty: not known yet
  bool has_started_ = false;

  // Leader.
  std::deque<OpenQuestion> questions_;  // the first one is in progress
  int64_t numbers_ = 0;
  bool holds_question_ = false;  // the store has the text of a question, open or over
  int64_t next_slot_ = 1;
  size_t performing_ = 0;
  std::vector<NewestRequest> newest_requests_;  // by rank
  std::map<int, ForwardReply> replies_;         // by rank, to be written

  // Other ranks.
  int64_t announced_ = 0, answered_ = 0;    // numbers of questions
  std::optional<AnswerToQuestion> answer_;  // to be written
  std::deque<OpenRequest> forwards_;        // the first one is in progress
  int64_t serials_ = 0;
  int64_t free_slot_ = 1;

  // Keys to clear, without a caller that waits.
  std::deque<std::pair<std::string, std::string>> cleanups_;
  StoreClient::Request write_question_, read_request_, listen_, read_question_, write_answer_, post_, find_slot_, ring_,
      read_reply_, cleanup_;
  std::vector<StoreClient::Request> read_answers_, write_replies_;  // by rank
};

}  // namespace stepwatch::ask
