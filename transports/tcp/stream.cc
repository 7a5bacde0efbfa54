#include "transports/tcp/stream.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tutti::tcp {
namespace {

// The most pieces in one system call: up to four per item.
constexpr std::size_t kPieces = 32;
// Pieces this short in total are cheaper to copy into one than to pass separately.
constexpr std::size_t kShortWrite = 1024;
// The most receive calls in a row, so that a peer that sends endlessly does not keep this rank from its other work.
constexpr int kReceivesInARow = 8;
// After a long slot's data, only the next header is read ahead, because data read ahead is copied once more.
constexpr std::size_t kReadAhead = 64;
constexpr std::size_t kLongBody = 16 * 1024;
// After a slot this long nothing is read ahead: the call that has waited for it may end now, and the next call tell
// where its own slots belong.
constexpr std::size_t kAlone = 64 * 1024;

// Returns as send() and recv() do. A call for one piece is cheaper than one for many.
ssize_t Send(const net::Socket& socket, std::span<iovec> pieces, std::size_t bytes, bool more) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  if (bytes <= kShortWrite) {
    std::array<std::byte, kShortWrite> together;
    std::byte* end = together.data();
    for (const auto& piece : pieces) {
      end = std::copy_n(static_cast<const std::byte*>(piece.iov_base), piece.iov_len, end);
    }
    return send(socket.fd(), together.data(), bytes, flags);
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return sendmsg(socket.fd(), &message, flags);
}

ssize_t Receive(const net::Socket& socket, std::span<iovec> pieces) {
  if (pieces.size() == 1) return recv(socket.fd(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return recvmsg(socket.fd(), &message, MSG_DONTWAIT);
}

}  // namespace

TcpStream::TcpStream(net::Socket socket, int peer, Seals seals, ZeroCopySends::Mode zero_copy)
    : socket_(std::move(socket)),
      peer_(peer),
      seals_(std::move(seals)),
      zero_copy_(socket_, zero_copy),
      queue_(2 * kMaxSlots) {}

TcpStream::Item& TcpStream::Push() {
  if (queued_ == queue_.size()) {
    std::rotate(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_), queue_.end());
    first_ = 0;
    queue_.resize(2 * queue_.size());
  }
  return At(queued_++);
}

void TcpStream::QueueSlot(const progress::SlotMessage& message, const std::byte* data) {
  auto& item = Push();
  item.header = {static_cast<std::uint16_t>(Kind::slot), static_cast<std::uint16_t>(message.connection), message.number,
                 message.tag, message.bytes};
  item.data = data;
  ++slots_queued_;
  Seal(item);
}

void TcpStream::QueueControl(std::span<const std::byte> message) {
  auto& item = Push();
  item.header = {static_cast<std::uint16_t>(Kind::control), 0, 0, 0, static_cast<std::uint32_t>(message.size())};
  item.own.assign(message.begin(), message.end());
  item.data = nullptr;
  Seal(item);
}

// Items are sealed when they are queued, because they are sent in that order.
void TcpStream::Seal(Item& item) {
  bytes_queued_ += SizeOf(item);
  auto& seal = seals_.sending;
  if (!seal.proves()) return;
  seal.Next();
  if (seal.hides() && item.data != nullptr) item.own.resize(item.header.bytes);
  const std::span<const std::byte> body(item.body(), item.header.bytes);
  const auto header = std::as_bytes(std::span(&item.header, 1));
  if (body.size() <= kTogether) {
    item.ahead = seal.Close(TcpSeal::Part::ahead, header, body, item.own.data());
  } else {
    item.ahead = seal.Close(TcpSeal::Part::ahead, header, {}, nullptr);
    item.behind = seal.Close(TcpSeal::Part::behind, {}, body, item.own.data());
  }
  if (seal.hides()) item.data = nullptr;
}

std::size_t TcpStream::bytes_on_the_way() const {
  int unacknowledged = 0;
  if (ioctl(socket_.fd(), SIOCOUTQ, &unacknowledged) != 0) unacknowledged = 0;
  return bytes_queued_ + static_cast<std::size_t>(unacknowledged);
}

bool TcpStream::Fail(std::string why) {
  why_ = std::move(why);
  return false;
}

// Sends as much as one call takes.
ssize_t TcpStream::SendSome() {
  const auto& front = At(0);
  const std::size_t ahead = BytesAhead(seals_.sending);
  if (first_sent_ >= ahead && first_sent_ < ahead + front.header.bytes && StaysInPlace(front)) {
    const std::size_t sent = first_sent_ - ahead;
    const progress::SlotMessage slot{front.header.connection, front.header.number, front.header.tag,
                                     front.header.bytes};
    return zero_copy_.Send(socket_, slot, front.data + sent, front.header.bytes - sent);
  }
  std::array<iovec, kPieces> pieces;
  std::size_t count = 0;
  std::size_t total = 0;
  std::size_t skip = first_sent_;
  bool more = false;  // what follows goes by another call
  const auto add = [&](const void* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (skipped == bytes) return;
    pieces[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skipped, bytes - skipped};
    total += bytes - skipped;
  };
  for (std::size_t i = 0; i < queued_ && count + 4 <= kPieces && !more; ++i) {
    const auto& item = At(i);
    add(&item.header, sizeof item.header);
    if (seals_.sending.proves()) add(item.ahead.data(), item.ahead.size());
    more = StaysInPlace(item) && skip < item.header.bytes;
    if (more) break;
    add(item.body(), item.header.bytes);
    add(item.behind.data(), BytesBehind(seals_.sending, item.header.bytes));
  }
  return Send(socket_, std::span(pieces).first(count), total, more);
}

bool TcpStream::Flush(progress::NetworkTransportEvents& events) {
  while (queued_ > 0) {
    const auto sent = SendSome();
    if (sent >= 0) {
      Drop(static_cast<std::size_t>(sent), events);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR) {
      return Fail(fmt::format("sending to it failed: {}", ErrnoText(errno)));
    }
  }
  return true;
}

void TcpStream::Drop(std::size_t sent, progress::NetworkTransportEvents& events) {
  bytes_queued_ -= sent;
  first_sent_ += sent;
  while (queued_ > 0 && first_sent_ >= SizeOf(At(0))) {
    const auto& item = At(0);
    const Header header = item.header;
    first_sent_ -= SizeOf(item);
    first_ = (first_ + 1) % queue_.size();
    --queued_;
    if (header.kind != static_cast<std::uint16_t>(Kind::slot)) continue;
    --slots_queued_;
    if (zero_copy_.Lend()) continue;
    events.Sent(peer_, header.connection, header.number);
  }
}

std::size_t TcpStream::ReadsAhead() const {
  if (in_body_ && arriving_.bytes >= kAlone) return BytesBehind(seals_.receiving, arriving_.bytes) - staged_;
  return in_body_ && missing_ >= kLongBody ? kReadAhead : kStaging - staged_;
}

bool TcpStream::ReceiveMore(progress::NetworkTransportEvents& events, bool& moved) {
  for (int i = 0; i < kReceivesInARow; ++i) {
    std::array<iovec, 2> pieces;
    std::size_t count = 0;
    const std::size_t body = in_body_ ? missing_ : 0;
    if (body > 0) pieces[count++] = {landing_, body};
    const std::size_t ahead = ReadsAhead();
    if (ahead > 0) pieces[count++] = {staging_.data() + staged_, ahead};
    const bool alone = in_body_ && arriving_.bytes >= kAlone;
    const auto result = tcp::Receive(socket_, std::span(pieces).first(count));
    if (result < 0 && errno == EINTR) continue;
    if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (result < 0) return Fail(fmt::format("its connection broke: {}", ErrnoText(errno)));
    if (result == 0) return Fail("its connection was closed");
    moved = true;
    const auto got = static_cast<std::size_t>(result);
    const std::size_t landed = std::min(got, body);
    landing_ += landed;
    missing_ -= landed;
    staged_ += got - landed;
    if (!Parse(events)) return false;
    if (got < body + ahead || alone) return true;  // that was all, or is enough
  }
  return true;
}

// Takes whole headers, and the available parts of bodies, from the staging area.
bool TcpStream::Parse(progress::NetworkTransportEvents& events) {
  std::size_t used = 0;
  const std::span<std::byte> all(staging_.data(), staged_);
  for (;;) {
    if (in_body_) {
      const std::size_t here = std::min(missing_, staged_ - used);
      if (here > 0) std::memcpy(landing_, all.data() + used, here);
      used += here;
      landing_ += here;
      missing_ -= here;
      const std::size_t behind = BytesBehind(seals_.receiving, arriving_.bytes);
      if (missing_ > 0 || staged_ - used < behind) break;
      if (behind > 0 && !seals_.receiving.Open(TcpSeal::Part::behind, {}, {body_, arriving_.bytes},
                                               all.subspan(used).first<TcpSeal::kTagBytes>())) {
        return FailAsForged();
      }
      used += behind;
      in_body_ = false;
      if (!Arrived(events)) return false;
    }
    const std::size_t before = used;
    if (!Begin(events, all.subspan(used), used)) return false;
    if (used == before) break;
  }
  staged_ -= used;
  std::memmove(staging_.data(), staging_.data() + used, staged_);
  return true;
}

// Takes a header, and moves `used` past it, once all that proves it is there. False: the connection is over.
bool TcpStream::Begin(progress::NetworkTransportEvents& events, std::span<std::byte> staged, std::size_t& used) {
  auto& seal = seals_.receiving;
  const std::size_t ahead = BytesAhead(seal);
  if (staged.size() < ahead) return true;
  std::memcpy(&arriving_, staged.data(), sizeof(Header));
  if (seal.proves()) {
    const std::size_t together = arriving_.bytes <= kTogether ? arriving_.bytes : 0;
    if (staged.size() - ahead < together) return true;
    seal.Next();
    if (!seal.Open(TcpSeal::Part::ahead, staged.first(sizeof(Header)), staged.subspan(ahead, together),
                   staged.subspan(sizeof(Header)).first<TcpSeal::kTagBytes>())) {
      return FailAsForged();
    }
  }
  used += ahead;
  if (arriving_.kind == static_cast<std::uint16_t>(Kind::slot)) {
    landing_ = events.LandingInPlace(peer_, {arriving_.connection, arriving_.number, arriving_.tag, arriving_.bytes});
  } else {
    const bool fits = arriving_.kind == static_cast<std::uint16_t>(Kind::control) && arriving_.bytes <= control_.size();
    landing_ = fits ? control_.data() : nullptr;
  }
  if (landing_ == nullptr) return Fail("it sent a malformed message");
  body_ = landing_;
  missing_ = arriving_.bytes;
  in_body_ = true;
  return true;
}

bool TcpStream::FailAsForged() {
  return Fail("data on its connection is not authentic: something between the hosts changes or injects data");
}

bool TcpStream::Arrived(progress::NetworkTransportEvents& events) {
  if (arriving_.kind == static_cast<std::uint16_t>(Kind::slot)) {
    events.Landed(peer_, {arriving_.connection, arriving_.number, arriving_.tag, arriving_.bytes});
    return true;
  }
  if (events.Control(peer_, std::span(control_).first(arriving_.bytes))) return true;
  return Fail("it sent a malformed message");
}

}  // namespace tutti::tcp
