// The alerts of an Alertmanager, which forgets an open alert unless it is posted again: posts each when it changes, and
// open ones about once a minute. A resolved one is posted with its end until that is accepted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/delivery/outbox.h"

namespace stepwatch::operations::delivery {

class AlertBoard final : public Outbox {
 public:
  static constexpr size_t kAlertsMax = 20000;

  using Outbox::Outbox;

  // An `updated` notice, with a known change, replaces the last one without a post of its own. A resolved alert that
  // was never on the board is not sent.
  bool Take(const Notice& notice, Moment now) override;
  std::optional<Load> Begin(Moment now) override;
  void End(const Judgement& judgement, Moment now) override;
  void Restore(Message message) override;
  void StoreAgain() override;
  void Forget() override;
  std::vector<Message> Waiting() const override;
  OutboxCounts counts() const override;

  std::vector<Notice> Open() const;
  // The alert is not posted while it is silenced, so that it expires.
  void SetSilenced(const std::string& key, bool is_silenced);

 private:
  struct Alert {
    Message message;
    bool is_dirty = true;  // changed since the last accepted post
    bool is_silenced = false;
    double posted = -1e9;  // at the last accepted post, in the running clock
  };

  double Interval() const;
  void Settle(const std::string& key, const std::string& change, const Judgement& judgement, Moment now);

  std::map<std::string, Alert> alerts_;                       // by the key of the incident
  std::vector<std::pair<std::string, std::string>> sending_;  // key and change
  size_t batch_max_ = 0;                                      // 0: the most that a request carries
  double due_ = 0;                                            // the earliest time of the next post without a change
  bool has_dirty_ = false;
  int64_t dropped_ = 0;
};

}  // namespace stepwatch::operations::delivery
