#include "operations/discovery/pulse_source.h"

#include <chrono>
#include <utility>

#include "controller/control_socket/pulse_client.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kPulseAnswerTime{2000};

std::optional<EndReason> ReasonOf(vocabulary::PulseEnd end) {
  switch (end) {
    case vocabulary::PulseEnd::kRuns: return std::nullopt;
    case vocabulary::PulseEnd::kOk: return EndReason::kOk;
    case vocabulary::PulseEnd::kError: return EndReason::kError;
    case vocabulary::PulseEnd::kSignal: return EndReason::kSignal;
  }
  return std::nullopt;
}

// The program did not end a phase that has expired: it counts as training.
RunPhase PhaseOf(const PhaseMark& mark) {
  const int64_t now_ms = std::chrono::milliseconds(std::chrono::duration_cast<std::chrono::milliseconds>(
                                                       std::chrono::steady_clock::now().time_since_epoch()))
                             .count();
  if (mark.expires_ms != 0 && now_ms > mark.expires_ms) return RunPhase::kTrain;
  switch (mark.phase) {
    case Phase::kInit: return RunPhase::kInit;
    case Phase::kTrain: return RunPhase::kTrain;
    case Phase::kEval: return RunPhase::kEval;
    case Phase::kCheckpoint: return RunPhase::kCheckpoint;
    case Phase::kPaused: return RunPhase::kPaused;
  }
  return RunPhase::kTrain;
}

class SocketPulse final : public PulseReader {
 public:
  explicit SocketPulse(control_socket::PulseView view) : view_(std::move(view)) {}

  Result<PulseLook> Look() const override {
    const Result<vocabulary::Pulse> read = view_.Read();
    if (!read.ok()) return read.status();
    const vocabulary::Pulse& pulse = read.value();
    PulseLook look;
    look.process = pulse.process;
    look.run = pulse.run_id;
    look.rank = pulse.rank;
    look.world = pulse.world;
    if (pulse.step >= 0) {
      look.step = pulse.step;
      look.step_at = pulse.boundary_unix();
    }
    look.phase = PhaseOf(pulse.phase);
    look.module = view_.ModuleName(pulse);
    look.signal = pulse.signal;
    look.signals = pulse.signals;
    look.end = ReasonOf(pulse.end);
    return look;
  }
  std::vector<LastWordLine> LastWords() const override {
    std::vector<LastWordLine> words;
    for (vocabulary::LastWord& word : view_.LastWords()) words.push_back({word.number, std::move(word.line)});
    return words;
  }
  bool IsOutdated() const override { return view_.IsOutdated(); }

 private:
  control_socket::PulseView view_;
};

}  // namespace

Result<std::unique_ptr<PulseReader>> OpenSocketPulse(const std::string& path, std::optional<uid_t> trusted) {
  Result<control_socket::PulseView> view = control_socket::FetchPulse(path, trusted, kPulseAnswerTime);
  if (!view.ok()) return view.status();
  return std::unique_ptr<PulseReader>(std::make_unique<SocketPulse>(std::move(view).value()));
}

}  // namespace stepwatch::operations
