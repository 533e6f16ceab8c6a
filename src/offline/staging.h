// Results that appear only when they are whole.
#pragma once

#include <string>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// A hidden directory beside the results to come, removed with everything in it when this object goes.
class StagingDirectory {
 public:
  // Inside `output`, which is made if it is missing; then, if nothing is published, it is removed again.
  static Result<StagingDirectory> Make(const std::string& output, base::FileSystem& files = base::FileSystem::Real());
  StagingDirectory(StagingDirectory&& other) noexcept;
  StagingDirectory& operator=(StagingDirectory&&) = delete;
  ~StagingDirectory();

  const std::string& path() const { return path_; }
  // Moves path()/name to output/name; what was there goes only then.
  Status Publish(const std::string& name);

 private:
  StagingDirectory(std::string output, std::string path, bool made_output, base::FileSystem& files)
      : files_(files), output_(std::move(output)), path_(std::move(path)), made_output_(made_output) {}

  base::FileSystem& files_;
  std::string output_;
  std::string path_;  // empty: not ours to remove
  bool made_output_ = false;
  int replaced_ = 0;
};

}  // namespace stepwatch::offline
