// Makes lines from all sources on one process: its beats, its pulse, its state, its end. Pure.
//
// The beats of the control socket are complete, in order and have their own times, so they are preferred. The pulse has
// less data, without delay: it is reported when no beats come, because the control socket hangs or no step ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operations/discovery/beat_answer.h"
#include "operations/discovery/pulse_source.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

class JobReporter {
 public:
  using Lines = std::vector<Line>;

  // `host`: that of the process, for runs whose start is no longer known. Times are those of the observer's wall clock.
  JobReporter(std::string host, double now) : host_(std::move(host)), found_at_(now), reported_at_(now) {}

  // An earlier stepwatchd has reported and kept lines up to this time.
  void SetKnownUntil(double t) { known_until_ = t; }

  // `since` of the next request.
  uint64_t since() const { return since_; }
  // True if a request to the control socket is due: the pulse has changed since the last one, or that is long ago.
  bool WantsBeats(double now) const;
  void OnAsked(double now);
  void OnBeats(const BeatAnswer& answer, double now, Lines* lines);
  void OnNoBeats() { is_socket_silent_ = true; }

  void OnPulse(const PulseLook& look, double now, Lines* lines);
  // Reports only that the process stands still, and that it no longer does.
  void OnState(char state, double now, Lines* lines);
  void OnStacks(const std::string& text, double now, Lines* lines);
  void OnCollective(const std::optional<std::string>& operation, double now, Lines* lines);
  // True if its pulse reports the end of its run, and its control socket is closed: only its last words are left.
  bool HasLeft() const { return look_ && look_->end && is_socket_silent_ && !has_ended_; }
  void OnLeft(const std::vector<LastWordLine>& words, double now, Lines* lines);
  // Reports its last words, then its end.
  void OnGone(const std::vector<LastWordLine>& words, double now, Lines* lines);

  // Empty: not known yet.
  const std::string& run() const { return run_; }
  int64_t rank() const { return rank_; }
  const std::optional<PulseLook>& look() const { return look_; }
  std::optional<int64_t> step() const { return reported_.step; }
  bool has_ended() const { return has_ended_; }
  uint64_t lines_lost() const { return lines_lost_; }

  // A line of this rank.
  Line LineOf(double t, Event event) const { return Line{t, run_, rank_, std::move(event)}; }

 private:
  struct Reported {
    std::optional<int64_t> step;
    std::optional<RunPhase> phase;
    std::string module;
  };

  // False: the run of this process is not known yet.
  bool Belongs(const std::string& run, int64_t rank, int64_t world, bool has_stepped, double now, Lines* lines);
  void Emit(Line line, double now, Lines* lines);
  void EmitPulse(double now, Lines* lines);
  bool MoveDiffers() const;

  const std::string host_;
  const double found_at_;
  double known_until_ = -1;
  std::string run_;
  int64_t rank_ = 0;
  uint64_t since_ = 0;
  uint64_t asked_since_ = 0;
  double asked_at_ = -1e9;
  std::optional<PulseLook> asked_look_;  // when the last request was sent to the control socket
  bool is_behind_ = false;               // the control socket has more lines than one answer holds
  bool is_socket_silent_ = false;        // a request has no answer yet
  std::optional<PulseLook> look_;
  double look_changed_at_ = 0;
  Reported reported_;
  double reported_at_;
  uint64_t signals_reported_ = 0;
  bool has_ended_ = false;
  bool has_begun_ = false;  // a start was reported
  char state_ = 'R';
  int waits_for_device_ = 0;  // consecutive looks that found D
  bool waits_ = false;
  uint64_t lines_lost_ = 0;
};

}  // namespace stepwatch::operations
