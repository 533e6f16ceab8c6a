#include "front_ends/python/native/tensor_reader.h"

#include <algorithm>
#include <string>

#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// The parts of DLPack 1.x (dlpack.h) that are read here; its ABI fixes the layouts.
namespace {

struct DlDevice {
  int32_t type;
  int32_t id;
};
struct DlDType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
enum DlDeviceType : int32_t { kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlCudaManaged = 13 };
enum DlTypeCode : uint8_t {
  kDlInt = 0,
  kDlUInt = 1,
  kDlFloat = 2,
  kDlBfloat = 4,
  kDlBool = 6,
  kDlE4M3Fn = 10,
  kDlE5M2 = 12
};

struct TableHeader {
  uint32_t major;
  uint32_t minor;
  TableHeader* previous;
};

DType DTypeOfCode(const DlDType& dtype) {
  if (dtype.lanes != 1) return DType::kOther;
  const int bits = dtype.bits;
  switch (dtype.code) {
    case kDlFloat:
      return bits == 32 ? DType::kFloat32 : bits == 64 ? DType::kFloat64 : bits == 16 ? DType::kFloat16 : DType::kOther;
    case kDlBfloat: return bits == 16 ? DType::kBFloat16 : DType::kOther;
    case kDlE4M3Fn: return DType::kFloat8E4M3;
    case kDlE5M2: return DType::kFloat8E5M2;
    case kDlInt:
      return bits == 64   ? DType::kInt64
             : bits == 32 ? DType::kInt32
             : bits == 16 ? DType::kInt16
             : bits == 8  ? DType::kInt8
                          : DType::kOther;
    case kDlUInt: return bits == 8 ? DType::kUInt8 : DType::kOther;
    case kDlBool: return bits == 8 ? DType::kBool : DType::kOther;
    default: return DType::kOther;
  }
}

constexpr const char* kDTypeNames[] = {"float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
                                       "int64",   "int32",   "int16",   "int8",     "uint8",         "bool"};
constexpr const char* kNoMemory = "it has no memory of its own (a fake tensor, a wrapper, or its storage is released)";
constexpr const char* kNotReadable = "it is sparse, quantized, or of a kind without plain memory";

SeenTensor Unmeasurable(const char* problem) {
  SeenTensor seen;
  seen.problem = problem;
  seen.view.dtype = DType::kOther;
  return seen;
}

// Sets numel; false if the shape has too many dimensions.
bool SetShape(int ndim, TensorView* view) {
  if (ndim < 0 || ndim > kDimsMax) return false;
  view->ndim = ndim;
  view->numel = 1;
  for (int i = 0; i < ndim; ++i) view->numel *= view->sizes[static_cast<size_t>(i)];
  return true;
}

const char* ProblemOf(const TensorView& view) {
  if (view.dtype == DType::kOther) return "its dtype is not supported";
  if (view.numel > 0 && view.data == nullptr && !IsElsewhere(view)) return kNoMemory;
  return nullptr;
}

// If the storage has no memory (of a fake tensor, of a wrapper such as DTensor, released) torch returns the bare offset
// as the address: no error, and not null. The memory of small programs begins below the largest offset, so an address
// is checked only below this bound, and then compared.
constexpr uintptr_t kOffsetsBelow = uintptr_t{1} << 40;

void ClearBareOffset(PyObject* tensor, TensorView* view) {
  const auto address = reinterpret_cast<uintptr_t>(view->data);
  if (address == 0 || address >= kOffsetsBelow) return;
  const Ref elements = CallMethod(tensor, "storage_offset");
  const long long offset = elements ? PyLong_AsLongLong(elements.ptr()) : 0;
  const bool known = elements && PyErr_Occurred() == nullptr;
  ClearError();
  if (!known || static_cast<uintptr_t>(offset) * static_cast<uintptr_t>(ElementSize(view->dtype)) == address)
    view->data = nullptr;
}

SeenTensor Checked(SeenTensor seen) {
  const char* problem = ProblemOf(seen.view);
  return problem == nullptr ? seen : Unmeasurable(problem);
}

}  // namespace

