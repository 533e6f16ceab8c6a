#include "front_ends/torch/tensor_view.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/resolve_neg.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>

#include "front_ends/shared/structure.h"

namespace stepwatch::torch_front {

using front_end::TupleText;

namespace {

const char* Problem(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return "it is sparse or has another layout that is not strided";
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda()) return "it is neither in CPU nor in CUDA memory";
  if (tensor.is_quantized()) return "it is quantized";
  if (tensor.is_complex()) return "it is complex";
  if (DTypeOf(tensor) == DType::kOther) return "its dtype is not supported";
  if (tensor.dim() > kDimsMax) return "it has more than 8 dimensions";
  if (!tensor.has_storage()) return "it has no storage of its own";
  // A released storage has no address; for one of its views torch would return the bare offset.
  if (tensor.numel() > 0 && tensor.storage().data() == nullptr) return "its storage is released";
  return nullptr;
}

// Uses c10's registry of devices, which LibTorch without CUDA also has: no header and no symbol of CUDA is needed.
void* StreamOf(at::Device device) {
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device).native_handle();
}

void SetDevice(const at::Tensor& tensor, TensorView* view) {
  const at::Device device = tensor.device();
  if (device.is_cpu()) return;
  view->device = {DeviceKind::kCuda, static_cast<int8_t>(device.index())};
  view->stream = StreamOf(device);
}

}  // namespace

DType DTypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble: return DType::kFloat64;
    case at::kFloat: return DType::kFloat32;
    case at::kHalf: return DType::kFloat16;
    case at::kBFloat16: return DType::kBFloat16;
    case at::kFloat8_e4m3fn: return DType::kFloat8E4M3;
    case at::kFloat8_e5m2: return DType::kFloat8E5M2;
    case at::kLong: return DType::kInt64;
    case at::kInt: return DType::kInt32;
    case at::kShort: return DType::kInt16;
    case at::kChar: return DType::kInt8;
    case at::kByte: return DType::kUInt8;
    case at::kBool: return DType::kBool;
    default: return DType::kOther;
  }
}

void* CurrentStream(int device) {
  return StreamOf({at::kCUDA, static_cast<c10::DeviceIndex>(device)});
}

SeenTensor See(const at::Tensor& tensor) {
  SeenTensor seen{TensorView(), at::Tensor(), Problem(tensor)};
  if (seen.problem != nullptr) {
    seen.view.dtype = DType::kOther;
    return seen;
  }
  const at::Tensor* readable = &tensor;
  if (tensor.is_neg()) {
    const at::NoGradGuard no_grad;
    seen.kept = at::resolve_neg(tensor);
    readable = &seen.kept;
  }
  seen.view.data = readable->const_data_ptr();
  seen.view.numel = readable->numel();
  seen.view.ndim = static_cast<int>(readable->dim());
  std::copy(readable->sizes().begin(), readable->sizes().end(), seen.view.sizes.begin());
  std::copy(readable->strides().begin(), readable->strides().end(), seen.view.strides.begin());
  seen.view.dtype = DTypeOf(*readable);
  SetDevice(*readable, &seen.view);
  return seen;
}

std::string DescribeTensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return kNoTensor;
  const DType dtype = DTypeOf(tensor);
  const std::string name =
      dtype == DType::kOther ? std::string("torch.") + c10::toString(tensor.scalar_type()) : DTypeName(dtype);
  return "size=" + TupleText(tensor.sizes().data(), tensor.sizes().size()) + ", dtype=" + name;
}

}  // namespace stepwatch::torch_front
