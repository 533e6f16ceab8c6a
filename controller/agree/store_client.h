// The job's store as one rank uses it: every request is repeated until it is answered; each key's meaning allows that.
// Loop thread only.
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
  // One request of a kind at a time; an answer that comes after its time is ignored.
  struct Request {
    bool is_out = false;
    bool hurries = false;  // another one follows the answer without a pause
    uint64_t serial = 0;
    Time asked;
    Time not_before;  // pause between two of them
    std::chrono::milliseconds pause_after_fault{0};
  };
  using Handler = std::function<void(const std::optional<std::string>&)>;
  // Called for every rank that was asked about, with its word if there is one.
  using OnWord = std::function<void(int rank, const std::optional<std::string>& word)>;

  struct Dependencies {
    std::function<Time()> now;
    // Runs the work on the loop thread, never from within the call; safe from any thread, also when the loop is gone.
    std::function<void(std::function<void()>)> post;
    // Who holds the requests; null: gone or stopped, and answers are ignored.
    std::function<std::shared_ptr<void>()> owner;
    // The store fails, with the reason; or Ok: it answers again.
    std::function<void(const Status&)> on_change;
    // After every answer.
    std::function<void()> on_answer;
  };

  // A request that is not answered within `answer_time` is made again. `dependencies.owner` is called later only.
  StoreClient(std::shared_ptr<Store> store, std::chrono::milliseconds answer_time, Dependencies dependencies);

  void Get(Request* request, const std::string& key, Handler handler, std::chrono::milliseconds pause = {});
  void Set(Request* request, const std::string& key, const std::string& value, Handler handler);
  void SetOnce(Request* request, const std::string& key, const std::string& value, Handler handler);
  void SetAll(Request* request, const std::vector<std::string>& keys, const std::string& value, Handler handler);
  // Calls `handler` when the key has been set. A failure is tried again, and told to nobody.
  void Listen(Request* request, const std::string& key, const std::function<void()>& handler);

  // Words of the ranks about one matter. A store that appends has them under one key, which one request reads; any
  // other has a key for each rank.
  void Enter(Request* request, const std::string& key, int rank, const std::string& word, Handler handler);
  // `is_known[rank]`: its word is not asked for. `requests` has one for each rank.
  void ReadWords(std::vector<Request>* requests, const std::string& key, const std::vector<bool>& is_known,
                 const OnWord& on_word, std::chrono::milliseconds pause);

  // The next request need not pause. If one is out it may have been performed already: another one follows it.
  void Hurry(Request* request);
  // What was asked before is not awaited any more, and the next request goes out at once.
  void Restart(Request* request);
  // Numbers mean something else now: answers to what was asked before are ignored.
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
