#include "operations/logs/file_text.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "src/base/found_file.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kBlock = size_t{64} << 10;
constexpr int kGzipWindow = 15 + 16;  // zlib: a gzip header is expected

}  // namespace

struct FileText::Stream {
  z_stream state{};
  bool is_begun = false;
  int64_t read = 0;       // of the file
  int64_t text = 0;       // the offset of the next decompressed byte
  bool is_ended = false;  // at the end of a member, and no byte follows
  std::string input = {};
  size_t input_at = 0;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (is_begun) ::inflateEnd(&state);
  }
};

FileText::FileText(base::UniqueFd fd, FileKey key, base::FileSystem& files)
    : files_(&files), fd_(std::move(fd)), key_(key) {}
FileText::FileText(FileText&&) noexcept = default;
FileText& FileText::operator=(FileText&&) noexcept = default;
FileText::~FileText() = default;

Result<FileText> FileText::Open(const std::string& path, base::FileSystem& files) {
  Result<base::UniqueFd> fd = base::OpenFound(path, O_RDONLY, std::nullopt, files);
  if (!fd.ok()) return fd.status();
  struct stat about {};
  if (files.Fstat(fd.value().get(), &about) != 0) return base::ErrnoStatus("cannot look at", path, errno);
  FileText text(std::move(fd).value(), {about.st_dev, about.st_ino}, files);
  std::string head;
  const Result<size_t> got = text.ReadSome(0, 3, &head);
  if (!got.ok()) return got.status();
  if (head == "\x1f\x8b\x08") {
    if (Status begun = text.Begin(); !begun.ok()) return begun;
  }
  return text;
}

Result<struct stat> FileText::Look() const {
  struct stat about {};
  if (files_->Fstat(fd_.get(), &about) != 0) return base::ErrnoStatus("cannot look at", "a followed file", errno);
  return about;
}

bool FileText::is_whole() const {
  return stream_ != nullptr && stream_->is_ended;
}

Result<size_t> FileText::ReadSome(int64_t offset, size_t bytes_max, std::string* out) const {
  const size_t before = out->size();
  out->resize(before + bytes_max);
  const ssize_t got = base::RepeatInterrupted(
      [&] { return files_->Read(fd_.get(), out->data() + before, bytes_max, static_cast<off_t>(offset)); });
  const int error_number = errno;
  out->resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return base::ErrnoStatus("cannot read", "a followed file", error_number);
  return static_cast<size_t>(got);
}

Status FileText::Begin() {
  auto stream = std::make_unique<Stream>();
  if (::inflateInit2(&stream->state, kGzipWindow) != Z_OK) return Status(StatusCode::kExhausted, "zlib has no memory");
  stream->is_begun = true;
  stream_ = std::move(stream);
  return Status();
}

Status FileText::Inflate(size_t bytes_max, std::string* out) {
  Stream& stream = *stream_;
  const size_t before = out->size();
  while (out->size() == before) {
    if (stream.input_at == stream.input.size()) {
      stream.input.clear();
      stream.input_at = 0;
      const Result<size_t> got = ReadSome(stream.read, kBlock, &stream.input);
      if (!got.ok()) return got.status();
      if (got.value() == 0) return Status();
      stream.read += static_cast<int64_t>(got.value());
    }
    if (std::exchange(stream.is_ended, false) && ::inflateReset(&stream.state) != Z_OK)
      return Status(StatusCode::kInvalid, "the compressed text cannot be continued");
    out->resize(before + bytes_max);
    stream.state.next_in = reinterpret_cast<Bytef*>(stream.input.data() + stream.input_at);
    stream.state.avail_in = static_cast<uInt>(stream.input.size() - stream.input_at);
    stream.state.next_out = reinterpret_cast<Bytef*>(out->data() + before);
    stream.state.avail_out = static_cast<uInt>(bytes_max);
    const int result = ::inflate(&stream.state, Z_NO_FLUSH);
    stream.input_at = stream.input.size() - stream.state.avail_in;
    out->resize(before + bytes_max - stream.state.avail_out);
    stream.is_ended = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return Status(StatusCode::kInvalid, "the compressed text is damaged");
  }
  stream.text += static_cast<int64_t>(out->size() - before);
  return Status();
}

Result<std::string> FileText::Read(int64_t offset, size_t bytes_max) {
  std::string text;
  if (!is_compressed()) {
    const Result<size_t> got = ReadSome(offset, bytes_max, &text);
    if (!got.ok()) return got.status();
    return text;
  }
  if (offset < stream_->text) {
    if (Status begun = Begin(); !begun.ok()) return begun;
  }
  while (text.size() < bytes_max) {
    const int64_t skip = offset - stream_->text;
    const size_t wanted = skip > 0 ? std::min<size_t>(static_cast<size_t>(skip), kBlock) : bytes_max - text.size();
    std::string skipped;
    std::string* out = skip > 0 ? &skipped : &text;
    const size_t before = out->size();
    if (Status status = Inflate(wanted, out); !status.ok()) return status;
    if (out->size() == before) break;
  }
  return text;
}

}  // namespace stepwatch::operations
