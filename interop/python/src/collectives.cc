// Collectives without a root: every rank gives and gets alike.
#include "bindings.h"
#include "sides.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

nb::object AllReduce(Communicator& self, nb::handle send, nb::handle recv, nb::handle op, nb::handle stream) {
  const auto reduction = OpOf(op);
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = TakeBoth(arrays, send, recv, SameShape);
    RequireCount("recv", sides.out, sides.in.count, "as many as send has");
    const auto reducer = ReducedAs(sides.element, reduction);
    return Prepared{std::move(sides.result),
                    [in = sides.in.data, out = sides.out.data, count = sides.in.count * reducer.per_element,
                     type = reducer.type, op = reducer.op, comm = self.handle().get()](tuttiStream_t cuda) {
                      return tuttiAllReduce(in, out, count, type, op, comm, cuda);
                    }};
  });
}

nb::object ReduceScatter(Communicator& self, nb::handle send, nb::handle recv, nb::handle op, nb::handle stream) {
  const auto reduction = OpOf(op);
  const int ranks = self.handle().size();
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = TakeBoth(arrays, send, recv, [&](const Array& like) { return PartShape(like, ranks); });
    const auto part = PartOf("send", sides.in, ranks);
    RequireCount("recv", sides.out, part, "one rank's part of send");
    const auto reducer = ReducedAs(sides.element, reduction);
    return Prepared{std::move(sides.result),
                    [in = sides.in.data, out = sides.out.data, count = part * reducer.per_element, type = reducer.type,
                     op = reducer.op, comm = self.handle().get()](tuttiStream_t cuda) {
                      return tuttiReduceScatter(in, out, count, type, op, comm, cuda);
                    }};
  });
}

nb::object AllGather(Communicator& self, nb::handle send, nb::handle recv, nb::handle stream) {
  const int ranks = self.handle().size();
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = TakeBoth(arrays, send, recv, [&](const Array& like) { return JoinedShape(like, ranks); });
    RequireCount("recv", sides.out, sides.in.count * static_cast<std::size_t>(ranks), "send's, for each rank");
    const auto carrier = MovedAs(sides.element);
    return Prepared{
        std::move(sides.result),
        [in = sides.in.data, out = sides.out.data, count = sides.in.count * carrier.per_element, type = carrier.type,
         comm = self.handle().get()](tuttiStream_t cuda) { return tuttiAllGather(in, out, count, type, comm, cuda); }};
  });
}

nb::object AllToAll(Communicator& self, nb::handle send, nb::handle recv, nb::handle stream) {
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = TakeBoth(arrays, send, recv, SameShape);
    const auto part = PartOf("send", sides.in, self.handle().size());
    RequireCount("recv", sides.out, sides.in.count, "as many as send has");
    const auto carrier = MovedAs(sides.element);
    return Prepared{
        std::move(sides.result),
        [in = sides.in.data, out = sides.out.data, count = part * carrier.per_element, type = carrier.type,
         comm = self.handle().get()](tuttiStream_t cuda) { return tuttiAlltoAll(in, out, count, type, comm, cuda); }};
  });
}

nb::object Barrier(Communicator& self, nb::handle stream) {
  return Perform(self, stream, [&](Arrays&) {
    return Prepared{nb::object(nb::none()),
                    [comm = self.handle().get()](tuttiStream_t cuda) { return tuttiBarrier(comm, cuda); }};
  });
}

}  // namespace

void BindCollectives(CommunicatorClass& communicator) {
  communicator
      .def("all_reduce", &AllReduce, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::arg("op").none() = "sum",
           nb::kw_only(), nb::arg("stream") = nb::none(),
           "Reduces send over all ranks, element by element, into recv on every rank, and returns recv.\n\n"
           "recv has as many elements as send; None: a new array of send's shape; send itself: in place.")
      .def("reduce_scatter", &ReduceScatter, nb::arg("send").none(), nb::arg("recv") = nb::none(),
           nb::arg("op").none() = "sum", nb::kw_only(), nb::arg("stream") = nb::none(),
           "Reduces send over all ranks; rank r gets the r-th of size equal parts in recv, and returns it.\n\n"
           "recv has 1/size of send's elements; None: a new array, with a first dimension of 1/size of send's. Raises\n"
           "InvalidArgumentError if what is cut is no multiple of size.")
      .def("all_gather", &AllGather, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::kw_only(),
           nb::arg("stream") = nb::none(),
           "Every rank gets the send of all ranks in recv, rank by rank, and returns it.\n\n"
           "recv has size times send's elements; None: a new array, with a first dimension of size times send's.")
      .def(
          "all_to_all", &AllToAll, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::kw_only(),
          nb::arg("stream") = nb::none(),
          "The j-th of size equal parts of rank i's send becomes the i-th part of rank j's recv, which is returned.\n\n"
          "recv has as many elements as send; None: a new array of send's shape; send itself: in place. Raises\n"
          "InvalidArgumentError if send's elements are no multiple of size.")
      .def("barrier", &Barrier, nb::kw_only(), nb::arg("stream") = nb::none(),
           "Returns when all ranks have called it.");
}

}  // namespace tutti_python
