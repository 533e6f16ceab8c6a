// A rate limit: at most so many messages in any minute.
#pragma once

#include <algorithm>
#include <cmath>

namespace stepwatch::operations::delivery {

class TokenBucket {
 public:
  // 0: no limit. Some messages may go at once, a quarter of a minute's at most; the others are spread over the minute,
  // so that no 60 seconds have more than `per_minute`.
  explicit TokenBucket(double per_minute)
      : tokens_max_(std::clamp(std::floor(per_minute / 4), 1.0, kAtOnceMax)),
        per_second_(per_minute >= 1 ? (per_minute - tokens_max_ + 1) / 60 : per_minute / 60),
        is_limited_(per_minute > 0) {}

  // The number of messages that may go now.
  double Tokens(double now) {
    if (!is_limited_) return kUnlimited;
    // A clock that was set back gives no tokens.
    if (now > filled_t_ && is_used_) tokens_ = std::min(tokens_max_, tokens_ + (now - filled_t_) * per_second_);
    if (!is_used_) tokens_ = tokens_max_;
    is_used_ = true;
    filled_t_ = now;
    return std::floor(tokens_ + kRounding);
  }
  void Use() { tokens_ -= is_limited_ ? 1 : 0; }

 private:
  // Chat services count seconds as well.
  static constexpr double kAtOnceMax = 5;
  static constexpr double kUnlimited = 1e9;
  static constexpr double kRounding = 1e-9;

  double tokens_max_;
  double per_second_;
  bool is_limited_;
  bool is_used_ = false;
  double tokens_ = 0;
  double filled_t_ = 0;
};

}  // namespace stepwatch::operations::delivery
