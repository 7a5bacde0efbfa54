#include "src/bootstrap/shared_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "net/wire.h"

namespace tutti::bootstrap {
namespace {

// A frame is the subchannel's number and a payload; without a payload it closes the subchannel.
constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);

// What a peer can make this process keep is bounded. Beyond this, nothing more is read from the connection until the
// subchannel's own thread has read. An honest peer sends as much only to a thread that is reading.
constexpr std::size_t kMostUnread = std::size_t{4} << 20;
// Subchannels that were never open here, and the bytes of each: a reason, and the end.
constexpr std::size_t kMostEarly = 64;
constexpr std::size_t kMostEarlyBytes = 64 * 1024;

}  // namespace

SharedChannel::SharedChannel(auth::SecureChannel channel) : owner_(getpid()), channel_(std::move(channel)) {}

SharedChannel::~SharedChannel() {
  if (getpid() == owner_) channel_.Shutdown();
}

bool SharedChannel::closed() {
  const std::scoped_lock lock(mutex_);
  Advance();
  return channel_.closed();
}

void SharedChannel::Open(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  auto& inbox = inboxes_[number];
  inbox.open = inbox.was_open = true;
  std::erase(early_, number);
}

void SharedChannel::Close(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  auto& inbox = inboxes_[number];
  if (!inbox.open) return;
  try {
    Send(number, {});
  } catch (const std::exception&) {
    channel_.Shutdown();  // without memory for the message
  }
  inbox.open = false;
  inbox.frames.clear();
  inbox.bytes = 0;
  if (full_ == number) full_.reset();
}

void SharedChannel::Forget(std::uint64_t number) {
  Close(number);
  const std::scoped_lock lock(mutex_);
  auto& inbox = inboxes_[number];
  inbox.gone = true;
  if (inbox.closed_there) inboxes_.erase(number);  // nothing more comes
}

void SharedChannel::Send(std::uint64_t number, std::span<const std::byte> payload) {
  net::ByteWriter frame;
  frame.Number(number);
  frame.Bytes(payload);
  channel_.Queue(frame.bytes());
}

void SharedChannel::Advance() {
  channel_.Flush();
  while (!full_) {
    const auto frame = channel_.Receive();
    if (!frame) return;
    PassOn(*frame);
  }
}

void SharedChannel::PassOn(std::span<const std::byte> frame) {
  net::ByteReader reader(frame);
  const auto number = reader.Number<std::uint64_t>();
  if (frame.size() < kNumberBytes) return;  // not from this version of the library
  const auto payload = frame.subspan(kNumberBytes);
  if (!inboxes_.contains(number)) {
    if (early_.size() == kMostEarly) {
      inboxes_.erase(early_.front());
      early_.pop_front();
    }
    early_.push_back(number);
  }
  auto& inbox = inboxes_[number];
  if (inbox.was_open && !inbox.open) {
    inbox.closed_there = inbox.closed_there || payload.empty();
    if (inbox.closed_there && inbox.gone) inboxes_.erase(number);
    return;
  }
  inbox.bytes += payload.size();
  const bool too_much = !inbox.open && inbox.bytes > kMostEarlyBytes;
  if (payload.empty() || too_much) inbox.closed_there = true;
  if (inbox.waker >= 0) eventfd_write(inbox.waker, 1);
  if (inbox.closed_there) return;
  inbox.frames.emplace_back(payload.begin(), payload.end());
  if (inbox.bytes > kMostUnread) full_ = number;
}

Subchannel::Subchannel(std::shared_ptr<SharedChannel> shared, std::uint64_t number)
    : shared_(std::move(shared)), number_(number) {
  shared_->Open(number_);
}

// A forked child has only a copy, whose mutex may be locked forever.
Subchannel::~Subchannel() {
  if (shared_ != nullptr && getpid() == shared_->owner_) shared_->Forget(number_);
}

void Subchannel::Shutdown() {
  if (getpid() == shared_->owner_) shared_->Close(number_);
}

SharedChannel::Inbox& Subchannel::inbox() const { return shared_->inboxes_[number_]; }

void Subchannel::Queue(std::span<const std::byte> payload) {
  const std::scoped_lock lock(shared_->mutex_);
  if (inbox().open) shared_->Send(number_, payload);
}

void Subchannel::Flush() {
  const std::scoped_lock lock(shared_->mutex_);
  shared_->channel_.Flush();
}

bool Subchannel::sending() const {
  const std::scoped_lock lock(shared_->mutex_);
  return shared_->channel_.sending();
}

std::optional<std::vector<std::byte>> Subchannel::Receive() {
  const std::scoped_lock lock(shared_->mutex_);
  if (inbox().frames.empty()) shared_->Advance();
  auto& mine = inbox();
  if (mine.frames.empty()) return std::nullopt;
  auto frame = std::move(mine.frames.front());
  mine.frames.pop_front();
  mine.bytes -= frame.size();
  if (shared_->full_ == number_ && mine.bytes <= kMostUnread) shared_->full_.reset();
  return frame;
}

bool Subchannel::closed() const {
  const std::scoped_lock lock(shared_->mutex_);
  const auto& mine = inbox();
  return !mine.open || (mine.frames.empty() && (mine.closed_there || shared_->channel_.closed()));
}

bool Subchannel::waiting() const {
  const std::scoped_lock lock(shared_->mutex_);
  const auto& mine = inbox();
  return !mine.frames.empty() || mine.closed_there;
}

bool Subchannel::left() {
  const std::scoped_lock lock(shared_->mutex_);
  shared_->Advance();
  return inbox().closed_there || shared_->channel_.closed();
}

pollfd Subchannel::Watch() const {
  const std::scoped_lock lock(shared_->mutex_);
  return shared_->channel_.Watch();
}

int Subchannel::fd() const { return shared_->channel_.socket().fd(); }

bool Subchannel::Expect(int waker) {
  const std::scoped_lock lock(shared_->mutex_);
  auto& mine = inbox();
  mine.waker = waker;
  return mine.frames.empty() && !mine.closed_there;
}

net::Wake AwaitFrames(std::span<Subchannel* const> channels, std::vector<pollfd>& fds, Deadline deadline,
                      Cancellation cancel) {
  // Without one, for lack of descriptors, the wait is short enough.
  const net::Socket waker(channels.empty() ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool nothing = true;
  for (auto* const channel : channels) nothing = channel->Expect(waker.fd()) && nothing;
  fds.push_back({waker.fd(), POLLIN, 0});
  const auto until = std::min(deadline, Deadline::After(nothing ? net::kCancelPeriod : Deadline::Milliseconds(0)));
  const auto wake = net::Wait(fds, until, cancel);
  fds.pop_back();
  for (auto* const channel : channels) channel->Expect(-1);
  return wake == net::Wake::deadline && !deadline.Passed() ? net::Wake::event : wake;
}

std::shared_ptr<SharedChannel> SharedChannels::Find(int rank) {
  const std::scoped_lock lock(mutex_);
  const auto found = channels_.find(rank);
  if (found != channels_.end() && found->second->closed()) channels_.erase(found);
  return channels_.contains(rank) ? channels_[rank] : nullptr;
}

void SharedChannels::Add(int rank, const std::shared_ptr<SharedChannel>& channel) {
  const std::scoped_lock lock(mutex_);
  auto& mine = channels_[rank];
  if (mine == nullptr || mine->closed()) mine = channel;
}

}  // namespace tutti::bootstrap
