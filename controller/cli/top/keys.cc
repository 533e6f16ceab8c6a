#include "controller/cli/top/keys.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace stepwatch::cli {
namespace {

constexpr size_t kFilterMax = 100;

// The sequences that terminals send, in both of their modes.
constexpr std::pair<std::string_view, TopKey> kSequences[] = {
    {"\x1b[A", TopKey::kUp},      {"\x1bOA", TopKey::kUp},        {"\x1b[B", TopKey::kDown}, {"\x1bOB", TopKey::kDown},
    {"\x1b[C", TopKey::kRight},   {"\x1bOC", TopKey::kRight},     {"\x1b[D", TopKey::kLeft}, {"\x1bOD", TopKey::kLeft},
    {"\x1b[5~", TopKey::kPageUp}, {"\x1b[6~", TopKey::kPageDown}, {"\x1b[H", TopKey::kHome}, {"\x1bOH", TopKey::kHome},
    {"\x1b[1~", TopKey::kHome},   {"\x1b[F", TopKey::kEnd},       {"\x1bOF", TopKey::kEnd},  {"\x1b[4~", TopKey::kEnd},
    {"\x1b[Z", TopKey::kBackTab},
};

// The escape key sends the byte that begins all sequences.
bool BeginsSequence(std::string_view bytes) {
  return bytes.size() > 1 && bytes[0] == '\x1b' && (bytes[1] == '[' || bytes[1] == 'O');
}

// Length of an unknown sequence at the beginning.
size_t LengthOfUnknown(std::string_view bytes) {
  size_t end = 2;
  while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
  return std::min(end + 1, bytes.size());
}

void Scroll(size_t rows, size_t page, int64_t by, TopChoice* choice) {
  const auto last = static_cast<int64_t>(rows > page ? rows - page : 0);
  const int64_t first = std::min<int64_t>(static_cast<int64_t>(choice->first), last) + by;
  choice->first = static_cast<size_t>(std::clamp<int64_t>(first, 0, last));
}

// The neighbour in the list of the plan's order and the statistics, as a ring.
void MoveSort(const std::vector<std::string>& columns, bool forwards, TopChoice* choice) {
  const auto found = std::find(columns.begin(), columns.end(), choice->sort);
  const size_t place = found == columns.end() ? 0 : static_cast<size_t>(found - columns.begin()) + 1;
  const size_t ring = columns.size() + 1;
  const size_t next = (place + (forwards ? 1 : ring - 1)) % ring;
  choice->sort = next == 0 ? "" : columns[next - 1];
  choice->first = 0;
}

void Type(const TopPress& press, TopChoice* choice) {
  choice->first = 0;
  switch (press.key) {
    case TopKey::kEnter: choice->is_typing = false; break;
    case TopKey::kEscape:
      choice->is_typing = false;
      choice->filter.clear();
      break;
    case TopKey::kErase:
      if (!choice->filter.empty()) choice->filter.pop_back();
      break;
    case TopKey::kLetter:
      if (choice->filter.size() < kFilterMax) choice->filter += press.letter;
      break;
    default: break;
  }
}

TopWish PressLetter(char letter, const TopTable& table, TopChoice* choice) {
  switch (letter) {
    case 'q': return TopWish::kQuit;
    case 'k': return TopWish::kNextKind;
    case 'K': return TopWish::kPreviousKind;
    case '>': MoveSort(table.columns, true, choice); break;
    case '<': MoveSort(table.columns, false, choice); break;
    case 'r': choice->ascending = !choice->ascending; break;
    case '/':
      choice->is_typing = true;
      choice->filter.clear();
      choice->first = 0;
      break;
    default: break;
  }
  return TopWish::kNone;
}

}  // namespace

std::vector<TopPress> PressesIn(const std::string& bytes) {
  std::vector<TopPress> presses;
  std::string_view left = bytes;
  while (!left.empty()) {
    size_t taken = 1;
    if (BeginsSequence(left)) {
      const auto* known = std::find_if(std::begin(kSequences), std::end(kSequences),
                                       [&](const auto& sequence) { return left.starts_with(sequence.first); });
      taken = known == std::end(kSequences) ? LengthOfUnknown(left) : known->first.size();
      if (known != std::end(kSequences)) presses.push_back({known->second});
    } else if (left[0] == '\x1b') {
      presses.push_back({TopKey::kEscape});
    } else if (left[0] == '\r' || left[0] == '\n') {
      presses.push_back({TopKey::kEnter});
    } else if (left[0] == '\t') {
      presses.push_back({TopKey::kTab});
    } else if (left[0] == '\x7f' || left[0] == '\b') {
      presses.push_back({TopKey::kErase});
    } else if (left[0] >= ' ' && left[0] < '\x7f') {
      presses.push_back({TopKey::kLetter, left[0]});
    }
    left.remove_prefix(taken);
  }
  return presses;
}

TopWish Press(const TopPress& press, const TopTable& table, size_t page, TopChoice* choice) {
  if (choice->is_typing) {
    Type(press, choice);
    return TopWish::kNone;
  }
  const size_t rows = ChosenRows(table, *choice).size();
  const auto of_page = static_cast<int64_t>(page);
  switch (press.key) {
    case TopKey::kLetter: return PressLetter(press.letter, table, choice);
    case TopKey::kTab: return TopWish::kNextKind;
    case TopKey::kBackTab: return TopWish::kPreviousKind;
    case TopKey::kEscape: choice->filter.clear(); break;
    case TopKey::kRight: MoveSort(table.columns, true, choice); break;
    case TopKey::kLeft: MoveSort(table.columns, false, choice); break;
    case TopKey::kUp: Scroll(rows, page, -1, choice); break;
    case TopKey::kDown: Scroll(rows, page, 1, choice); break;
    case TopKey::kPageUp: Scroll(rows, page, -of_page, choice); break;
    case TopKey::kPageDown: Scroll(rows, page, of_page, choice); break;
    case TopKey::kHome: choice->first = 0; break;
    case TopKey::kEnd: Scroll(rows, page, static_cast<int64_t>(rows), choice); break;
    case TopKey::kEnter:
    case TopKey::kErase: break;
  }
  return TopWish::kNone;
}

}  // namespace stepwatch::cli
