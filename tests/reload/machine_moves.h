// Moves of a simulated run, for the tests of the machine: texts to save, single moves, and all sequences of them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/reload/simulated_run.h"
#include "tests/rounds.h"

namespace stepwatch::reload {

inline const Text kA{"A", EditIntent::kRun, {0, 1, 2}};
inline const Text kB{"B", EditIntent::kRun, {0, 2, 1}};
inline const Text kOffText{"off", EditIntent::kOff, {}};
inline const Text kEmptyText{"empty", EditIntent::kEmpty, {}};
inline const Text kBad{"bad", EditIntent::kRefused, {}};

template <class Wanted>
int Count(const SimulatedRun& run) {
  int count = 0;
  for (const Action& action : run.actions()) count += std::holds_alternative<Wanted>(action) ? 1 : 0;
  return count;
}

inline void SaveAndLook(SimulatedRun* run, const Text& text) {
  run->Save(text);
  run->Look();
}

// A run with a window of kA in force, which the loop knows.
inline SimulatedRun Running() {
  SimulatedRun run(true, 0);
  SaveAndLook(&run, kA);
  run.EndStep();
  run.DeliverAll();
  return run;
}

enum class Move {
  kSaveA,
  kSaveB,
  kSaveOff,
  kSaveEmpty,
  kSaveBad,
  kLose,
  kUnseenB,
  kEndStep,
  kDeliverOne,
  kDeliverAll,
  kRecompile,
  kRecompileInStep,
  kCount,
  kFinishWriteBack = kCount,  // with slow files
  kCountSlow,
  kLimit = kCountSlow,
  kCountLimited,
  kPause = kCountLimited,
  kResume,
  kOverrideA,
  kOverrideB,
  kOverrideOff,
  kLendB,
  kAskA,
  kResample,
  kResampleLater,
};

inline void Make(Move move, SimulatedRun* run) {
  switch (move) {
    case Move::kSaveA: return SaveAndLook(run, kA);
    case Move::kSaveB: return SaveAndLook(run, kB);
    case Move::kSaveOff: return SaveAndLook(run, kOffText);
    case Move::kSaveEmpty: return SaveAndLook(run, kEmptyText);
    case Move::kSaveBad: return SaveAndLook(run, kBad);
    case Move::kLose: run->Lose(); return run->Look();
    case Move::kUnseenB: return run->Save(kB);
    case Move::kEndStep: return run->EndStep();
    case Move::kDeliverOne: run->DeliverOne(); return;
    case Move::kDeliverAll: return run->DeliverAll();
    case Move::kRecompile: return run->Recompile(true);
    case Move::kRecompileInStep: return run->Recompile();
    case Move::kFinishWriteBack: return run->FinishWriteBack();
    case Move::kPause: return run->Pause(true);
    case Move::kResume: return run->Pause(false);
    case Move::kOverrideA: return run->Override(kA);
    case Move::kOverrideB: return run->Override(kB);
    case Move::kOverrideOff: return run->Override(kOffText);
    case Move::kLendB: return run->Override(kB, true);
    case Move::kAskA: return run->AskAgain(kA);
    case Move::kLimit: return run->Limit();
    case Move::kResample: return run->Resample(1);
    case Move::kResampleLater: return run->Resample(3);
  }
}

// Every sequence of `length` moves from here, each run out to its end.
inline int64_t PlayAll(const SimulatedRun& from, int length, Move end = Move::kCount) {
  if (length == 0) {
    SimulatedRun run = from;
    run.CheckRunsOut();
    return 1;
  }
  int64_t sequences = 0;
  for (int move = 0; move < static_cast<int>(end); ++move) {
    SimulatedRun next = from;
    Make(static_cast<Move>(move), &next);
    sequences += PlayAll(next, length - 1, end);
  }
  return sequences;
}

// The same with these moves alone.
inline int64_t PlayAll(const SimulatedRun& from, int length, const std::vector<Move>& moves) {
  if (length == 0) return PlayAll(from, 0);
  int64_t sequences = 0;
  for (const Move move : moves) {
    SimulatedRun next = from;
    Make(move, &next);
    sequences += PlayAll(next, length - 1, moves);
  }
  return sequences;
}

// Sequences of one move less under a sanitizer.
constexpr int kLength = testing::kIsSanitized ? 4 : 5;
constexpr int kSequences = testing::kIsSanitized ? 20736 : 248832;
constexpr int kSequencesSlow = testing::kIsSanitized ? 28561 : 371293;
constexpr int kLengthLimited = kLength - 1;
constexpr int kSequencesLimited = testing::kIsSanitized ? 2744 : 38416;

}  // namespace stepwatch::reload
