#include "controller/agree/file_store.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "src/base/file.h"
#include "src/base/found_file.h"
#include "stepwatch/stores.h"

namespace stepwatch {
namespace {

constexpr size_t kValueBytesMax = size_t{4} << 20;

// Keys are made of letters, digits, '-', '.' and '/': a key's file is its name with '/' as '+'.
class FileStore final : public BlockingStore {
 public:
  FileStore(std::string directory, base::FileSystem& files) : directory_(std::move(directory)), files_(files) {}

  Status Set(const std::string& key, const std::string& value) override {
    Status made = base::MakeDirectories(directory_, files_);
    if (!made.ok()) return made;
    return base::ReplaceFile(PathOf(key), value, files_);
  }

  Store::Answer Get(const std::string& key) override {
    const Result<std::string> bytes = base::ReadFound(PathOf(key), kValueBytesMax, std::nullopt, files_);
    if (bytes.ok()) return std::optional<std::string>(bytes.value());
    if (bytes.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
    return bytes.status();
  }

  // Writes the value to a file with a unique name, then links it: link(2) succeeds for one rank only.
  Store::Answer SetOnce(const std::string& key, const std::string& value) override {
    const Store::Answer standing = Get(key);
    if (!standing.ok() || standing.value()) return standing;
    const std::string own = PathOf(key) + ".own-" + std::to_string(::getpid()) + "-" +
                            std::to_string(reinterpret_cast<uintptr_t>(this)) + "-" + std::to_string(++serial_);
    const Status written = Set(base::BaseName(own), value);
    if (!written.ok()) return written;
    const int linked = files_.Link(own.c_str(), PathOf(key).c_str()) == 0 ? 0 : errno;
    files_.Unlink(own.c_str());
    if (linked != 0 && linked != EEXIST) return base::ErrnoStatus("cannot link", PathOf(key), linked);
    return Get(key);
  }

 private:
  std::string PathOf(const std::string& key) const {
    std::string name = key;
    for (char& c : name)
      if (c == '/') c = '+';
    return base::JoinPath(directory_, name);
  }

  const std::string directory_;
  base::FileSystem& files_;
  std::atomic<uint64_t> serial_{0};
};

}  // namespace

namespace agree {
std::shared_ptr<BlockingStore> MakeFileStore(const std::string& directory, base::FileSystem& files) {
  return std::make_shared<FileStore>(directory, files);
}
}  // namespace agree

std::shared_ptr<BlockingStore> MakeFileStore(const std::string& directory) {
  return agree::MakeFileStore(directory, base::FileSystem::Real());
}

}  // namespace stepwatch
