// Writes the results of each edit and each plan to stepwatch_history.jsonl (src/output/history.h).
//
// Loop thread only; the files are touched on the executor, in the order of the calls here. In a job of ranks, rank 0
// alone writes. Lines wait in memory until the run has a directory. A failed write is reported once and retried. No
// call here fails: if there is no memory for a line, the history has a gap.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controller/journal/file_queue.h"
#include "controller/watch/file_snapshot.h"
#include "controller/watch/timer.h"
#include "src/base/file_system.h"
#include "src/output/history.h"
#include "src/step/record_ring.h"
#include "stepwatch/event.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::journal {

class EditHistory {
 public:
  using Emit = std::function<void(EventKind, std::string)>;

  // `file_work` and `files` must outlive the history, and `files` also any call that hangs in it.
  EditHistory(const Options& options, boost::asio::io_context& loop, FileQueue* file_work, base::FileSystem* files,
              Emit emit);

  // All lines so far, and all later ones, are written there.
  void SetDirectory(const std::string& directory) noexcept;
  // Only before the directory is fixed; later calls have no effect.
  void SetRunId(const std::string& run_id) noexcept;

  // This peer has sent these bytes through the control socket: if the next bytes seen are these, they are the peer's.
  void Expect(const std::string& sha256, const output::EditPeer& peer) noexcept;
  // The file holds new bytes. `old_sha256`: the previous ones.
  void Seen(const watch::FileSnapshot& snapshot, const std::string& old_sha256) noexcept;
  // The sender of the bytes that were seen last; nullopt: they were saved in the file.
  const std::optional<output::EditPeer>& seen_peer() const { return seen_.peer; }
  // A client overrides the file with new bytes. `is_override`: the file holds others.
  void Overridden(const std::string& sha256, const std::string& text, const std::string& old_sha256,
                  const std::optional<output::EditPeer>& peer, bool is_override) noexcept;
  // The bytes that were seen last begin again, at the request of this peer.
  void BegunAgain(const output::EditPeer& peer) noexcept;
  // They do not begin: an earlier start of the job has done their window, up to this step.
  void NotBegun(const std::string& sha256, int64_t step, const std::string& message) noexcept;
  // The bytes that were seen last request no plan, and no plan ran.
  void Off(const std::string& sha256) noexcept;
  // The write-back at a window's end has replaced these bytes by `sha256`.
  void WroteBack(PlanId plan_id, const std::string& base_sha256, const std::string& sha256) noexcept;
  // The bytes that were seen last are refused, here or by a rank of the job.
  void Refused(const std::string& sha256, const TextPlace& place, const std::string& message) noexcept;
  // The ranks did not agree on them. Recorded once for each edit, since it is proposed repeatedly.
  void Aborted(PlanId plan_id, const std::string& message) noexcept;
  // They end the window of this plan; 0: a plan that is not known to have begun.
  void Stopping(PlanId plan_id, const std::string& sha256) noexcept;

  // A plan of these bytes waits for its step.
  void Armed(PlanId plan_id, const std::string& sha256, const std::string& text) noexcept;
  // A newer change replaced an armed plan, or the edit before the last one, on which the ranks had not agreed.
  void Superseded(PlanId plan_id) noexcept;
  void Applied(PlanId plan_id, int64_t first_step) noexcept;
  void Finished(PlanId plan_id, int64_t last_step) noexcept;
  // All its rows are accounted for.
  void Ended(PlanId plan_id, step::EndReason reason, int64_t collected, const Ledger& ledger) noexcept;

  // The config file named in the lines.
  const std::string& config_path() const { return config_path_; }

  // Failed writes are no longer retried.
  void Stop() noexcept;

 private:
  struct Waiting;
  // The origin of bytes.
  struct Edit {
    std::string sha256;
    std::string old_sha256;
    std::shared_ptr<const std::string> text;  // null: unknown, or kept already
    int64_t bytes = -1;
    int64_t owner_uid = -1;
    std::string modified;
    std::optional<output::EditPeer> peer;
    bool is_override = false;
  };
  struct Plan {
    Edit edit;
    int64_t last_step = -1;
  };

  Edit EditOf(const std::string& sha256) const;
  void Add(const Edit& edit, output::HistoryLine line);
  void Write();
  void OnWritten(const Status& status);
  void ReportHealth(const Status& status);
  void WriteLater();

  const bool writes_;
  FileQueue* const file_work_;
  base::FileSystem* const files_;
  const Emit emit_;
  const std::string job_id_;
  std::string config_path_;
  std::string run_id_;
  std::string directory_;  // empty: not fixed
  Edit seen_;              // the newest
  Edit before_;            // the previous one
  std::string expected_;   // the hash of the bytes that a peer has sent and no look has found; empty: none
  output::EditPeer expected_peer_;
  std::string reported_abort_;    // the hash of the edit whose abort is recorded
  std::map<PlanId, Plan> plans_;  // armed and not over
  std::shared_ptr<Waiting> waiting_;
  watch::Timer retry_timer_;
  bool is_stopped_ = false;
  bool is_failing_ = false;
};

}  // namespace stepwatch::journal
