// stepwatch_history.jsonl: the outcomes of each edit of a run's config, one line each. Format: docs/formats/history.md.
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

// The sender of an edit through the monitor's control socket, as reported by the kernel.
struct EditPeer {
  int64_t uid = -1;   // -1: sent over TCP, with the token
  int64_t pid = -1;   // -1: unknown, for example in another pid namespace
  std::string exe;    // path of its program; empty: unknown
  int64_t rank = -1;  // the rank that received and forwarded it; -1: received by this rank

  bool operator==(const EditPeer&) const = default;
};

// "uid 1000, pid 4711, /usr/bin/stepwatch"
std::string PeerText(const EditPeer& peer);

struct HistoryLine {
  std::string time;  // UTC, ISO 8601, so that lines of several runs sort as texts
  std::string run_id;
  int pid = 0;
  std::string job_id;       // common to all starts of the job; empty: none
  std::string config_path;  // absolute
  PlanId plan_id = 0;       // 0: the edit produced no plan
  std::string outcome;  // "applied", "finished", "stopping", "stopped", "replaced", "closed", "limited", "superseded",
                        // "refused", "aborted", "not_begun", "off", "written_back"
  std::string sha256;   // of the config's bytes
  std::string old_sha256;  // of the file's previous content; empty: unknown
  int64_t bytes = -1;
  int64_t owner_uid = -1;        // of the file when it was read
  std::string modified;          // modification time of the file; UTC, ISO 8601
  std::optional<EditPeer> peer;  // nullopt: saved in the file
  bool is_volatile = false;      // applied without writing the file, which held other bytes
  int64_t step = -1;             // applied: first step of the plan; at its end: last step
  int64_t collected = -1;        // at its end
  TextPlace place;               // refused
  std::string message;           // refused, aborted: the reason
  std::optional<Ledger> ledger;  // at its end
};

// Includes the line feed.
std::string HistoryText(const HistoryLine& line);

struct History {
  std::vector<HistoryLine> lines;
  std::vector<std::string> notes;  // one sentence for each kind of omission
  uint64_t lines_before = 0;       // number of older lines that were not requested
};

// Leaves out, with a note, a last line that was cut off when the process died, and any other malformed line. Fails if
// no line of a text that is not empty is valid.
Result<History> ReadHistory(std::string_view text_untrusted);

// The same, line by line.
class HistoryReader {
 public:
  // `is_cut_off`: the text ends without a line feed.
  void Add(std::string_view line_untrusted, bool is_cut_off);
  // Counts a malformed line.
  void LeaveOut() { ++left_out_; }
  Result<History> Take();

 private:
  History history_;
  size_t left_out_ = 0;
  bool is_last_torn_ = false;
};

// `text` as a JSON string, quoted and escaped as the lines of the history are.
std::string QuotedInHistory(std::string_view text);

// 64 hex digits in lower case.
bool IsSha256(std::string_view text);

// "2026-11-22T17:34:39.123Z"
std::string UtcText(int64_t nanoseconds_since_1970);

}  // namespace stepwatch::output
