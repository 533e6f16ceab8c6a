// A rank that stands at one step and does nothing of what is decided; tests override what they look at.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "controller/agree/coordinator.h"

namespace stepwatch::agree {

class IdleRank : public RankDelegate {
 public:
  explicit IdleRank(int64_t step) : step_(step) {}

  int64_t arriving() override { return step_; }
  int64_t begun() override { return arriving(); }
  int64_t HoldAt(int64_t) override { return arriving(); }
  void Release() override {}
  std::optional<Decision> Build(const Proposal&) override { return std::nullopt; }
  void Commit(const Proposal&) override {}
  void Discard(const Proposal&, const Decision&) override {}
  void Settle(const Settled&) override {}
  void Join(const std::string&) override {}
  void StoreChanged(const Status&) override {}
  void LeaderIsSilent(std::chrono::milliseconds) override {}

 private:
  const int64_t step_;
};

}  // namespace stepwatch::agree
