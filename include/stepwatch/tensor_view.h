// A tensor as the monitor sees it: an address and a description, independent of any framework.
//
// The view owns no memory. The memory must stay valid and unchanged until the call that receives the view returns
// (CPU), or until the work that is on `stream` when that call returns has run (CUDA).
#pragma once

#include <array>
#include <cstdint>

namespace stepwatch {

enum class DType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,  // e4m3fn: no infinities, NaN is 0x7f and 0xff
  kFloat8E5M2,  // like IEEE: infinities and NaN
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool,
  kOther,  // complex, quantized, ...: cannot be measured
};

// Bytes per element; 0 for kOther.
int ElementSize(DType dtype);
// Text in the CSV column `dtype`, as torch prints it: "torch.float32". kOther: "torch.other".
const char* DTypeName(DType dtype);
inline bool IsIntegral(DType dtype) {
  return dtype >= DType::kInt64 && dtype <= DType::kBool;
}

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int8_t index = 0;
};

inline constexpr int kDimsMax = 8;

struct TensorView {
  const void* data = nullptr;               // the first element; may be null only if numel is 0
  int64_t numel = 0;                        // logical count, repeats of expanded dimensions included
  int ndim = 0;                             // 0 (a scalar) to kDimsMax
  std::array<int64_t, kDimsMax> sizes{};    // the first ndim are used
  std::array<int64_t, kDimsMax> strides{};  // in elements; 0 for an expanded dimension
  DType dtype = DType::kFloat32;
  Device device;
  void* stream = nullptr;  // CUDA: the stream that produced the data
};

// A dense view in row-major order. `sizes` has `ndim` entries, at most kDimsMax.
TensorView DenseView(const void* data, DType dtype, const int64_t* sizes, int ndim);

}  // namespace stepwatch
