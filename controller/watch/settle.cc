#include "controller/watch/settle.h"

#include <algorithm>
#include <utility>

namespace stepwatch::watch {
namespace {

std::string IdentityOfBytes(const std::string& sha256) {
  return "bytes " + sha256;
}

// Equal for looks that say the same. The size of a file that is too big is left out: a log written over the config by
// mistake is one trouble, not one for every line.
std::string IdentityOf(const Look& look) {
  switch (look.kind) {
    case LookKind::kBytes: return IdentityOfBytes(look.sha256);
    case LookKind::kMissing: return "missing";
    case LookKind::kUnreadable: return "unreadable " + std::to_string(look.error_number);
    case LookKind::kUnstable: break;
  }
  return "unstable";
}

}  // namespace

Settle::Settle(SettleTimes times, LooksWhole looks_whole) : times_(times), looks_whole_(std::move(looks_whole)) {}

Settle::Verdict Settle::OnLook(const Look& look, Time now) {
  if (look.kind == LookKind::kUnstable) {
    candidate_.reset();
    return {.pass_on = false, .look_at = now + times_.retry};
  }
  std::string identity = IdentityOf(look);
  if (identity == passed_on_) {
    candidate_.reset();
    return {};
  }
  if (!candidate_ || candidate_->identity != identity) {
    candidate_ = Candidate{std::move(identity), look.stamp, now, now, std::nullopt};
  } else if (candidate_->stamp != look.stamp) {
    candidate_->stamp = look.stamp;
    candidate_->untouched_since = now;
  }
  const auto rest = RestNeeded(look);
  const Time rested_at =
      std::min(candidate_->untouched_since + rest, candidate_->seen_since + std::max(rest, times_.rest_max));
  if (now >= rested_at) return PassOn(candidate_->identity);
  return {.pass_on = false, .look_at = rested_at};
}

Settle::Verdict Settle::OnImpatientLook(const Look& look, Time now) {
  const std::string identity = IdentityOf(look);
  if (look.kind == LookKind::kUnstable || identity == passed_on_) return OnLook(look, now);
  return PassOn(identity);
}

void Settle::SetKnown(const std::string& sha256) {
  passed_on_ = IdentityOfBytes(sha256);
  if (candidate_ && candidate_->identity == passed_on_) candidate_.reset();
}

Settle::Verdict Settle::PassOn(std::string identity) {
  passed_on_ = std::move(identity);
  candidate_.reset();
  return {.pass_on = true, .look_at = std::nullopt};
}

std::chrono::milliseconds Settle::RestNeeded(const Look& look) {
  if (look.kind != LookKind::kBytes) return times_.quiet;
  if (!candidate_->whole) candidate_->whole = !looks_whole_ || looks_whole_(look.bytes);
  return *candidate_->whole ? times_.quiet : times_.half_written;
}

}  // namespace stepwatch::watch
