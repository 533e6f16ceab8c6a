// stepwatch_history.jsonl: what became of each edit of a run's config, one line for each outcome. Format:
// docs/formats/history.md.
//
// Pure text in both directions. Lines are only ever appended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

// Who sent an edit through the control socket of the monitor, by the kernel's word.
struct EditPeer {
  int64_t uid = -1;   // -1: it came over TCP, with the token
  int64_t pid = -1;   // -1: not known, for instance of a process in another namespace
  std::string exe;    // its program; empty: not known
  int64_t rank = -1;  // the rank whose control socket it came to, and which has handed it on; -1: it came to this one

  bool operator==(const EditPeer&) const = default;
};

// "uid 1000, pid 4711, /usr/bin/stepwatch"
std::string PeerText(const EditPeer& peer);

struct HistoryLine {
  std::string time;  // UTC, ISO 8601, so that lines of several runs sort as texts
  std::string run_id;
  int pid = 0;
  std::string job_id;       // of all starts of the job; empty: it has none
  std::string config_path;  // absolute
  PlanId plan_id = 0;       // 0: the edit led to no plan
  std::string outcome;  // "applied", "finished", "stopping", "stopped", "replaced", "closed", "limited", "superseded",
                        // "refused", "aborted", "not_begun", "off", "written_back"
  std::string sha256;   // of the config's bytes that the line is about
  std::string old_sha256;  // of what the file held before; empty: not known
  int64_t bytes = -1;
  int64_t owner_uid = -1;        // of the file when it was read
  std::string modified;          // when it had been saved; UTC, ISO 8601
  std::optional<EditPeer> peer;  // nothing: it was saved in the file
  bool is_volatile = false;      // the bytes were given, and the file held others
  int64_t step = -1;             // applied: the first of the plan; its end: the last one
  int64_t collected = -1;        // at its end
  TextPlace place;               // refused
  std::string message;           // refused, aborted: why
  std::optional<Ledger> ledger;  // at its end
};

// With the line feed.
std::string HistoryText(const HistoryLine& line);

struct History {
  std::vector<HistoryLine> lines;
  std::vector<std::string> notes;  // what was left out: one sentence each
  uint64_t lines_before = 0;       // older ones, which nobody has asked for
};

// A line that was cut off when the process died is left out with a note, and so is any other that is no line of a
// history. Refused if that leaves nothing of a text that is not empty.
Result<History> ReadHistory(std::string_view text_untrusted);

// The same, for lines that come one after the other.
class HistoryReader {
 public:
  // `is_cut_off`: the text ends before the line does.
  void Add(std::string_view line_untrusted, bool is_cut_off);
  // A line that is no line of a history, whatever it holds.
  void LeaveOut() { ++left_out_; }
  Result<History> Take();

 private:
  History history_;
  size_t left_out_ = 0;
  bool is_last_torn_ = false;
};

// As it stands in a line: quoted, with what JSON escapes.
std::string QuotedInHistory(std::string_view text);

// 64 hex digits in lower case.
bool IsSha256(std::string_view text);

// "2026-11-22T17:34:39.123Z"
std::string UtcText(int64_t nanoseconds_since_1970);

}  // namespace stepwatch::output
