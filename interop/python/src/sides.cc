#include "sides.h"

#include <array>
#include <string_view>
#include <utility>

#include "failure.h"

namespace nb = nanobind;

namespace tutti_python {

Sides TakeSend(Arrays& arrays, nb::handle send) {
  arrays.send.Take(send, "send", Access::kRead);
  return {{arrays.send.data(), arrays.send.count()}, {}, arrays.send.element(), {}};
}

Sides TakeReceive(Arrays& arrays, nb::handle recv, const char* what) {
  arrays.receive.Take(recv, what, Access::kWrite);
  return {{}, {arrays.receive.data(), arrays.receive.count()}, arrays.receive.element(), nb::borrow<nb::object>(recv)};
}

void RequireCount(const char* what, const Side& side, std::size_t needed, const char* why) {
  if (side.count == needed) return;
  Fail(tuttiInvalidArgument, std::string(what) + " has " + std::to_string(side.count) + " elements, but " +
                                 std::to_string(needed) + " are needed: " + why);
}

std::size_t PartOf(const char* what, const Side& side, int ranks) {
  const auto parts = static_cast<std::size_t>(ranks);
  if (side.count % parts != 0) {
    Fail(tuttiInvalidArgument, std::string(what) + " has " + std::to_string(side.count) + " elements, which are not " +
                                   std::to_string(parts) + " equal parts, one for each rank");
  }
  return side.count / parts;
}

void RequireSameKind(const Arrays& arrays) {
  if (arrays.send.element() != arrays.receive.element()) {
    Fail(tuttiInvalidArgument, "send has elements of " + NameOf(arrays.send.element()) + " and recv of " +
                                   NameOf(arrays.receive.element()) + ": they must be the same");
  }
  if (arrays.send.on_device() != arrays.receive.on_device()) {
    Fail(tuttiInvalidArgument,
         "one of send and recv lies on a GPU and the other in host memory: both must be of one kind");
  }
}

tuttiRedOp_t OpOf(nb::handle op) {
  constexpr std::array<std::pair<std::string_view, tuttiRedOp_t>, tuttiNumOps> kNames = {
      {{"sum", tuttiSum}, {"prod", tuttiProd}, {"max", tuttiMax}, {"min", tuttiMin}, {"avg", tuttiAvg}}};
  std::string given, meant;
  if (PyUnicode_Check(op.ptr())) {
    Py_ssize_t length = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(op.ptr(), &length);
    if (text == nullptr) throw nb::python_error();
    const std::string_view name(text, static_cast<std::size_t>(length));
    for (const auto& [known, value] : kNames) {
      if (known == name) return value;
    }
    given = "'" + std::string(name) + "'";
    nb::list names;
    for (const auto& [known, value] : kNames) names.append(nb::str(known.data(), known.size()));
    meant = nb::str(nb::module_::import_("tutti._names").attr("did_you_mean")(op, names)).c_str();
  } else if (PyLong_Check(op.ptr())) {
    const long number = PyLong_AsLong(op.ptr());
    if (number >= 0 && number < tuttiNumOps) return static_cast<tuttiRedOp_t>(number);
    PyErr_Clear();
    given = nb::str(op).c_str();
  } else {
    FailType("op", op, ": pass a name such as 'sum', or a tutti.Op");
  }
  Fail(tuttiInvalidArgument, "op is " + given + meant + " (there are 'sum', 'prod', 'max', 'min' and 'avg')");
}

}  // namespace tutti_python
