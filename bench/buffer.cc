#include "bench/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

namespace stepwatch::bench {
namespace {

// Rounds towards zero and flushes subnormals to zero, which does not matter for a benchmark.
uint64_t SmallFloatCode(float value, int exponent_bits, int mantissa_bits) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint64_t sign = uint64_t{bits >> 31} << (exponent_bits + mantissa_bits);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + (1 << (exponent_bits - 1)) - 1;
  if (exponent <= 0) return sign;
  return sign | static_cast<uint64_t>(exponent) << mantissa_bits | (bits & 0x7fffff) >> (23 - mantissa_bits);
}

uint64_t CodeOf(DType dtype, float value) {
  switch (dtype) {
    case DType::kFloat64: return std::bit_cast<uint64_t>(static_cast<double>(value));
    case DType::kFloat32: return std::bit_cast<uint32_t>(value);
    case DType::kFloat16: return SmallFloatCode(value, 5, 10);
    case DType::kBFloat16: return SmallFloatCode(value, 8, 7);
    case DType::kFloat8E4M3: return SmallFloatCode(value, 4, 3);
    case DType::kFloat8E5M2: return SmallFloatCode(value, 5, 2);
    default: throw std::invalid_argument("no float format");
  }
}

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + std::to_string(bytes >> 20) + " MB");
  (void)::madvise(memory, bytes, MADV_NOHUGEPAGE);  // refused by kernels without huge pages
  data_ = static_cast<std::byte*>(memory);
}

Buffer::~Buffer() {
  ::munmap(data_, bytes_);
}

void Buffer::FillNormal(DType dtype) {
  // Draws one million numbers, then copies pieces of them from random places.
  constexpr size_t kPool = 1 << 20, kPiece = 1 << 14;
  const size_t size = static_cast<size_t>(ElementSize(dtype));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<std::byte> pool(kPool * size);
  for (size_t i = 0; i < kPool; ++i) {
    const uint64_t code = CodeOf(dtype, normal(random));
    std::memcpy(pool.data() + i * size, &code, size);  // little-endian
  }
  for (size_t done = 0; done < bytes_; done += kPiece * size) {
    const size_t first = random() % (kPool - kPiece);
    std::memcpy(data_ + done, pool.data() + first * size, std::min(kPiece * size, bytes_ - done));
  }
}

void Buffer::Plant(DType dtype, size_t distance, const uint64_t* codes, size_t code_count) {
  const size_t size = static_cast<size_t>(ElementSize(dtype));
  size_t planted = 0;
  for (size_t at = distance / 2; at < bytes_ / size; at += distance)
    std::memcpy(data_ + at * size, &codes[planted++ % code_count], size);
}

TensorView Buffer::View(DType dtype) const {
  return View(dtype, 0, static_cast<int64_t>(bytes_) / ElementSize(dtype));
}

TensorView Buffer::View(DType dtype, int64_t first, int64_t count) const {
  return DenseView(data_ + first * ElementSize(dtype), dtype, &count, 1);
}

SpecialCodes SpecialCodesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return {0x7ff8000000000000, 0x7ff0000000000000};
    case DType::kFloat32: return {0x7fc00000, 0x7f800000};
    case DType::kFloat16: return {0x7e00, 0x7c00};
    case DType::kBFloat16: return {0x7fc0, 0x7f80};
    case DType::kFloat8E4M3: return {0x7f, 0};
    case DType::kFloat8E5M2: return {0x7e, 0x7c};
    default: throw std::invalid_argument("no float format");
  }
}

}  // namespace stepwatch::bench
