#include "src/offline/csv_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "src/base/found_file.h"

namespace stepwatch::offline {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
// Longer than any row; exceeded by a quote that is never closed.
constexpr size_t kRowBytesMax = size_t{64} << 20;

bool EndsInsideQuotes(std::string_view text, bool inside) {
  return (std::count(text.begin(), text.end(), '"') % 2 == 1) != inside;
}

}  // namespace

Result<CsvReader> CsvReader::Open(const std::string& path, base::FileSystem& files) {
  Result<base::UniqueFd> fd = base::OpenFound(path, O_RDONLY, std::nullopt, files);
  if (!fd.ok()) return fd.status();
  return CsvReader(path, std::move(fd).value(), files);
}

Result<bool> CsvReader::Next(std::vector<std::string_view>* cells) {
  std::string_view text;
  Result<bool> got = NextText(&text);
  if (!got.ok() || !got.value()) return got;
  Split(text, cells);
  return true;
}

Result<bool> CsvReader::NextText(std::string_view* text) {
  line_ = lines_before_ + 1;
  int64_t lines = 0;
  bool inside_quotes = false;
  for (size_t scanned = begin_;;) {
    const size_t newline = buffer_.find('\n', scanned);
    if (newline == std::string::npos) {
      if (buffer_.size() - begin_ > kRowBytesMax)
        return Status(StatusCode::kInvalid, path_ + ", line " + std::to_string(line_) +
                                                ": the row has more than 64 MiB; is a quote not closed?");
      const size_t offset = scanned - begin_;
      const Result<bool> filled = Fill();
      if (!filled.ok()) return filled.status();
      if (!filled.value()) {
        ends_inside_row_ = begin_ < buffer_.size();
        return false;
      }
      scanned = begin_ + offset;
      continue;
    }
    ++lines;
    inside_quotes = EndsInsideQuotes(std::string_view(buffer_).substr(scanned, newline - scanned), inside_quotes);
    scanned = newline + 1;
    if (inside_quotes) continue;
    *text = std::string_view(buffer_).substr(begin_, newline - begin_);
    if (!text->empty() && text->back() == '\r') text->remove_suffix(1);
    if (line_ == 1 && text->substr(0, 3) == "\xef\xbb\xbf") text->remove_prefix(3);
    begin_ = scanned;
    lines_before_ += lines;
    return true;
  }
}

// Returns false at the end of the file.
Result<bool> CsvReader::Fill() {
  if (at_end_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t kept = buffer_.size();
  buffer_.resize(kept + kBlockBytes);
  const ssize_t got = base::RepeatInterrupted(
      [&] { return files_->Read(fd_.get(), buffer_.data() + kept, kBlockBytes, static_cast<off_t>(bytes_read_)); });
  const int error_number = errno;
  buffer_.resize(kept + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return base::ErrnoStatus("cannot read", path_, error_number);
  bytes_read_ += static_cast<uint64_t>(got);
  at_end_ = got == 0;
  return got > 0;
}

void CsvReader::Split(std::string_view text, std::vector<std::string_view>* cells) {
  cells->clear();
  unquoted_.clear();
  unquoted_.reserve(text.size());  // keeps views into it valid
  for (size_t at = 0;;) {
    if (at == text.size() || text[at] != '"') {
      const size_t comma = std::min(text.find(',', at), text.size());
      cells->push_back(text.substr(at, comma - at));
      at = comma;
    } else {
      const size_t start = unquoted_.size();
      for (++at; at < text.size(); ++at) {
        if (text[at] == '"' && !(at + 1 < text.size() && text[at + 1] == '"')) break;
        if (text[at] == '"') ++at;
        unquoted_ += text[at];
      }
      at = std::min(at + 1, text.size());
      // Text after the closing quote, which is invalid, is added to the cell: the row is then malformed, not lost.
      for (; at < text.size() && text[at] != ','; ++at) unquoted_ += text[at];
      cells->push_back(std::string_view(unquoted_).substr(start));
    }
    if (at == text.size()) return;
    ++at;
  }
}

}  // namespace stepwatch::offline
