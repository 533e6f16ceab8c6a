#include "controller/writeback/in_place.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "controller/writeback/leased_file.h"

namespace stepwatch::writeback {
namespace {

using End = InPlaceResult::End;

// A name or file that cannot be asked about counts as unchanged: the bytes were compared.
bool LeadsElsewhere(const FileCalls& calls, const std::string& path, int fd) {
  struct stat named = {}, opened = {};
  const int error = calls.StatusOfName(path, &named);
  if (error != 0) return error == ENOENT;
  return calls.Status(fd, &opened) == 0 && (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino);
}

// The disk block for the byte more, before anything is changed. Where it cannot be asked for, the write itself will
// tell.
int ReserveRoom(const FileCalls& calls, int fd, size_t from, size_t to) {
  if (from >= to) return 0;
  const int error = calls.Reserve(fd, static_cast<int64_t>(from), static_cast<int64_t>(to - from));
  return error == ENOSPC || error == EDQUOT || error == EIO ? error : 0;
}

InPlaceResult Undo(const FileCalls& calls, int fd, std::string_view old_tail, size_t from, int error) {
  const auto offset = static_cast<int64_t>(from);
  const bool is_undone = calls.Write(fd, old_tail, offset) == 0 || calls.Write(fd, old_tail, offset) == 0;
  return {is_undone ? End::kFailed : End::kDamaged, error};
}

}  // namespace

InPlaceResult WriteInPlace(const FileCalls& calls, const std::string& target, const std::string& base,
                           const std::string& ours, const std::function<void()>& announce) {
  base::UniqueFd opened;
  if (const int error = calls.Open(target, O_RDWR, &opened)) return {End::kFailed, error};
  LeasedFile file(calls, std::move(opened), F_WRLCK);
  // Held open by others and still the old text: they idle, and whatever they write later comes after us.
  if (file.Await(base) == Quiet::kChanged) return {End::kEdited, 0};
  if (LeadsElsewhere(calls, target, file.fd())) return {End::kEdited, 0};
  if (const int error = ReserveRoom(calls, file.fd(), base.size(), ours.size())) return {End::kFailed, error};

  const auto differs = std::mismatch(base.begin(), base.end(), ours.begin(), ours.end());
  const auto from = static_cast<size_t>(differs.first - base.begin());
  const std::string_view tail = std::string_view(ours).substr(from);
  announce();
  if (const int error = calls.Write(file.fd(), tail, static_cast<int64_t>(from)))
    return Undo(calls, file.fd(), std::string_view(base).substr(from), from, error);
  calls.Sync(file.fd());  // a disk that fails now fails whoever writes next; the text is in the file for all to read

  std::string found;
  const bool is_read = calls.Read(file.fd(), &found) == 0;
  if (LeadsElsewhere(calls, target, file.fd())) return {End::kEdited, 0};
  if (is_read && found != ours) return {found.find(tail, from) == from ? End::kMixed : End::kEdited, 0};
  return {End::kReplaced, 0};
}

}  // namespace stepwatch::writeback
