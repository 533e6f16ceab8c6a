#include "controller/writeback/leased_file.h"

#include <cerrno>
#include <chrono>
#include <thread>

namespace stepwatch::writeback {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLeaseRetry{1};

bool IsBusy(int error) {
  return error == EAGAIN || error == EBUSY;
}

}  // namespace

Quiet LeasedFile::Await(const std::string& expected) {
  const Clock::time_point deadline = Clock::now() + patience_;
  for (;;) {
    const int error = SetLease(files_, fd_.get(), lease_type_);
    is_leased_ = error == 0;
    std::string bytes;
    if (ReadWhole(files_, fd_.get(), &bytes) != 0 && ReadWhole(files_, fd_.get(), &bytes) != 0) return Quiet::kChanged;
    if (bytes != expected) return Quiet::kChanged;
    if (!IsBusy(error) && !IsWantedByOthers()) return Quiet::kQuiet;
    Release();
    if (Clock::now() >= deadline) return Quiet::kHeld;
    std::this_thread::sleep_for(kLeaseRetry);
  }
}

void LeasedFile::Release() {
  if (is_leased_) SetLease(files_, fd_.get(), F_UNLCK);
  is_leased_ = false;
}

base::UniqueFd LeasedFile::TakeFd() {
  Release();
  return std::move(fd_);
}

std::optional<std::string> LeasedFile::AwaitBytes() {
  const Clock::time_point deadline = Clock::now() + patience_;
  int error = 0;
  while (IsBusy(error = SetLease(files_, fd_.get(), lease_type_)) && Clock::now() < deadline)
    std::this_thread::sleep_for(kLeaseRetry);
  is_leased_ = error == 0;
  std::string bytes;
  if (ReadWhole(files_, fd_.get(), &bytes) != 0 && ReadWhole(files_, fd_.get(), &bytes) != 0) return std::nullopt;
  return bytes;
}

}  // namespace stepwatch::writeback
