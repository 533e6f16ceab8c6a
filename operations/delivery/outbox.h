// The messages of one receiver: those that wait, the sending in progress, the last ones sent and given up. Pure: time
// and dice are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "operations/delivery/message.h"
#include "operations/delivery/receiver.h"
#include "operations/delivery/token_bucket.h"
#include "src/base/retry.h"

namespace stepwatch::operations::delivery {

struct Moment {
  double wall = 0;     // seconds since 1970
  double running = 0;  // of a clock that is never set
};

// Rows of the store by key; nullopt: remove it.
using Rows = std::map<std::string, std::optional<std::string>>;

// The notices of one request, and the number of others in its digest.
struct Load {
  std::vector<Notice> notices;
  size_t more = 0;
};

struct OutboxCounts {
  int64_t sent = 0;      // requests that the receiver accepted
  int64_t failed = 0;    // attempts that failed
  int64_t digested = 0;  // notices that were only counted in a digest
  int64_t dead = 0;      // notices that were given up
  int64_t waiting = 0;
  std::string trouble;  // the reason of the last attempt, if it failed
};

// The times at which a receiver may be sent to: one request at a time, within its rate, with growing pauses after
// failures.
class Pace {
 public:
  Pace(double per_minute, std::function<double()> dice) : bucket_(per_minute), dice_(std::move(dice)) {}

  // The number of requests that may begin now.
  double Room(double running);
  void Begin();
  void End(const Judgement& judgement, double running);
  void SetPerMinute(double per_minute) { bucket_ = TokenBucket(per_minute); }
  bool is_sending() const { return is_sending_; }

 private:
  static constexpr double kPauseFirst = 1, kPauseMax = 300;

  TokenBucket bucket_;
  std::function<double()> dice_;  // from 0 to 1
  base::Retry retry_{kPauseFirst, kPauseMax};
  double due_ = 0;
  bool is_sending_ = false;
};

class Outbox {
 public:
  // `rows` receives each change of a row, under keys that begin with the receiver's name.
  Outbox(const ReceiverSettings& settings, std::function<double()> dice, Rows* rows);
  virtual ~Outbox() = default;

  // Queues a notice. False: this change is known already, or there is nothing to send.
  virtual bool Take(const Notice& notice, Moment now) = 0;
  // Begins the next request, if one is due. Its rows must be safe before it is sent.
  virtual std::optional<Load> Begin(Moment now) = 0;
  virtual void End(const Judgement& judgement, Moment now) = 0;
  // A message of the previous process.
  virtual void Restore(Message message) = 0;
  // Writes all rows again.
  virtual void StoreAgain() = 0;
  // Removes all rows.
  virtual void Forget() = 0;
  virtual std::vector<Message> Waiting() const = 0;
  virtual OutboxCounts counts() const = 0;

  void Apply(const ReceiverSettings& settings);
  const ReceiverSettings& settings() const { return settings_; }
  std::vector<Message> Finished() const;

  static constexpr size_t kSentMax = 1000, kDeadMax = 200;

 protected:
  // The key of a row: "RECEIVER<TAB>ID".
  std::string KeyOf(const std::string& id) const { return settings_.name + "\t" + id; }
  void Write(const std::string& id, const Message& message);
  void Remove(const std::string& id) { rows_->insert_or_assign(KeyOf(id), std::nullopt); }
  // Keeps it as sent or dead.
  void Finish(Message message, MessageState state, Moment now);
  void Count(const Judgement& judgement);
  void RestoreFinished(Message message);
  void StoreFinishedAgain();
  void ForgetFinished();
  bool IsKnown(const std::string& change) const { return known_.contains(std::hash<std::string>()(change)); }
  void Know(const std::string& change);

  ReceiverSettings settings_;
  Pace pace_;
  OutboxCounts counts_;

 private:
  static constexpr size_t kKnownMax = 20000;

  void Keep(Message message);

  Rows* const rows_;
  std::deque<Message> sent_, dead_;
  // Hashes of the changes that were taken, the oldest first.
  std::deque<size_t> known_order_;
  std::unordered_set<size_t> known_;
};

}  // namespace stepwatch::operations::delivery
