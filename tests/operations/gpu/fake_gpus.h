// The control file of the fake NVML of a test, see fake_nvml.cc.
#pragma once

#include <filesystem>
#include <string>

#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::operations {

class FakeGpus {
 public:
  explicit FakeGpus(const std::string& text = "") { Set(text); }

  // At once: the library reads the file at each call.
  void Set(const std::string& text) {
    testing::WriteInPlace(path_ + ".new", text);
    std::filesystem::rename(path_ + ".new", path_);
  }

  static std::string Library() { return STEPWATCH_FAKE_NVML; }
  static std::string OldLibrary() { return STEPWATCH_FAKE_NVML_OLD; }

 private:
  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/control";
  testing::Variable variable_{"FAKE_NVML", path_};
};

}  // namespace stepwatch::operations
