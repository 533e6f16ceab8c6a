#include "src/output/run_storage.h"

#include <utility>

namespace stepwatch::output {

Result<std::unique_ptr<RunStorage>> RunStorage::Open(const Limits& limits, const std::string& base,
                                                     base::FileSystem& files) {
  std::unique_ptr<RunStorage> storage(new RunStorage(files));
  if (!limits.output_root.empty()) {
    auto confined = base::ConfinedFiles::Open(limits.output_root, files);
    if (!confined.ok())
      return Status(confined.status().code(),
                    "the output root " + limits.output_root + " cannot be used: " + confined.status().message());
    storage->confined_ = std::move(confined).value();
    storage->root_files_ = storage->confined_.get();
    storage->refusal_ = storage->confined_->Check(base);
  }
  if (limits.bytes_max > 0) {
    storage->meter_.emplace(limits.bytes_max);
    storage->row_files_.emplace(&*storage->meter_, true, *storage->root_files_);
    storage->note_files_.emplace(&*storage->meter_, false, *storage->root_files_);
  }
  return storage;
}

void RunStorage::OnLevel(std::function<bool()> on_level) {
  if (meter_) meter_->OnLevel(std::move(on_level));
}

}  // namespace stepwatch::output
