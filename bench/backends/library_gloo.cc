// Gloo over TCP on the loopback interface as the measured library. Its ranks meet over the bench's control channel.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/numbers/datatype.h"
#include "bench/backends/library.h"

namespace tutti::bench {
namespace {

// The store through which Gloo's ranks meet: "rank_<n>" holds rank n's host, "<n>" the addresses it listens on. All
// ranks are on this host, so only the addresses need to be exchanged.
class ExchangeStore final : public gloo::rendezvous::Store {
 public:
  ExchangeStore(const Place& place, const Exchange& exchange) : place_(place), exchange_(exchange) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (IsHost(key)) {
      host_ = data;
    } else {
      addresses_ = exchange_(place_.rank, place_.ranks, Blob(data.begin(), data.end()));
    }
  }
  std::vector<char> get(const std::string& key) override {
    if (IsHost(key)) return host_;
    const Blob& address = addresses_.at(std::stoul(key));
    return {address.begin(), address.end()};
  }
  void wait(const std::vector<std::string>&) override {}

 private:
  static bool IsHost(const std::string& key) { return key.starts_with("rank_"); }

  const Place place_;
  const Exchange& exchange_;
  std::vector<char> host_;
  std::vector<Blob> addresses_;
};

// Calls visit with a null T* of the C++ type for `type`. Gloo's templates ignore the bits of data that is only moved.
template <typename Visit>
auto WithType(tuttiDataType_t type, Visit visit) {
  return VisitDataType(type, [&]<typename Element>(std::type_identity<Element>) {
    return visit(static_cast<Storage<Element>*>(nullptr));
  });
}

template <typename T>
gloo::AllreduceOptions::Func FunctionOf(tuttiRedOp_t op) {
  void (*function)(void*, const void*, const void*, std::size_t) = &gloo::sum<T>;
  if (op == tuttiProd) function = &gloo::product<T>;
  if (op == tuttiMax) function = &gloo::max<T>;
  if (op == tuttiMin) function = &gloo::min<T>;
  return function;
}

template <typename T>
const gloo::ReductionFunction<T>* OldFunctionOf(tuttiRedOp_t op) {
  switch (op) {
    case tuttiProd: return gloo::ReductionFunction<T>::product;
    case tuttiMax: return gloo::ReductionFunction<T>::max;
    case tuttiMin: return gloo::ReductionFunction<T>::min;
    default: return gloo::ReductionFunction<T>::sum;
  }
}

class Gloo final : public Library {
 public:
  Gloo(const Place& place, const Exchange& exchange) : place_(place) {
    // On a cluster host, bind to the host's name.
    const bool in_cluster = std::getenv("TUTTI_CLUSTER") != nullptr;
    std::array<char, 256> host{"127.0.0.1"};
    if (in_cluster) ::gethostname(host.data(), host.size() - 1);
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(host.data()));
    const auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks);
    if (place.ranks > 1) {
      ExchangeStore store(place, exchange);
      context->connectFullMesh(store, device);
    } else {
      exchange(place.rank, place.ranks, {});
    }
    context_ = context;
  }

  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }

  bool Supports(const Operation& operation) const override {
    if (place_.ranks == 1 || (operation.collective == Collective::all_to_all && operation.in_place)) return false;
    return !Reduces(operation.collective) || (operation.op != tuttiAvg && !IsLowPrecision(operation.type));
  }

  // Reduce needs memory for partial results on every rank; reduce-scatter leaves its block at the start of the buffer.
  Layout LayoutFor(const Operation& operation) const override {
    Layout layout = LayoutOf(operation, place_.ranks, place_.rank);
    if (operation.collective == Collective::reduce_scatter) layout.recv_offset = 0;
    return layout;
  }

  std::byte* Allocate(std::size_t bytes) override { return AllocateOrdinary(bytes); }
  void Free(std::byte* memory) override { std::free(memory); }

  void Barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  BoundCall Bind(const Operation& operation, const Buffers& buffers) override {
    return {WithType(operation.type, [&](auto* type) { return CallOf(operation, buffers, type); }), {}};
  }

 private:
  template <typename T>
  std::function<void()> CallOf(const Operation& operation, const Buffers& buffers, T*) {
    T* const send = reinterpret_cast<T*>(buffers.send);
    T* const recv = reinterpret_cast<T*>(buffers.recv);
    const std::size_t count = operation.count;
    const std::size_t all = count * static_cast<std::size_t>(place_.ranks);
    const bool is_root = place_.rank == operation.root;
    const bool in_place = operation.in_place;
    const int root = operation.root;
    const auto context = context_;
    switch (operation.collective) {
      case Collective::all_reduce:
        return [=, function = FunctionOf<T>(operation.op)] {
          gloo::AllreduceOptions options(context);
          if (!in_place) options.setInput(send, count);
          options.setOutput(recv, count);
          options.setReduceFunction(function);
          gloo::allreduce(options);
        };
      case Collective::reduce:
        return [=, function = FunctionOf<T>(operation.op)] {
          gloo::ReduceOptions options(context);
          if (!in_place) options.setInput(send, count);
          options.setOutput(recv, count);
          options.setRoot(root);
          options.setReduceFunction(function);
          gloo::reduce(options);
        };
      case Collective::reduce_scatter: return ReduceScatter(operation, send, recv);
      case Collective::all_gather:
        return [=] {
          gloo::AllgatherOptions options(context);
          if (!in_place) options.setInput(send, count);
          options.setOutput(recv, all);
          gloo::allgather(options);
        };
      case Collective::all_to_all:
        return [=] {
          gloo::AlltoallOptions options(context);
          options.setInput(send, all);
          options.setOutput(recv, all);
          gloo::alltoall(options);
        };
      case Collective::all_to_all_v: return AlltoallV(operation, send, recv);
      case Collective::broadcast:
        return [=] {
          gloo::BroadcastOptions options(context);
          if (is_root && !in_place) options.setInput(send, count);
          options.setOutput(recv, count);
          options.setRoot(root);
          gloo::broadcast(options);
        };
      case Collective::gather:
        return [=] {
          gloo::GatherOptions options(context);
          options.setInput(send, count);
          if (is_root) options.setOutput(recv, all);
          options.setRoot(root);
          gloo::gather(options);
        };
      case Collective::scatter: return Scatter(operation, send, recv);
      case Collective::send_recv: return SendRecv(operation, send, recv);
      case Collective::barrier: return [this] { Barrier(); };
    }
    throw std::runtime_error("no such collective");
  }

  // Gloo's only collective of the older, in-place kind; out of place, the caller must copy.
  template <typename T>
  std::function<void()> ReduceScatter(const Operation& operation, T* send, T* recv) {
    const std::size_t count = operation.count;
    const std::size_t all = count * static_cast<std::size_t>(place_.ranks);
    auto work = std::make_shared<std::vector<T>>(operation.in_place ? 0 : all);
    T* const data = operation.in_place ? recv : work->data();
    auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<T>>(
        context_, std::vector<T*>{data}, static_cast<int>(all),
        std::vector<int>(static_cast<std::size_t>(place_.ranks), static_cast<int>(count)),
        OldFunctionOf<T>(operation.op));
    return [=, in_place = operation.in_place] {
      if (!in_place) std::memcpy(work->data(), send, all * sizeof(T));
      algorithm->run();
      if (!in_place) std::memcpy(recv, work->data(), count * sizeof(T));
    };
  }

  template <typename T>
  std::function<void()> AlltoallV(const Operation& operation, T* send, T* recv) {
    std::vector<std::int64_t> sent, received;
    for (int peer = 0; peer < place_.ranks; ++peer) {
      sent.push_back(static_cast<std::int64_t>(BlockElements(operation, place_.rank, peer)));
      received.push_back(static_cast<std::int64_t>(BlockElements(operation, peer, place_.rank)));
    }
    return [=, context = context_] {
      gloo::AlltoallvOptions options(context);
      options.setInput(send, sent);
      options.setOutput(recv, received);
      gloo::alltoallv(options);
    };
  }

  template <typename T>
  std::function<void()> Scatter(const Operation& operation, T* send, T* recv) {
    std::vector<T*> blocks;
    for (int peer = 0; peer < place_.ranks && place_.rank == operation.root; ++peer) {
      blocks.push_back(send + operation.count * static_cast<std::size_t>(peer));
    }
    return [=, context = context_, count = operation.count, root = operation.root] {
      gloo::ScatterOptions options(context);
      if (!blocks.empty()) options.setInputs(blocks, count);
      options.setOutput(recv, count);
      options.setRoot(root);
      gloo::scatter(options);
    };
  }

  template <typename T>
  std::function<void()> SendRecv(const Operation& operation, T* send, T* recv) {
    constexpr std::uint64_t kSlot = 0x7475;  // any number that Gloo's collectives do not use
    const std::size_t bytes = operation.count * sizeof(T);
    auto out = std::shared_ptr<gloo::transport::UnboundBuffer>(context_->createUnboundBuffer(send, bytes));
    auto in = std::shared_ptr<gloo::transport::UnboundBuffer>(context_->createUnboundBuffer(recv, bytes));
    return [=, place = place_] {
      in->recv((place.rank + place.ranks - 1) % place.ranks, kSlot);
      out->send((place.rank + 1) % place.ranks, kSlot);
      in->waitRecv();
      out->waitSend();
    };
  }

  const Place place_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Library> MakeLibrary(const Place& place, const CallSettings&, const Exchange& exchange) {
  return std::make_unique<Gloo>(place, exchange);
}

}  // namespace tutti::bench
