#include "controller/writeback/in_place.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "controller/writeback/leased_file.h"

namespace stepwatch::writeback {
namespace {

using InPlaceEnd = InPlaceResult::End;

// A name or file without a status counts as unchanged: the bytes were compared.
bool LeadsElsewhere(base::FileSystem& files, const std::string& path, int fd) {
  struct stat named = {}, opened = {};
  const int error = StatusOfName(files, path, &named);
  if (error != 0) return error == ENOENT;
  return StatusOf(files, fd, &opened) == 0 && (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino);
}

// Reserves disk blocks for the additional bytes before anything changes. Where this is not supported, the write itself
// reports missing space.
int ReserveRoom(base::FileSystem& files, int fd, size_t from, size_t to) {
  if (from >= to) return 0;
  const int error = ErrnoOf([&] { return files.Reserve(fd, static_cast<off_t>(from), static_cast<off_t>(to - from)); });
  return error == ENOSPC || error == EDQUOT || error == EIO ? error : 0;
}

// Cuts off the spaces that cover the rest of a longer text, but no bytes that another program has appended.
int CutTo(base::FileSystem& files, int fd, size_t size, size_t expected_size) {
  struct stat status = {};
  if (const int error = StatusOf(files, fd, &status)) return error;
  if (static_cast<size_t>(status.st_size) != expected_size) return 0;
  return ErrnoOf([&] { return files.Truncate(fd, static_cast<off_t>(size)); });
}

int WriteOver(base::FileSystem& files, int fd, std::string_view old_text, std::string_view new_text, size_t from) {
  std::string tail(new_text.substr(from));
  if (new_text.size() < old_text.size()) tail.append(old_text.size() - new_text.size(), ' ');
  if (const int error = WriteWhole(files, fd, tail, static_cast<int64_t>(from))) return error;
  return new_text.size() < old_text.size() ? CutTo(files, fd, new_text.size(), old_text.size()) : 0;
}

// Part of our text may be in the file, and may have made it longer.
int Restore(base::FileSystem& files, int fd, std::string_view base, size_t from) {
  struct stat status = {};
  if (const int error = WriteWhole(files, fd, base.substr(from), static_cast<int64_t>(from))) return error;
  if (const int error = StatusOf(files, fd, &status)) return error;
  if (static_cast<size_t>(status.st_size) <= base.size()) return 0;
  return ErrnoOf([&] { return files.Truncate(fd, static_cast<off_t>(base.size())); });
}

InPlaceResult Undo(base::FileSystem& files, int fd, std::string_view base, size_t from, int error) {
  const bool is_undone = Restore(files, fd, base, from) == 0 || Restore(files, fd, base, from) == 0;
  return {is_undone ? InPlaceEnd::kFailed : InPlaceEnd::kDamaged, error};
}

}  // namespace

InPlaceResult WriteInPlace(base::FileSystem& files, const std::string& target, const std::string& base,
                           const std::string& ours) {
  base::UniqueFd opened;
  if (const int error = OpenFile(files, target, O_RDWR, &opened)) return {InPlaceEnd::kFailed, error};
  LeasedFile file(files, std::move(opened), F_WRLCK);
  // Other programs hold it open, but the old text is unchanged: they are idle, and later writes come after ours.
  if (file.Await(base) == Quiet::kChanged) return {InPlaceEnd::kEdited, 0};
  if (LeadsElsewhere(files, target, file.fd())) return {InPlaceEnd::kEdited, 0};
  if (const int error = ReserveRoom(files, file.fd(), base.size(), ours.size())) return {InPlaceEnd::kFailed, error};

  const auto differs = std::mismatch(base.begin(), base.end(), ours.begin(), ours.end());
  const auto from = static_cast<size_t>(differs.first - base.begin());
  const std::string_view tail = std::string_view(ours).substr(from);
  if (const int error = WriteOver(files, file.fd(), base, ours, from)) return Undo(files, file.fd(), base, from, error);
  Sync(files, file.fd());  // if the disk fails now, the next write reports it; readers see the new text already

  std::string found;
  const bool is_read = ReadWhole(files, file.fd(), &found) == 0;
  if (LeadsElsewhere(files, target, file.fd())) return {InPlaceEnd::kEdited, 0};
  if (is_read && found != ours) return {found.find(tail, from) == from ? InPlaceEnd::kMixed : InPlaceEnd::kEdited, 0};
  return {InPlaceEnd::kReplaced, 0};
}

}  // namespace stepwatch::writeback
