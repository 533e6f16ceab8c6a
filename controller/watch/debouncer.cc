#include "controller/watch/debouncer.h"

#include <algorithm>
#include <utility>

namespace stepwatch::watch {
namespace {

std::string IdentityOfBytes(const std::string& sha256) {
  return "bytes " + sha256;
}

// Equal for equivalent looks. The size of a too large file is left out: a log written over the config by mistake is one
// problem, not one for every line.
std::string IdentityOf(const FileSnapshot& snapshot) {
  switch (snapshot.kind) {
    case SnapshotKind::kBytes: return IdentityOfBytes(snapshot.sha256);
    case SnapshotKind::kMissing: return "missing";
    case SnapshotKind::kUnreadable: return "unreadable " + std::to_string(snapshot.error_number);
    case SnapshotKind::kUnstable: break;
  }
  return "unstable";
}

}  // namespace

Debouncer::Debouncer(SettleTimes times, LooksWhole looks_whole) : times_(times), looks_whole_(std::move(looks_whole)) {}

Debouncer::SettleDecision Debouncer::OnLook(const FileSnapshot& snapshot, Time now) {
  if (snapshot.kind == SnapshotKind::kUnstable) {
    candidate_.reset();
    return {.pass_on = false, .look_at = now + times_.retry};
  }
  std::string identity = IdentityOf(snapshot);
  if (identity == passed_on_) {
    candidate_.reset();
    return {};
  }
  if (!candidate_ || candidate_->identity != identity) {
    candidate_ = Candidate{std::move(identity), snapshot.stamp, now, now, std::nullopt};
  } else if (candidate_->stamp != snapshot.stamp) {
    candidate_->stamp = snapshot.stamp;
    candidate_->untouched_since = now;
  }
  const auto rest = RestNeeded(snapshot);
  const Time rested_at =
      std::min(candidate_->untouched_since + rest, candidate_->seen_since + std::max(rest, times_.rest_max));
  if (now >= rested_at) return PassOn(candidate_->identity);
  return {.pass_on = false, .look_at = rested_at};
}

Debouncer::SettleDecision Debouncer::OnImpatientLook(const FileSnapshot& snapshot, Time now) {
  const std::string identity = IdentityOf(snapshot);
  if (snapshot.kind == SnapshotKind::kUnstable || identity == passed_on_) return OnLook(snapshot, now);
  return PassOn(identity);
}

void Debouncer::SetKnown(const std::string& sha256) {
  passed_on_ = IdentityOfBytes(sha256);
  if (candidate_ && candidate_->identity == passed_on_) candidate_.reset();
}

void Debouncer::Reopen() noexcept {
  passed_on_.clear();
  candidate_.reset();
}

Debouncer::SettleDecision Debouncer::PassOn(std::string identity) {
  passed_on_ = std::move(identity);
  candidate_.reset();
  return {.pass_on = true, .look_at = std::nullopt};
}

std::chrono::milliseconds Debouncer::RestNeeded(const FileSnapshot& snapshot) {
  if (snapshot.kind != SnapshotKind::kBytes) return times_.quiet;
  if (!candidate_->whole) candidate_->whole = !looks_whole_ || looks_whole_(snapshot.bytes);
  return *candidate_->whole ? times_.quiet : times_.half_written;
}

}  // namespace stepwatch::watch
