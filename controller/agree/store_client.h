// Access of one rank to the job's store. Every request is repeated until it is answered; the meaning of each key allows
// this. Loop thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/status.h"
#include "stepwatch/store.h"

namespace stepwatch::agree {

using Time = std::chrono::steady_clock::time_point;

class StoreClient {
 public:
  // State of one kind of request, of which one is in progress at a time; an answer after its deadline is ignored.
  struct Request {
    bool is_out = false;
    bool hurries = false;  // the next one follows the answer without a pause
    uint64_t serial = 0;
    Time asked;
    Time not_before;  // earliest time of the next one
    std::chrono::milliseconds pause_after_fault{0};
  };
  using Handler = std::function<void(const std::optional<std::string>&)>;
  // Called for every rank whose word was read, with the word if there is one.
  using OnWord = std::function<void(int rank, const std::optional<std::string>& word)>;

  struct Dependencies {
    std::function<Time()> now;
    // Runs the work on the loop thread, never within the call. Safe on any thread, even after the loop has ended.
    std::function<void(std::function<void()>)> post;
    // The owner of the requests; null: destroyed or stopped, so answers are ignored.
    std::function<std::shared_ptr<void>()> owner;
    // Called with the reason when the store fails, and with Ok when it responds again.
    std::function<void(const Status&)> on_change;
    // Called after every answer.
    std::function<void()> on_answer;
  };

  // A request without an answer within `answer_time` is repeated. The constructor does not call `dependencies.owner`.
  StoreClient(std::shared_ptr<Store> store, std::chrono::milliseconds answer_time, Dependencies dependencies);

  void Get(Request* request, const std::string& key, Handler handler, std::chrono::milliseconds pause = {});
  void Set(Request* request, const std::string& key, const std::string& value, Handler handler);
  void SetOnce(Request* request, const std::string& key, const std::string& value, Handler handler);
  void SetAll(Request* request, const std::vector<std::string>& keys, const std::string& value, Handler handler);
  // Calls `handler` when the key has been set. A failure is retried and not reported.
  void Listen(Request* request, const std::string& key, const std::function<void()>& handler);

  // Words of the ranks on one subject. A store that appends keeps them under one key, which one request reads; any
  // other store has one key for each rank.
  void Enter(Request* request, const std::string& key, int rank, const std::string& word, Handler handler);
  // `is_known[rank]`: this word is not read. `requests` has one element for each rank.
  void ReadWords(std::vector<Request>* requests, const std::string& key, const std::vector<bool>& is_known,
                 const OnWord& on_word, std::chrono::milliseconds pause);

  // The next request does not pause. If one is in progress, another follows, as its result may already be outdated.
  void Hurry(Request* request);
  // Ignores the answer of the request in progress; the next request starts at once.
  void Restart(Request* request);
  // Numbers have a new meaning: answers to earlier requests are ignored.
  void IgnoreOldAnswers() { ++epoch_; }
  bool appends() const { return store_->abilities().appends; }
  bool listens() const { return store_->abilities().listens; }

 private:
  using Issue = std::function<void(Store::Done)>;
  using OnAnswer = std::function<void(const Store::Answer&)>;

  void Ask(Request* request, const Issue& issue, const Handler& handler, std::chrono::milliseconds pause);
  void Send(Request* request, const Issue& issue, OnAnswer on_answer);
  void Take(Request* request, const Store::Answer& answer, const Handler& handler);
  void PauseAfterFault(Request* request);

  const std::shared_ptr<Store> store_;
  const std::chrono::milliseconds answer_time_;
  const Dependencies dependencies_;
  uint64_t epoch_ = 0;
  bool fails_ = false;
  Time last_fault_;
};

}  // namespace stepwatch::agree
