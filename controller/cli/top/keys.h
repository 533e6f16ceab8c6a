// The keys of `stepwatch top`. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/cli/top/view.h"

namespace stepwatch::cli {

enum class TopKey : uint8_t {
  kLetter,
  kEnter,
  kEscape,
  kErase,
  kTab,
  kBackTab,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
};

struct TopPress {
  TopKey key = TopKey::kLetter;
  char letter = 0;  // kLetter

  bool operator==(const TopPress&) const = default;
};

// The key presses in bytes that a terminal sent at one time. Unknown sequences are skipped.
std::vector<TopPress> PressesIn(const std::string& bytes);

enum class TopWish : uint8_t { kNone, kQuit, kNextKind, kPreviousKind };

// Applies a press to the choice. `page`: rows on a screen.
TopWish Press(const TopPress& press, const TopTable& table, size_t page, TopChoice* choice);

}  // namespace stepwatch::cli
