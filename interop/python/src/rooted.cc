// Collectives with a root, and messages between two ranks.
#include "bindings.h"
#include "sides.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

nb::object Reduce(Communicator& self, nb::handle send, nb::handle recv, nb::handle op, int root, nb::handle stream) {
  const auto reduction = OpOf(op);
  const bool is_root = self.handle().rank() == root;
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = is_root ? TakeBoth(arrays, send, recv, SameShape) : TakeSend(arrays, send);
    if (is_root) RequireCount("recv", sides.out, sides.in.count, "as many as send has");
    const auto reducer = ReducedAs(sides.element, reduction);
    return Prepared{is_root ? std::move(sides.result) : nb::none(),
                    [in = sides.in.data, out = sides.out.data, count = sides.in.count * reducer.per_element,
                     type = reducer.type, op = reducer.op, root, comm = self.handle().get()](tuttiStream_t cuda) {
                      return tuttiReduce(in, out, count, type, op, root, comm, cuda);
                    }};
  });
}

nb::object Broadcast(Communicator& self, nb::handle send, nb::handle recv, int root, nb::handle stream) {
  const bool is_root = self.handle().rank() == root;
  return Perform(self, stream, [&](Arrays& arrays) {
    Sides sides;
    if (!recv.is_none() && is_root) {
      sides = TakeBoth(arrays, send, recv, SameShape);
      RequireCount("recv", sides.out, sides.in.count, "as many as send has");
    } else if (is_root) {
      sides = TakeSend(arrays, send);  // read-only memory is enough
      sides.out = sides.in;
      sides.result = nb::borrow<nb::object>(send);
    } else {
      sides = recv.is_none() ? TakeReceive(arrays, send, "send") : TakeReceive(arrays, recv);
    }
    const auto carrier = MovedAs(sides.element);
    return Prepared{std::move(sides.result),
                    [in = sides.in.data, out = sides.out.data, count = sides.out.count * carrier.per_element,
                     type = carrier.type, root, comm = self.handle().get()](tuttiStream_t cuda) {
                      return tuttiBroadcast(in, out, count, type, root, comm, cuda);
                    }};
  });
}

nb::object Gather(Communicator& self, nb::handle send, nb::handle recv, int root, nb::handle stream) {
  const int ranks = self.handle().size();
  const bool is_root = self.handle().rank() == root;
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = is_root ? TakeBoth(arrays, send, recv, [&](const Array& like) { return JoinedShape(like, ranks); })
                         : TakeSend(arrays, send);
    if (is_root) {
      RequireCount("recv", sides.out, sides.in.count * static_cast<std::size_t>(ranks), "send's, for each rank");
    }
    const auto carrier = MovedAs(sides.element);
    return Prepared{is_root ? std::move(sides.result) : nb::none(),
                    [in = sides.in.data, out = sides.out.data, count = sides.in.count * carrier.per_element,
                     type = carrier.type, root, comm = self.handle().get()](tuttiStream_t cuda) {
                      return tuttiGather(in, out, count, type, root, comm, cuda);
                    }};
  });
}

nb::object Scatter(Communicator& self, nb::handle send, nb::handle recv, int root, nb::handle stream) {
  const int ranks = self.handle().size();
  const bool is_root = self.handle().rank() == root;
  return Perform(self, stream, [&](Arrays& arrays) {
    if (!is_root && recv.is_none()) {
      Fail(tuttiInvalidArgument,
           "recv is None: only the root knows the size of a scatter's parts, so other ranks pass recv");
    }
    auto sides = is_root ? TakeBoth(arrays, send, recv, [&](const Array& like) { return PartShape(like, ranks); })
                         : TakeReceive(arrays, recv);
    if (is_root) RequireCount("recv", sides.out, PartOf("send", sides.in, ranks), "one rank's part of send");
    const auto carrier = MovedAs(sides.element);
    return Prepared{std::move(sides.result),
                    [in = sides.in.data, out = sides.out.data, count = sides.out.count * carrier.per_element,
                     type = carrier.type, root, comm = self.handle().get()](tuttiStream_t cuda) {
                      return tuttiScatter(in, out, count, type, root, comm, cuda);
                    }};
  });
}

nb::object Send(Communicator& self, nb::handle send, int peer, nb::handle stream) {
  return Perform(self, stream, [&](Arrays& arrays) {
    const auto sides = TakeSend(arrays, send);
    const auto carrier = MovedAs(sides.element);
    return Prepared{
        nb::object(nb::none()),
        [in = sides.in.data, count = sides.in.count * carrier.per_element, type = carrier.type, peer,
         comm = self.handle().get()](tuttiStream_t cuda) { return tuttiSend(in, count, type, peer, comm, cuda); }};
  });
}

nb::object Receive(Communicator& self, nb::handle recv, int peer, nb::handle stream) {
  return Perform(self, stream, [&](Arrays& arrays) {
    auto sides = TakeReceive(arrays, recv);
    const auto carrier = MovedAs(sides.element);
    return Prepared{
        std::move(sides.result),
        [out = sides.out.data, count = sides.out.count * carrier.per_element, type = carrier.type, peer,
         comm = self.handle().get()](tuttiStream_t cuda) { return tuttiRecv(out, count, type, peer, comm, cuda); }};
  });
}

}  // namespace

void BindRooted(CommunicatorClass& communicator) {
  communicator
      .def("reduce", &Reduce, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::arg("op").none() = "sum",
           nb::arg("root") = 0, nb::kw_only(), nb::arg("stream") = nb::none(),
           "Reduces send over all ranks into recv on root, and returns recv there, None elsewhere.\n\n"
           "Only root's recv is used: as many elements as send; None: a new array; send itself: in place.")
      .def("broadcast", &Broadcast, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::arg("root") = 0,
           nb::kw_only(), nb::arg("stream") = nb::none(),
           "Every rank gets root's send. Without recv it is written into send itself, which is returned.\n\n"
           "With recv it is written there, and send is used on root only. All ranks pass as many elements.")
      .def("gather", &Gather, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::arg("root") = 0, nb::kw_only(),
           nb::arg("stream") = nb::none(),
           "root gets the send of all ranks in recv, rank by rank, and returns it; other ranks return None.\n\n"
           "Only root's recv is used: size times send's elements; None: a new array.")
      .def("scatter", &Scatter, nb::arg("send").none(), nb::arg("recv") = nb::none(), nb::arg("root") = 0,
           nb::kw_only(), nb::arg("stream") = nb::none(),
           "Rank r gets the r-th of size equal parts of root's send in recv, and returns it.\n\n"
           "Only root's send is used; others pass None. recv has 1/size of its elements; None, possible on root only: "
           "a new\n"
           "array. Raises InvalidArgumentError on root if send is no multiple of size.")
      .def("send", &Send, nb::arg("send").none(), nb::arg("peer"), nb::kw_only(), nb::arg("stream") = nb::none(),
           "Sends an array to rank peer, which calls recv for as many elements. Waits until its data is taken, except "
           "in a\n"
           "group.")
      .def("recv", &Receive, nb::arg("recv").none(), nb::arg("peer"), nb::kw_only(), nb::arg("stream") = nb::none(),
           "Receives into recv, of any shape, as many elements as rank peer sends, and returns recv.");
}

}  // namespace tutti_python
