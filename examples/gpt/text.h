// Training text: the bytes of files, and random windows of them.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

inline constexpr size_t kTextBytesMax = size_t{32} << 20;

class Text {
 public:
  // Files as they are, directories recursively (source code and prose, in the order of their names). The last tenth is
  // for evaluation.
  explicit Text(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) Add(path);
    if (bytes_.size() < 4096)
      throw std::runtime_error("only " + std::to_string(bytes_.size()) +
                               " bytes of text were found; name files or directories with --text");
    split_ = bytes_.size() / 10 * 9;
  }

  size_t size() const { return bytes_.size(); }

  // Returns `rows` windows, and the same windows one byte later.
  std::pair<torch::Tensor, torch::Tensor> Batch(int64_t rows, int64_t length, bool training,
                                                std::mt19937_64& random) const {
    const size_t begin = training ? 0 : split_;
    const size_t end = training ? split_ : bytes_.size();
    const size_t window = static_cast<size_t>(length) + 1;
    if (end - begin < window) throw std::runtime_error("the text is shorter than the context; use a smaller --context");
    std::uniform_int_distribution<size_t> start(begin, end - window);
    const torch::Tensor windows = torch::empty({rows, length + 1}, torch::kLong);
    int64_t* out = windows.data_ptr<int64_t>();
    for (int64_t row = 0; row < rows; ++row)
      out = std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(start(random)), window, out);
    return {windows.slice(1, 0, length).contiguous(), windows.slice(1, 1, length + 1).contiguous()};
  }

 private:
  void Add(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return AddFile(path);
    std::vector<std::filesystem::path> files;
    const auto options = std::filesystem::directory_options::skip_permission_denied;
    for (auto entry = std::filesystem::recursive_directory_iterator(path, options);
         entry != std::filesystem::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().filename().string();
      const bool is_directory = entry->is_directory();
      if (is_directory && (name.starts_with('.') || name.starts_with("build") || name == "site-packages")) {
        entry.disable_recursion_pending();
      } else if (!is_directory && IsText(entry->path())) {
        files.push_back(entry->path());
      }
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) AddFile(file);
  }

  void AddFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read the text " + path.string());
    std::vector<char> content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    content.resize(std::min(content.size(), kTextBytesMax - std::min(kTextBytesMax, bytes_.size())));
    bytes_.insert(bytes_.end(), content.begin(), content.end());
  }

  static bool IsText(const std::filesystem::path& path) {
    static const std::vector<std::string> kExtensions = {".py", ".h", ".cc", ".cpp", ".md", ".txt", ".json", ".cmake"};
    return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) != kExtensions.end();
  }

  std::vector<uint8_t> bytes_;
  size_t split_ = 0;
};

}  // namespace gpt
