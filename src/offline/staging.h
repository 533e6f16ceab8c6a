// Results that appear only when they are complete.
#pragma once

#include <string>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// A hidden directory beside the future results, removed with its content at destruction.
class StagingDirectory {
 public:
  // Creates it inside `output`, which is created if missing, and removed again if no result is published.
  static Result<StagingDirectory> Make(const std::string& output, base::FileSystem& files = base::FileSystem::Real());
  StagingDirectory(StagingDirectory&& other) noexcept;
  StagingDirectory& operator=(StagingDirectory&&) = delete;
  ~StagingDirectory();

  const std::string& path() const { return path_; }
  // Moves path()/name to output/name; only then removes the old result.
  Status Publish(const std::string& name);

 private:
  StagingDirectory(std::string output, std::string path, bool made_output, base::FileSystem& files)
      : files_(files), output_(std::move(output)), path_(std::move(path)), made_output_(made_output) {}

  base::FileSystem& files_;
  std::string output_;
  std::string path_;  // empty: not owned
  bool made_output_ = false;
  int replaced_ = 0;
};

}  // namespace stepwatch::offline