struct ExchangeTable {
  TableHeader header;
  void* managed_tensor_allocator;
  void* managed_tensor_from_py_object_no_sync;
  void* managed_tensor_to_py_object_no_sync;
  int (*tensor_from_py_object_no_sync)(void* object, DlTensor* out);
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** out);
};

TensorReader::TensorReader(PyObject* torch) : torch_(torch) {
  Py_INCREF(torch_);
  tensor_type_ = Attribute(torch_, "Tensor").release().ptr();
  strided_ = Attribute(torch_, "strided").release().ptr();
  if (const Ref nn = Attribute(torch_, "nn")) parameter_type_ = Attribute(nn.ptr(), "Parameter");
  for (size_t i = 0; i < std::size(dtypes_); ++i) dtypes_[i] = Attribute(torch_, kDTypeNames[i]).release().ptr();
}

TensorReader::~TensorReader() {
  for (const KnownType& known : known_) Py_XDECREF(reinterpret_cast<PyObject*>(known.type));
  for (PyObject* dtype : dtypes_) Py_XDECREF(dtype);
  Py_XDECREF(strided_);
  Py_XDECREF(tensor_type_);
  Py_DECREF(torch_);
}

bool TensorReader::IsTensor(PyObject* object) const {
  // isinstance is slow here: torch overrides it in Python for its parameters.
  return PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(tensor_type_)) != 0;
}

