// Sends and receives that run together, as one group, so that two ranks that both send do not wait for each other. The
// general ones have torch.distributed's names, those between neighbouring stages of a pipeline have the names of
// Megatron-Core's p2p_communication.py.
//
// Thread-safety: one thread at a time.
#pragma once

#include <vector>

#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

enum class P2P { isend, irecv };

struct TUTTI_API P2POp {
  P2P op = P2P::isend;
  Tensor tensor;
  int peer = 0;  // in the group
};

// `stream`: as in tutti.h. Messages from one rank to another match in the order of both lists.
// Throws Error.
TUTTI_API void batch_isend_irecv(ProcessGroup& group, const std::vector<P2POp>& operations,
                                 tuttiStream_t stream = nullptr);

// Null: no such transfer. `next` is the next stage's rank in the pipeline's group, `prev` the previous one's.
struct TUTTI_API P2PTensors {
  const Tensor* send_next = nullptr;
  const Tensor* recv_prev = nullptr;
  const Tensor* send_prev = nullptr;
  const Tensor* recv_next = nullptr;
};

class TUTTI_API P2PCommunicator {
 public:
  // `group`'s rank is the stage; it outlives this. `stream`: as in tutti.h.
  explicit P2PCommunicator(ProcessGroup& group, tuttiStream_t stream = nullptr) : group_(group), stream_(stream) {}

  // Leaves out transfers without a neighbour, as Megatron does at the pipeline's ends. Throws Error.
  void communicate(const P2PTensors& tensors);

  void recv_forward(const Tensor& input) { communicate({.recv_prev = &input}); }
  void recv_backward(const Tensor& grad_output) { communicate({.recv_next = &grad_output}); }
  void send_forward(const Tensor& output) { communicate({.send_next = &output}); }
  void send_backward(const Tensor& grad_input) { communicate({.send_prev = &grad_input}); }
  void send_forward_recv_backward(const Tensor& output, const Tensor& grad_output) {
    communicate({.send_next = &output, .recv_next = &grad_output});
  }
  void send_backward_recv_forward(const Tensor& grad_input, const Tensor& input) {
    communicate({.recv_prev = &input, .send_prev = &grad_input});
  }
  void send_forward_recv_forward(const Tensor& output, const Tensor& input) {
    communicate({.send_next = &output, .recv_prev = &input});
  }
  void send_backward_recv_backward(const Tensor& grad_input, const Tensor& grad_output) {
    communicate({.send_prev = &grad_input, .recv_next = &grad_output});
  }

 private:
  ProcessGroup& group_;
  tuttiStream_t stream_;
};

}  // namespace tutti::parallel
