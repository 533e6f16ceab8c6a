#include <algorithm>

#include "operations/runs/run_state.h"

namespace stepwatch::operations {
namespace {

RankSnapshot SnapshotOf(const RankState& rank, double now) {
  RankSnapshot shown;
  shown.rank = rank.rank;
  shown.phase = rank.phase;
  shown.step = rank.step;
  shown.heard_seconds_ago = now - rank.heard_at;
  shown.step_seconds_ago = now - rank.step_at;
  shown.module = rank.module;
  shown.gone = rank.gone;
  shown.process_state = rank.process_state;
  if (rank.waits) shown.waits_in = rank.waits_in.empty() ? "unknown" : rank.waits_in;
  if (rank.step_seconds.is_known) shown.step_seconds = rank.step_seconds.value;
  return shown;
}

}  // namespace

RunSnapshot RunState::Snapshot(double now, double wall_minus_virtual, bool with_ranks) const {
  RunSnapshot shown;
  shown.id = id_;
  if (world_) shown.world = *world_;
  shown.hosts = hosts_;
  // The run itself goes on: a process of it may come back.
  const bool is_lost = !ended_ && AreAllGone();
  shown.ended = ended_ || is_lost;
  shown.end_reason = is_lost ? EndReason::kLost : end_reason_;
  shown.paused = !shown.ended && is_paused(now);
  shown.phase = phase();
  shown.step = step_;
  shown.checkpoint_step = checkpoint_step_;
  shown.started_t = started_wall_;
  shown.heard_t = std::min(heard_wall_, now + wall_minus_virtual);
  shown.restarts = restarts_;
  shown.step_seconds = pace_.StepSeconds();
  for (const auto& [name, series] : series_)
    if (!series.points().empty()) shown.latest.emplace_back(name, series.points().back().last);
  if (with_ranks)
    for (const auto& [number, rank] : ranks_) shown.ranks.push_back(SnapshotOf(rank, now));
  return shown;
}

}  // namespace stepwatch::operations
