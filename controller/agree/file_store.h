// A store in a directory of files, for jobs of a few ranks on one file system and for tests.
#pragma once

#include <memory>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/store.h"

namespace stepwatch::agree {

// stepwatch::MakeFileStore on the given file system.
std::shared_ptr<BlockingStore> MakeFileStore(const std::string& directory, base::FileSystem& files);

}  // namespace stepwatch::agree
