// Decisions taken from a string of bytes: what a fuzzer mutates. Beyond the end every byte is 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepwatch::test {

class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  // Little-endian, so that more bytes mean larger numbers.
  uint64_t Number(int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; ++i) number |= uint64_t{Byte()} << (8 * i);
    return number;
  }
  int64_t Below(int64_t bound, int bytes = 1) {
    return static_cast<int64_t>(Number(bytes) % static_cast<uint64_t>(bound));
  }
  bool OneIn(int64_t n) { return Below(n) == n - 1; }
  bool exhausted() const { return at_ >= size_; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace stepwatch::test
