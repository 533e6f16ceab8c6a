#include "front_ends/python/native/tensors_in.h"

#include "front_ends/python/native/py_ref.h"
#include "stepwatch/record.h"

namespace stepwatch::python {

bool IsContainer(PyObject* object) {
  if (PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object)) return true;
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__dataclass_fields__") != 0;
}

namespace {

constexpr int kDepthMax = 8;
constexpr size_t kElementsMax = kNoElement;
// Limits the walk of one call: containers that contain each other look like an endless tree.
constexpr int kContainersMax = 1 << 16;

// Calls `visit` with each value of a container, which is held meanwhile.
template <class Visit>
void ForEachValue(PyObject* container, const Visit& visit) {
  if (PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < NB_TUPLE_GET_SIZE(container); ++i) visit(Ref::Borrow(NB_TUPLE_GET_ITEM(container, i)));
  } else if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(container); ++i) visit(Ref::Borrow(NB_LIST_GET_ITEM(container, i)));
  } else if (PyDict_Check(container)) {
    PyObject *key = nullptr, *value = nullptr;
    std::vector<Ref> values;  // visiting may change the dict
    for (Py_ssize_t i = 0; PyDict_Next(container, &i, &key, &value) != 0;) values.push_back(Ref::Borrow(value));
    for (const Ref& each : values) visit(each);
  } else {
    const Ref fields = Attribute(reinterpret_cast<PyObject*>(Py_TYPE(container)), "__dataclass_fields__");
    if (!fields || !PyDict_Check(fields.ptr())) return;
    PyObject *key = nullptr, *field = nullptr;
    for (Py_ssize_t i = 0; PyDict_Next(fields.ptr(), &i, &key, &field) != 0;) {
      const Ref value(PyObject_GetAttr(container, key));
      ClearError();
      if (value) visit(value);
    }
  }
}

class Collector {
 public:
  explicit Collector(const TensorReader& reader) : reader_(reader) {}

  // `by_position`: a value that is not a tensor is numbered too, and is an element unless it is a container.
  void AddTopLevel(const Ref& value, bool by_position) {
    if (next_ >= kElementsMax) return;
    if (reader_.IsTensor(value.ptr())) {
      found_.push_back({value, Next()});
    } else if (IsContainer(value.ptr())) {
      containers_.push_back(value);
      if (by_position) (void)Next();
    } else if (by_position) {
      found_.push_back({Ref(), Next()});
    }
  }

  std::vector<FoundTensor> Finish() {
    if (next_ == 1 && found_.size() == 1) found_[0].element = kNoElement;
    const bool only_deep = next_ == 0;
    for (const Ref& container : containers_) AddDeep(container.ptr(), 1);
    if (only_deep && found_.size() == 1) found_[0].element = kNoElement;
    return std::move(found_);
  }

 private:
  uint16_t Next() { return static_cast<uint16_t>(next_++); }

  void AddDeep(PyObject* container, int depth) {
    if (depth > kDepthMax || ++visited_ > kContainersMax) return;
    ForEachValue(container, [&](const Ref& value) {
      if (next_ >= kElementsMax) return;
      if (reader_.IsTensor(value.ptr())) {
        found_.push_back({value, Next()});
      } else if (IsContainer(value.ptr())) {
        AddDeep(value.ptr(), depth + 1);
      }
    });
  }

  const TensorReader& reader_;
  std::vector<FoundTensor> found_;
  std::vector<Ref> containers_;
  size_t next_ = 0;
  int visited_ = 0;
};

}  // namespace

std::vector<FoundTensor> TensorsInArguments(const TensorReader& reader, PyObject* args, PyObject* kwargs) {
  Collector collector(reader);
  for (PyObject* arguments : {args, kwargs})
    if (arguments != nullptr)
      ForEachValue(arguments, [&](const Ref& value) { collector.AddTopLevel(value, /*by_position=*/false); });
  return collector.Finish();
}

std::vector<FoundTensor> TensorsInside(const TensorReader& reader, PyObject* container) {
  Collector collector(reader);
  collector.AddTopLevel(Ref::Borrow(container), /*by_position=*/false);
  return collector.Finish();
}

std::vector<FoundTensor> TensorsInResult(const TensorReader& reader, PyObject* result) {
  if (reader.IsTensor(result)) return {{Ref::Borrow(result), kNoElement}};
  if (!IsContainer(result)) return {};
  Collector collector(reader);
  const bool by_position = PyTuple_Check(result) || PyList_Check(result);
  ForEachValue(result, [&](const Ref& value) { collector.AddTopLevel(value, by_position); });
  return collector.Finish();
}

std::string KindOfResult(const TensorReader& reader, PyObject* result) {
  if (reader.IsTensor(result)) return "tensor";
  if (PyTuple_Check(result)) return "tuple[" + std::to_string(NB_TUPLE_GET_SIZE(result)) + "]";
  if (PyList_Check(result)) return "list[" + std::to_string(NB_LIST_GET_SIZE(result)) + "]";
  const Ref text(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(result))));
  const char* name = text ? PyUnicode_AsUTF8AndSize(text.ptr(), nullptr) : nullptr;
  ClearError();
  return name == nullptr ? "<class 'object'>" : name;
}

}  // namespace stepwatch::python
