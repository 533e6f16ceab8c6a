// Appends records to a file as lines of JSON, and rotates it: `path` becomes `path.1`, and so on; the oldest goes.
//
// All methods run on the thread of `loop`; files have a thread of their own. A file that a kill left with half a line
// gets a line end first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "controller/watch/loop_mailbox.h"
#include "operations/logs/outputs/output.h"
#include "operations/logs/outputs/output_settings.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/base/retry.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations::outputs {

struct FileOutputOptions {
  OutputSettings settings;
  std::function<void(const std::string&)> log;  // trouble: once, until the file can be written again
  base::FileSystem* files = &base::FileSystem::Real();
};

class FileOutput final : public Output {
 public:
  FileOutput(boost::asio::io_context& loop, FileOutputOptions options);
  // Writes waiting records, for two seconds at most.
  ~FileOutput() override;
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;

  void Add(std::string_view id, std::string_view json) override;
  void Tick(double running) override;
  OutputCounts counts() const override;
  int64_t safe() const override { return safe_; }

 private:
  class Writer;
  struct Written;
  void Write();
  void OnWritten(Written written);

  const FileOutputOptions options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::shared_ptr<Writer> writer_;  // shared with work that hangs
  std::string pending_;
  bool is_writing_ = false;
  bool in_trouble_ = false;
  base::Retry retry_{1, 60};
  double next_ = 0;
  double running_ = 0;
  OutputCounts counts_;
  int64_t safe_ = 0;
  base::IoThread thread_{"stepwatch-logf"};
};

}  // namespace stepwatch::operations::outputs