// Subclasses inherit the table, so one entry per type is correct.
const ExchangeTable* TensorReader::TableOf(PyObject* tensor) {
  PyTypeObject* const type = Py_TYPE(tensor);
  for (const KnownType& known : known_)
    if (known.type == type) return known.table;
  const Ref capsule = Attribute(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  auto* header =
      capsule ? static_cast<TableHeader*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api")) : nullptr;
  if (PyErr_Occurred() != nullptr) ClearError();
  while (header != nullptr && header->major != 1) header = header->previous;
  const auto* table = reinterpret_cast<const ExchangeTable*>(header);
  if (table != nullptr && table->tensor_from_py_object_no_sync == nullptr) table = nullptr;
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  Py_XDECREF(reinterpret_cast<PyObject*>(known_[1].type));
  known_[1] = std::exchange(known_[0], {type, table});
  return table;
}

bool TensorReader::ReadTable(const ExchangeTable& table, PyObject* tensor, SeenTensor* seen) const {
  DlTensor raw{};
  if (table.tensor_from_py_object_no_sync(tensor, &raw) != 0) {
    ClearError();
    return false;
  }
  TensorView& view = seen->view;
  if (raw.ndim > kDimsMax) {
    seen->problem = "it has more than 8 dimensions";
    view.dtype = DType::kOther;
    return true;
  }
  std::copy_n(raw.shape, raw.ndim, view.sizes.begin());
  (void)SetShape(raw.ndim, &view);
  if (raw.strides != nullptr) {
    std::copy_n(raw.strides, raw.ndim, view.strides.begin());
  } else {
    view.strides = DenseView(nullptr, DType::kUInt8, view.sizes.data(), raw.ndim).strides;
  }
  view.data = raw.data == nullptr ? nullptr : static_cast<const char*>(raw.data) + raw.byte_offset;
  view.dtype = DTypeOfCode(raw.dtype);
  const int32_t device = raw.device.type;
  if (device == kDlCuda || device == kDlCudaManaged) {
    view.device = {DeviceKind::kCuda, static_cast<int8_t>(raw.device.id)};
    if (table.current_work_stream(kDlCuda, raw.device.id, &view.stream) != 0) {
      ClearError();
      return false;
    }
  } else if (device != kDlCpu && device != kDlCudaHost) {
    return false;
  }
  return true;
}

SeenTensor TensorReader::Read(PyObject* tensor) {
  const ExchangeTable* const table = TableOf(tensor);
  if (table == nullptr) return ReadAttributes(tensor);
  SeenTensor seen;
  if (!ReadTable(*table, tensor, &seen)) return ReadElsewhere(tensor);
  if (seen.problem != nullptr) return seen;
  ClearBareOffset(tensor, &seen.view);
  if (seen.view.data == nullptr && seen.view.numel > 0)
    if (const Ref inside = Inside(tensor)) return Read(inside.ptr());
  return Checked(seen);
}

// The tensor that holds the memory of one without memory of its own, or an empty reference.
Ref TensorReader::Inside(PyObject* tensor) const {
  const auto is_inside = [&](const Ref& other) {
    return other && Py_TYPE(other.ptr()) != Py_TYPE(tensor) && IsTensor(other.ptr());
  };
  if (Ref local = Attribute(tensor, local_tensor_); is_inside(local)) return local;  // of a DTensor
  Ref elem = Attribute(tensor, elem_);                                               // of an AsyncCollectiveTensor
  if (!is_inside(elem)) return {};
  // On a device the stream waits, not this thread.
  return CallMethod(tensor, "trigger_wait") ? elem : Ref();
}

DType TensorReader::DTypeOf(PyObject* dtype) const {
  for (size_t i = 0; i < std::size(dtypes_); ++i)
    if (dtypes_[i] == dtype) return static_cast<DType>(i);
  return DType::kOther;
}

namespace {

bool CopyIntegers(const Ref& sequence, std::array<int64_t, kDimsMax>* out, int* count) {
  if (!sequence) return false;
  const Py_ssize_t size = PySequence_Size(sequence.ptr());
  if (size < 0 || size > kDimsMax) {
    ClearError();
    return false;
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref item(PySequence_GetItem(sequence.ptr(), i));
    const long long value = item ? PyLong_AsLongLong(item.ptr()) : -1;
    if (PyErr_Occurred() != nullptr) {
      ClearError();
      return false;
    }
    (*out)[static_cast<size_t>(i)] = value;
  }
  *count = static_cast<int>(size);
  return true;
}

// torch calls the devices of ROCm "cuda".
bool IsHip(PyObject* torch) {
  const Ref version = Attribute(torch, "version");
  const Ref hip = version ? Attribute(version.ptr(), "hip") : Ref();
  return hip && hip.ptr() != Py_None;
}

// Returns false if the memory belongs neither to the CPU nor to CUDA, or the stream of a CUDA device cannot be found.
bool SetDevice(PyObject* torch, PyObject* tensor, TensorView* view) {
  if (IsTrue(Attribute(tensor, "is_cpu"))) return true;
  if (!IsTrue(Attribute(tensor, "is_cuda")) || IsHip(torch)) return false;
  const Ref device = Attribute(tensor, "device");
  const Ref index = device ? Attribute(device.ptr(), "index") : Ref();
  const Ref cuda = Attribute(torch, "cuda");
  const Ref stream(cuda ? PyObject_CallMethod(cuda.ptr(), "current_stream", "O", device.ptr()) : nullptr);
  const Ref handle = stream ? Attribute(stream.ptr(), "cuda_stream") : Ref();
  if (!index || !handle) {
    ClearError();
    return false;
  }
  view->device = {DeviceKind::kCuda, static_cast<int8_t>(PyLong_AsLong(index.ptr()))};
  view->stream = PyLong_AsVoidPtr(handle.ptr());
  const bool good = PyErr_Occurred() == nullptr;
  ClearError();
  return good;
}

}  // namespace

SeenTensor TensorReader::ReadAttributes(PyObject* tensor) {
  if (const Ref inside = Inside(tensor)) return ReadAttributes(inside.ptr());
  SeenTensor seen;
  int strides = 0;
  const Ref layout = Attribute(tensor, "layout");
  if (layout.ptr() != strided_ || IsTrue(Attribute(tensor, "is_quantized"))) return Unmeasurable(kNotReadable);
  if (!SetDevice(torch_, tensor, &seen.view)) return ReadElsewhere(tensor);
  if (!CopyIntegers(Attribute(tensor, "shape"), &seen.view.sizes, &seen.view.ndim) ||
      !CopyIntegers(CallMethod(tensor, "stride"), &seen.view.strides, &strides))
    return Unmeasurable("it has more than 8 dimensions");
  (void)SetShape(seen.view.ndim, &seen.view);
  const Ref dtype = Attribute(tensor, "dtype");
  seen.view.dtype = DTypeOf(dtype.ptr());
  const Ref address = CallMethod(tensor, "data_ptr");  // raises for fake tensors and wrappers
  seen.view.data = address ? PyLong_AsVoidPtr(address.ptr()) : nullptr;
  ClearError();
  ClearBareOffset(tensor, &seen.view);
  return Checked(seen);
}

namespace {

// The type of its device: "npu", "mps", ...
std::string DeviceTypeOf(PyObject* tensor) {
  const Ref device = Attribute(tensor, "device");
  const Ref type = device ? Attribute(device.ptr(), "type") : Ref();
  const char* text = type ? PyUnicode_AsUTF8AndSize(type.ptr(), nullptr) : nullptr;
  ClearError();
  return text == nullptr ? "" : text;
}

}  // namespace

// True if the storage was released. Backends written in Python have no storage, and neither do some tensor subclasses.
bool TensorReader::IsReleased(PyObject* tensor) const {
  const auto* const type = reinterpret_cast<const PyObject*>(Py_TYPE(tensor));
  if (type != tensor_type_ && type != parameter_type_.ptr()) return false;
  const Ref storage = CallMethod(tensor, "untyped_storage");
  const Ref bytes = storage ? CallMethod(storage.ptr(), "nbytes") : Ref();
  return bytes && !IsTrue(bytes);
}

SeenTensor TensorReader::ReadElsewhere(PyObject* tensor) {
  if (const Ref inside = Inside(tensor)) return Read(inside.ptr());
  const Ref layout = Attribute(tensor, "layout");
  const std::string device = DeviceTypeOf(tensor);
  if (layout.ptr() != strided_ || IsTrue(Attribute(tensor, "is_quantized")) || device.empty() || device == "cpu")
    return Unmeasurable(kNotReadable);
  SeenTensor seen;
  if (!CopyIntegers(Attribute(tensor, "shape"), &seen.view.sizes, &seen.view.ndim))
    return Unmeasurable("it has more than 8 dimensions");
  (void)SetShape(seen.view.ndim, &seen.view);
  const bool is_fake = static_cast<bool>(Attribute(tensor, "fake_mode"));
  if (device == "meta" || is_fake || (seen.view.numel > 0 && IsReleased(tensor))) return Unmeasurable(kNoMemory);
  const Ref dtype = Attribute(tensor, "dtype");
  seen.view.dtype = DTypeOf(dtype.ptr());
  seen.view.device = kElsewhere;
  return Checked(seen);
}

Ref TensorReader::SparseValues(PyObject* tensor) const {
  if (!IsTrue(Attribute(tensor, is_sparse_))) return {};
  const Ref coalesced = CallMethod(tensor, "coalesce");
  return coalesced ? CallMethod(coalesced.ptr(), "values") : Ref();
}

std::string TensorReader::Describe(PyObject* tensor) const {
  const Ref shape = Attribute(tensor, "shape");
  const Ref plain(shape ? PySequence_Tuple(shape.ptr()) : nullptr);
  const Ref size(plain ? PyObject_Str(plain.ptr()) : nullptr);
  const Ref dtype = Attribute(tensor, "dtype");
  const Ref name(dtype ? PyObject_Str(dtype.ptr()) : nullptr);
  const char* size_text = size ? PyUnicode_AsUTF8AndSize(size.ptr(), nullptr) : nullptr;
  const char* name_text = name ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  ClearError();
  if (size_text == nullptr || name_text == nullptr) return "<class 'Tensor'>";
  return std::string("size=") + size_text + ", dtype=" + name_text;
}

}  // namespace stepwatch::python
