#include "controller/watch/path_chain.h"

#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>

#include "src/base/file.h"

namespace stepwatch::watch {
namespace {

constexpr int kLinksMax = 40;  // path_resolution(7)

// Puts the names of `path` in front of those that are still to be walked.
void PushNames(std::string_view path, std::deque<std::string>& names) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin && path.substr(begin, end - begin) != ".") parts.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  names.insert(names.begin(), parts.begin(), parts.end());
}

std::optional<std::string> LinkText(const std::string& path, base::FileSystem& files) {
  char text[PATH_MAX];
  const ssize_t length = files.ReadLink(path.c_str(), text, sizeof text);
  if (length <= 0 || length == static_cast<ssize_t>(sizeof text)) return std::nullopt;
  return std::string(text, static_cast<size_t>(length));
}

PathNode NodeOf(const std::string& path, base::FileSystem& files) {
  struct stat status = {};
  if (files.Lstat(path.c_str(), &status) != 0) return {path, 0, 0};
  return {path, static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino)};
}

class Walk {
 public:
  Walk(const std::string& path, base::FileSystem& files) : files_(files) {
    if (path.empty() || path.front() != '/') files_.CurrentDirectory(&directory_);
    PushNames(path, names_);
  }

  PathChain Run() {
    while (!names_.empty() && Step()) {
    }
    return std::move(chain_);
  }

 private:
  // Walks one name further; false at the end of the path.
  bool Step() {
    const std::string name = names_.front();
    names_.pop_front();
    if (name == "..") {
      directory_ = base::DirectoryOf(directory_);  // the directory is free of links, so this is its real parent
      return true;
    }
    const std::string here = base::JoinPath(directory_, name);
    struct stat status = {};
    if (files_.Lstat(here.c_str(), &status) != 0) return AddDirectory(), false;
    if (S_ISLNK(status.st_mode)) return AddDirectory(), FollowLink(here);
    if (!names_.empty() && S_ISDIR(status.st_mode)) {
      directory_ = here;
      return true;
    }
    AddDirectory();
    if (names_.empty())
      chain_.target = {here, static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino)};
    return false;
  }

  bool FollowLink(const std::string& link) {
    const std::optional<std::string> text = LinkText(link, files_);
    if (!text || ++links_ > kLinksMax) return false;
    if (text->front() == '/') directory_.assign(1, '/');
    PushNames(*text, names_);
    return true;
  }

  void AddDirectory() {
    const auto is_this = [&](const PathNode& node) { return node.path == directory_; };
    if (std::none_of(chain_.directories.begin(), chain_.directories.end(), is_this))
      chain_.directories.push_back(NodeOf(directory_, files_));
  }

  base::FileSystem& files_;
  std::string directory_ = "/";
  std::deque<std::string> names_;
  int links_ = 0;
  PathChain chain_;
};

}  // namespace

PathChain ResolveChain(const std::string& path, base::FileSystem& files) {
  return Walk(path, files).Run();
}

}  // namespace stepwatch::watch
