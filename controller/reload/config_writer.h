// Writes `dynamic_on: false` or an ordered edit into the config file, and watches the displaced files until their grace
// period is over (controller/writeback).
//
// Loop thread only. The executor that looks at the config also changes the files, in the order of the requests: a look
// requested after a write-back is answered after it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/journal/file_queue.h"
#include "controller/watch/timer.h"
#include "controller/writeback/config_edit.h"
#include "controller/writeback/displaced_file.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::reload {

class ConfigWriter {
 public:
  using Finding = writeback::DisplacedFile::Finding;
  // `fault`: Ok, or the reason why the state of the file is unknown: it is unchanged, or changed without a result.
  using Then = std::function<void(const Status& fault, const writeback::WriteBackResult& result)>;

  // `report` receives each late edit. The queue and the files must outlive the writer, and the files also any call that
  // hangs in them.
  ConfigWriter(boost::asio::io_context& loop, journal::FileQueue* file_work, base::FileSystem* files,
               std::string config_path, std::function<void(const Finding&)> report);

  // Changes the file with the functions of controller/writeback. On the executor: owns or shares all that it uses.
  using Change = std::function<writeback::WriteBackResult()>;

  // Adopts the files that a killed process left beside the config.
  void AdoptLeftovers();
  // Sets `dynamic_on` to false in the file if it still holds the text with this hash, and if `is_unchanged`, called on
  // the executor, returns that no look has found another text since. Throws, without effect, as FileQueue::Do does.
  void WriteBack(const std::string& base_sha256, std::function<bool()> is_unchanged, Then then);
  // Makes another change of the file, between looks and write-backs. Throws likewise.
  void Make(Change change, Then then);
  // True while a write-back is running.
  bool busy() const { return write_backs_ > 0; }
  // Number of watched displaced files, each with a descriptor, as of the last look.
  size_t displaced() const { return displaced_count_; }
  // Looks at the displaced files.
  void LookNow();
  // A last look, which waits for no other program; the files are then removed, or left for the next process.
  void Stop();

 private:
  // On the executor, which runs one task after the other.
  struct Displaced {
    writeback::DisplacedFiles files;
  };
  struct Looked {
    std::vector<Finding> findings;
    std::optional<writeback::DisplacedFiles::Clock::time_point> look_at;
    size_t count = 0;
  };
  static Looked LookAt(Displaced* displaced);
  static writeback::WriteBackResult MakeNow(Displaced* displaced, const std::string& path, const Change& change,
                                            base::FileSystem& files);

  void Look(std::function<Looked(Displaced*)> look) noexcept;
  void OnLooked(const Looked& looked) noexcept;
  void LookAgainAt(std::optional<writeback::DisplacedFiles::Clock::time_point> time) noexcept;

  journal::FileQueue* const file_work_;
  base::FileSystem* const files_;
  const std::string config_path_;
  const std::function<void(const Finding&)> report_;
  const std::shared_ptr<Displaced> displaced_ = std::make_shared<Displaced>();
  watch::Timer timer_;
  int write_backs_ = 0;
  size_t displaced_count_ = 0;
  bool is_stopped_ = false;
};

}  // namespace stepwatch::reload
