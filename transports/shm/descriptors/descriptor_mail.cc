#include "transports/shm/descriptors/descriptor_mail.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/error.h"
#include "transports/shm/descriptors/unix_messages.h"

namespace tutti::shm {

DescriptorMail::DescriptorMail(Locality locality, const AllGather& all_gather, Deadline deadline)
    : locality_(std::move(locality)), outboxes_(locality_.process_of.size()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    ThrowErrno("no socket for receiving file descriptors");
  inbox_ = FileDescriptor(ends[0]);
  const FileDescriptor sending(ends[1]);
  const int number = sending.get();
  ExchangeDescriptors(locality_, std::span(&number, 1), all_gather, deadline,
                      [this](int rank, std::vector<FileDescriptor> theirs) {
                        if (!IsUnixSocket(theirs.at(0), SOCK_SEQPACKET)) {
                          Throw(tuttiInternalError, "rank {} of this host gave no socket for descriptors", rank);
                        }
                        outboxes_[static_cast<std::size_t>(rank)] = std::move(theirs.at(0));
                      });
}

bool DescriptorMail::Send(int rank, const Letter& letter, const FileDescriptor& file) const {
  const auto& outbox = outboxes_[static_cast<std::size_t>(rank)];
  const int number = file.get();
  const int error = SendMessage(outbox.get(), std::as_bytes(std::span<const Letter, 1>(&letter, 1)),
                                std::span(&number, 1), Deadline::After(Deadline::Milliseconds(0)));
  return error != EAGAIN && error != ETOOMANYREFS;
}

std::optional<DescriptorMail::Delivery> DescriptorMail::Receive() const {
  for (;;) {
    Delivery delivery;
    std::vector<FileDescriptor> files;
    const auto received =
        ReceiveMessage(inbox_.get(), std::as_writable_bytes(std::span<Letter, 1>(&delivery.letter, 1)), files);
    if (received == Received::gone) return std::nullopt;  // or nothing has come
    const auto from = static_cast<std::size_t>(delivery.letter.from);
    const bool known = from < outboxes_.size() && outboxes_[from];
    if (received != Received::message || files.size() != 1 || !known) continue;
    delivery.file = std::move(files.front());
    return delivery;
  }
}

}  // namespace tutti::shm
