// libibverbs, loaded on first use: the library links nothing of RDMA and runs where there is none. Its header is used
// at build time only. Functions that go through a device's own table (posting, polling) are inline in that header and
// need no name from the library.
//
// Thread-safety: immutable once loaded; the library's own functions may be called from any thread.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

namespace tutti::verbs {

// Members have the functions' names without "ibv_", because the header defines macros for some of those.
struct VerbsLibrary {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  int (*query_port_short)(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes);
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                             std::size_t entry_size);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* begin, std::size_t bytes, int access);
  // Null in libraries before rdma-core 34.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int file,
                           int access);
  int (*dereg_mr)(ibv_mr* region);
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector);
  int (*resize_cq)(ibv_cq* queue, int entries);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** user);
  void (*ack_cq_events)(ibv_cq* queue, unsigned count);
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*destroy_qp)(ibv_qp* pair);
  int (*fork_init)();
  const char* (*port_state_str)(ibv_port_state state);
  const char* (*wc_status_str)(ibv_wc_status status);
  const char* (*event_type_str)(ibv_event_type type);

  // Does what the header's ibv_query_port does, which would have to link the library.
  int QueryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) const;
};

// Null where there is none, with why in *why (which may be null).
const VerbsLibrary* LoadedVerbs(std::string* why = nullptr);

// Owners of the library's objects. REQUIRES of all of them: LoadedVerbs() is not null.
template <auto kRelease>
struct VerbsRelease {
  template <typename T>
  void operator()(T* object) const {
    (LoadedVerbs()->*kRelease)(object);
  }
};
using VerbsContext = std::unique_ptr<ibv_context, VerbsRelease<&VerbsLibrary::close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, VerbsRelease<&VerbsLibrary::dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, VerbsRelease<&VerbsLibrary::dereg_mr>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, VerbsRelease<&VerbsLibrary::destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, VerbsRelease<&VerbsLibrary::destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, VerbsRelease<&VerbsLibrary::destroy_qp>>;

}  // namespace tutti::verbs
