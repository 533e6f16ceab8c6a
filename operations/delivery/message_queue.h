// The messages of a receiver that shows each once: chats, e-mail, webhooks.
//
// Each change of an incident is one message. When more wait than the rate allows, one message stands for all of them:
// a digest, which names the first ones and counts the others. Alerts of a webhook are never only counted: they share
// requests instead.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "operations/delivery/outbox.h"

namespace stepwatch::operations::delivery {

class MessageQueue final : public Outbox {
 public:
  // Beyond it the oldest of the least severe messages are only counted.
  static constexpr size_t kWaitingMax = 1000;
  static constexpr size_t kWaitingMaxOfWebhook = 10000;
  // After this time without success a message is given up.
  static constexpr double kAgeSecondsMax = 86400;

  using Outbox::Outbox;

  bool Take(const Notice& notice, Moment now) override;
  std::optional<Load> Begin(Moment now) override;
  void End(const Judgement& judgement, Moment now) override;
  void Restore(Message message) override;
  void StoreAgain() override;
  void Forget() override;
  std::vector<Message> Waiting() const override;
  OutboxCounts counts() const override;

 private:
  bool SendsEach() const { return settings_.type == ReceiverType::kWebhook; }
  void FoldOne();
  void SetFolded(int64_t folded);
  // Moves the messages of the next request to `sending_`, and returns it.
  Load TakeOne();
  Load TakeBatch();
  Load TakeDigest();

  std::deque<Message> waiting_;  // the oldest first
  std::vector<Message> sending_;
  int64_t folded_ = 0;  // that no longer wait, for the next digest to count
  int64_t folded_sending_ = 0;
};

}  // namespace stepwatch::operations::delivery
