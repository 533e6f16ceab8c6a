#include "front_ends/python/native/model_walk.h"

namespace nb = nanobind;

namespace stepwatch::python {
namespace {

// Compares visited objects with those of a list, one after the other.
class Comparison {
 public:
  explicit Comparison(const nb::list& expected) : expected_(expected.ptr()), count_(NB_LIST_GET_SIZE(expected_)) {}

  void Meet(PyObject* object) {
    same_ = same_ && next_ < count_ && NB_LIST_GET_ITEM(expected_, next_) == object;
    ++next_;
  }
  // A name that is inserted again is another object with the same text.
  void MeetName(PyObject* name) {
    PyObject* const known = next_ < count_ ? NB_LIST_GET_ITEM(expected_, next_) : nullptr;
    const bool are_texts = known != nullptr && PyUnicode_Check(known) && PyUnicode_Check(name);
    Meet(are_texts && PyUnicode_Compare(known, name) == 0 ? known : name);
  }
  bool same() const { return same_; }
  bool all_same() const { return same_ && next_ == count_; }

 private:
  PyObject* const expected_;
  const Py_ssize_t count_;
  Py_ssize_t next_ = 0;
  bool same_ = true;
};

void MeetEntries(PyObject* module, const Name& name, Comparison* comparison) {
  const Ref values = OwnAttribute(module, name);
  if (!values || !PyDict_Check(values.ptr())) return;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(values.ptr(), &i, &key, &value) != 0;) {
    comparison->MeetName(key);
    comparison->Meet(value);
  }
}

void MeetGroups(PyObject* optimizer, const Names& names, Comparison* comparison) {
  const Ref groups = Attribute(optimizer, names.param_groups);
  if (!groups || !PyList_Check(groups.ptr())) return;
  for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(groups.ptr()); ++i) {
    PyObject* const group = NB_LIST_GET_ITEM(groups.ptr(), i);
    PyObject* const parameters = PyDict_Check(group) ? PyDict_GetItem(group, names.params.ptr()) : nullptr;
    if (parameters == nullptr || !PyList_Check(parameters)) continue;
    for (Py_ssize_t k = 0; k < NB_LIST_GET_SIZE(parameters); ++k) comparison->Meet(NB_LIST_GET_ITEM(parameters, k));
  }
}

}  // namespace

bool ModelIsAs(const Names& names, const nb::list& modules, const nb::list& children, const nb::list& optimizers,
               const nb::list& grouped, const nb::list& parameters, const nb::list& places, const nb::list& frozen) {
  Comparison of_modules(children);
  for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(modules.ptr()) && of_modules.same(); ++i) {
    PyObject* const module = NB_LIST_GET_ITEM(modules.ptr(), i);
    MeetEntries(module, names.modules, &of_modules);
    MeetEntries(module, names.parameters, &of_modules);
  }
  Comparison of_groups(grouped);
  for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(optimizers.ptr()) && of_groups.same(); ++i)
    MeetGroups(NB_LIST_GET_ITEM(optimizers.ptr(), i), names, &of_groups);
  if (!of_modules.all_same() || !of_groups.all_same()) return false;
  if (NB_LIST_GET_SIZE(parameters.ptr()) != NB_LIST_GET_SIZE(places.ptr())) return false;
  for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(parameters.ptr()); ++i) {
    const Ref place = Attribute(NB_LIST_GET_ITEM(parameters.ptr(), i), names.cdata);
    if (!place || PyObject_RichCompareBool(place.ptr(), NB_LIST_GET_ITEM(places.ptr(), i), Py_EQ) != 1) {
      ClearError();
      return false;
    }
  }
  for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(frozen.ptr()); ++i)
    if (IsTrue(Attribute(NB_LIST_GET_ITEM(frozen.ptr(), i), names.requires_grad))) return false;
  return true;
}

}  // namespace stepwatch::python
