// Makes lines of what is learnt of one process: its beats, its pulse, its state, its end. Pure.
//
// The beats that the control socket serves say everything, in order and with their own times, so they are what is told.
// The pulse says less, and at once: it is told where the control socket says nothing, because it hangs, or because
// nothing moves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operations/discovery/beat_answer.h"
#include "operations/discovery/pulse_source.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

class JobTeller {
 public:
  using Lines = std::vector<Line>;

  // `host`: of the process, for runs whose start is not known any more. Times are those of the observer's wall clock.
  JobTeller(std::string host, double now) : host_(std::move(host)), found_at_(now), told_at_(now) {}

  // Lines up to this time were told by an earlier stepwatchd, which has kept them.
  void SetKnownUntil(double t) { known_until_ = t; }

  // The next question's `since`.
  uint64_t since() const { return since_; }
  // The control socket is worth a question: something has moved since the last one, or it is long ago.
  bool WantsBeats(double now) const;
  void OnAsked(double now);
  void OnBeats(const BeatAnswer& answer, double now, Lines* lines);
  void OnNoBeats() { is_socket_silent_ = true; }

  void OnPulse(const PulseLook& look, double now, Lines* lines);
  // Only what somebody needs to know: that it stands still, and that it does so no longer.
  void OnState(char state, double now, Lines* lines);
  void OnStacks(const std::string& text, double now, Lines* lines);
  void OnCollective(const std::optional<std::string>& operation, double now, Lines* lines);
  // It says in its pulse that its run is over, and its control socket is shut: what it has left behind is all there is.
  bool HasLeft() const { return look_ && look_->end && is_socket_silent_ && !has_ended_; }
  void OnLeft(const std::vector<LastWordLine>& words, double now, Lines* lines);
  // What it has left behind, then that it is gone.
  void OnGone(const std::vector<LastWordLine>& words, double now, Lines* lines);

  // Empty: not known yet.
  const std::string& run() const { return run_; }
  int64_t rank() const { return rank_; }
  const std::optional<PulseLook>& look() const { return look_; }
  std::optional<int64_t> step() const { return told_.step; }
  bool has_ended() const { return has_ended_; }
  uint64_t lines_lost() const { return lines_lost_; }

  // A line of this rank.
  Line LineOf(double t, Event event) const { return Line{t, run_, rank_, std::move(event)}; }

 private:
  struct Told {
    std::optional<int64_t> step;
    std::optional<RunPhase> phase;
    std::string module;
  };

  // False: nobody knows yet for which run this process speaks.
  bool Belongs(const std::string& run, int64_t rank, int64_t world, bool has_stepped, double now, Lines* lines);
  void Tell(Line line, double now, Lines* lines);
  void TellPulse(double now, Lines* lines);
  bool MoveDiffers() const;

  const std::string host_;
  const double found_at_;
  double known_until_ = -1;
  std::string run_;
  int64_t rank_ = 0;
  uint64_t since_ = 0;
  uint64_t asked_since_ = 0;
  double asked_at_ = -1e9;
  std::optional<PulseLook> asked_look_;  // when the control socket was asked last
  bool is_behind_ = false;               // the control socket has more lines than one answer holds
  bool is_socket_silent_ = false;        // it was asked and has not answered
  std::optional<PulseLook> look_;
  double look_changed_at_ = 0;
  Told told_;
  double told_at_;
  uint64_t signals_told_ = 0;
  bool has_ended_ = false;
  bool has_begun_ = false;  // a start was told
  char state_ = 'R';
  int waits_for_device_ = 0;  // looks that found D, one after the other
  bool waits_ = false;
  uint64_t lines_lost_ = 0;
};

}  // namespace stepwatch::operations
