// Writes numbered lines to a log file and rotates it in every way, for tests of followers.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <deque>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/temporary_directory.h"

namespace stepwatch::testing {

class LogRotator {
 public:
  LogRotator(std::string path, uint64_t seed, size_t line_bytes_max)
      : path_(std::move(path)), dice_(seed), line_bytes_max_(line_bytes_max) {
    Reopen();
  }
  ~LogRotator() { ::close(fd_); }
  LogRotator(const LogRotator&) = delete;
  LogRotator& operator=(const LogRotator&) = delete;

  // The time that files get as their last change; 0: the real one.
  double now = 0;
  // Some lines end as those of a progress bar do. The last one of a file waits until the file is known to have ended.
  bool has_returns = true;

  uint64_t Dice(uint64_t sides) { return std::uniform_int_distribution<uint64_t>(0, sides - 1)(dice_); }

  void WriteLines(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      EndLine();
      std::string line = "line " + std::to_string(written_.size()) + " of " + path_ + ": ";
      const uint64_t size = Dice(20) == 0 ? Dice(3 * line_bytes_max_) : Dice(40);
      // Any bytes, of which most are not UTF-8.
      while (line.size() < size) line += static_cast<char>(Dice(2) == 0 ? 'a' + Dice(26) : 0x80 + Dice(0x80));
      written_.push_back(line.substr(0, line_bytes_max_));
      static constexpr const char* kEnds[] = {"\n", "\n", "\n", "\r\n", "\r"};
      line += kEnds[Dice(has_returns ? 5 : 4)];
      const size_t first = Dice(4) == 0 ? Dice(line.size()) : line.size();
      Put(line.substr(0, first));
      unwritten_ = line.substr(first);
    }
  }
  // Ends all that is begun. A carriage return at the end may be followed by a line feed, and is not the end of a line.
  void Finish() {
    if (is_renamed_) Reopen();
    if (is_copying()) EndCopy();
    EndLine();
    written_.push_back("end " + std::to_string(written_.size()));
    Put(written_.back() + "\n");
  }
  void EndLine() { Put(std::exchange(unwritten_, "")); }
  // A writer that has not reopened its file writes on to the old one.
  void Rename() {
    EndLine();
    const std::string name = NextName();
    std::filesystem::rename(path_, name);
    old_.push_back(name);
    is_renamed_ = true;
  }
  void Reopen() {
    EndLine();
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) throw std::runtime_error("cannot open " + path_);
    is_renamed_ = false;
  }
  void BeginCopy() {
    if (is_renamed_) Reopen();
    EndLine();
    copy_ = NextName();
    const std::string bytes = Contents(path_);
    WriteInPlace(copy_, bytes.substr(0, bytes.size() / 2));
    Touch(copy_);
  }
  void EndCopy() {
    EndLine();
    WriteInPlace(copy_, Contents(path_));
    Touch(copy_);
    if (::ftruncate(fd_, 0) != 0) throw std::runtime_error("cannot truncate " + path_);
    Touch(path_);
    old_.push_back(copy_);
    copy_.clear();
  }
  bool is_copying() const { return !copy_.empty(); }
  // Compresses the oldest rotated file that is not compressed, and has no writer.
  void Compress() {
    for (std::string& name : old_) {
      if (name.ends_with(".gz") || (is_renamed_ && &name == &old_.back())) continue;
      const std::string bytes = Contents(name);
      const gzFile file = ::gzopen((name + ".gz").c_str(), "wb");
      ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
      ::gzclose(file);
      Touch(name + ".gz");
      std::filesystem::remove(name);
      name += ".gz";
      return;
    }
  }
  void RemoveOldest() {
    if (old_.empty() || (is_renamed_ && old_.size() == 1)) return;
    std::filesystem::remove(old_.front());
    old_.pop_front();
  }

  // As a follower passes them on: without the rest of lines that are too long.
  const std::vector<std::string>& written() const { return written_; }
  bool is_renamed() const { return is_renamed_; }

 private:
  std::string NextName() { return path_ + "." + std::to_string(++rotations_); }
  void Put(const std::string& bytes) {
    if (bytes.empty()) return;
    if (::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("cannot write " + path_);
    if (now > 0) Touch("");
  }
  // An empty path: the file that is written to.
  void Touch(const std::string& path) const {
    if (now <= 0) return;
    const timespec time{static_cast<time_t>(now),
                        static_cast<long>((now - static_cast<double>(static_cast<time_t>(now))) * 1e9)};
    const timespec times[2] = {time, time};
    (void)(path.empty() ? ::futimens(fd_, times) : ::utimensat(AT_FDCWD, path.c_str(), times, 0));
  }

  const std::string path_;
  std::mt19937_64 dice_;
  const size_t line_bytes_max_;
  int fd_ = -1;
  bool is_renamed_ = false;
  std::string unwritten_;
  std::string copy_;
  std::deque<std::string> old_;
  int rotations_ = 0;
  std::vector<std::string> written_;
};

}  // namespace stepwatch::testing
