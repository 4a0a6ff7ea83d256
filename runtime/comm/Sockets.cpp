//===- Sockets.cpp - Deadlines that c10d's store does not keep ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Sockets.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// An address that does not answer is left for the next one.
static constexpr milliseconds kLongestAttempt(3000);
static constexpr milliseconds kLongestPause(200);

static int portOf(const sockaddr_storage &address) {
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in &>(address).sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6 &>(address).sin6_port);
  return 0;
}

/// Of the other end, or of the own one; 0 if it is no connected socket.
static int portOf(int handle, bool peer) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  int failed = peer ? getpeername(handle, generic, &length)
                    : getsockname(handle, generic, &length);
  return failed ? 0 : portOf(address);
}

static milliseconds timeTo(Clock::time_point end) {
  return std::chrono::ceil<milliseconds>(end - Clock::now());
}

static bool isConnected(int handle, milliseconds time) {
  pollfd ready{handle, POLLOUT, 0};
  if (poll(&ready, 1,
           static_cast<int>(std::max(time, milliseconds(1)).count())) <= 0)
    return false;
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error)
    return false;
  // Where nobody listens at a port of this machine, a socket may be given just
  // this port, and meets itself.
  return portOf(handle, /*peer=*/true) != portOf(handle, /*peer=*/false);
}

static bool isListening(const addrinfo &address, Clock::time_point end) {
  int handle = socket(address.ai_family,
                      address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                      address.ai_protocol);
  if (handle < 0)
    return false;
  bool found = (connect(handle, address.ai_addr, address.ai_addrlen) == 0 ||
                errno == EINPROGRESS) &&
               isConnected(handle, std::min(timeTo(end), kLongestAttempt));
  close(handle);
  return found;
}

bool fsdp::waitForListener(const std::string &host, int port,
                           Clock::time_point end) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  for (milliseconds pause(10);; pause = std::min(2 * pause, kLongestPause)) {
    addrinfo *list = nullptr;
    // A name may be known only later, too.
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints,
                    &list) == 0) {
      std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list,
                                                               freeaddrinfo);
      for (const addrinfo *each = list; each; each = each->ai_next)
        if (isListening(*each, end))
          return true;
    }
    if (Clock::now() >= end)
      return false;
    std::this_thread::sleep_for(
        std::clamp(timeTo(end), milliseconds(0), pause));
  }
}

bool fsdp::isLoopback(const std::string &host) {
  return host == "localhost" || host.starts_with("127.");
}

namespace {
/// What a name means, as getaddrinfo says.
class Addresses {
public:
  Addresses(const std::string &host, int port, int flags = 0) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints,
                    &list) != 0)
      list = nullptr;
  }
  ~Addresses() {
    if (list)
      freeaddrinfo(list);
  }
  Addresses(const Addresses &) = delete;
  Addresses &operator=(const Addresses &) = delete;

  std::vector<const addrinfo *> all() const {
    std::vector<const addrinfo *> found;
    for (const addrinfo *each = list; each; each = each->ai_next)
      found.push_back(each);
    return found;
  }

private:
  addrinfo *list = nullptr;
};
} // namespace

/// The address without its port; IPv4 as it is written in IPv6. Empty for other
/// kinds of sockets.
static std::string bytesOf(const sockaddr &address) {
  if (address.sa_family == AF_INET) {
    std::string bytes(16, '\0');
    bytes[10] = bytes[11] = '\xff';
    std::memcpy(bytes.data() + 12,
                &reinterpret_cast<const sockaddr_in &>(address).sin_addr, 4);
    return bytes;
  }
  if (address.sa_family == AF_INET6) {
    const auto &own = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
    return {reinterpret_cast<const char *>(&own), sizeof(own)};
  }
  return "";
}

static bool isLoopback(const sockaddr &address) {
  std::string bytes = bytesOf(address);
  static const std::string kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f", 13);
  return bytes == std::string(15, '\0') + '\1' || bytes.starts_with(kMapped);
}

std::optional<int> fsdp::listenAt(const std::string &host, int port) {
  bool isName = Addresses(host, port, AI_NUMERICHOST).all().empty();
  Addresses addresses(host, port);
  std::vector<const addrinfo *> all = addresses.all();
  // c10d's clients, and ours, try all addresses; IPv4 needs no name server.
  std::ranges::stable_sort(
      all, {}, [](const addrinfo *each) { return each->ai_family != AF_INET; });
  for (const addrinfo *each : all) {
    if (isName && host != "localhost" && ::isLoopback(*each->ai_addr))
      continue;
    int handle = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (handle < 0)
      continue;
    int yes = 1;
    setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(handle, each->ai_addr, each->ai_addrlen) == 0 &&
        listen(handle, SOMAXCONN) == 0)
      return handle;
    int reason = errno;
    close(handle);
    if (reason == EADDRINUSE || reason == EACCES)
      throw std::system_error(reason, std::generic_category(),
                              "port " + std::to_string(port) + " of '" + host +
                                  "' cannot be listened at");
  }
  return std::nullopt;
}

/// Its inode; 0 if it is no socket.
static uint64_t inodeOf(int handle) {
  struct stat status;
  return fstat(handle, &status) == 0 && S_ISSOCK(status.st_mode)
             ? static_cast<uint64_t>(status.st_ino)
             : 0;
}

/// Calls `act` with each of the process's sockets.
template <typename Act>
static void forEachSocket(Act act) {
  std::error_code code;
  for (std::filesystem::directory_iterator it("/proc/self/fd", code), end;
       !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().string();
    int handle = -1;
    std::from_chars(name.data(), name.data() + name.size(), handle);
    if (uint64_t inode = inodeOf(handle))
      act(handle, inode);
  }
}

NewConnections::NewConnections(const std::string &host, int port) : port(port) {
  Addresses found(host, port);
  for (const addrinfo *each : found.all())
    addresses.push_back(bytesOf(*each->ai_addr));
  forEachSocket([&](int, uint64_t inode) { before.insert(inode); });
}

template <typename Act>
void NewConnections::forEach(Act act) const {
  forEachSocket([&](int handle, uint64_t inode) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    auto *peer = reinterpret_cast<sockaddr *>(&address);
    if (!before.count(inode) && getpeername(handle, peer, &length) == 0 &&
        portOf(address) == port &&
        std::ranges::count(addresses, bytesOf(*peer)))
      act(handle);
  });
}

void NewConnections::limitWaits(milliseconds time) const {
  timeval limit{time.count() / 1000, time.count() % 1000 * 1000};
  forEach([&](int handle) {
    setsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  });
}

void NewConnections::breakAll() const {
  forEach([](int handle) { shutdown(handle, SHUT_RDWR); });
}

BreakAtDeadline::BreakAtDeadline(const NewConnections &connections,
                                 Clock::time_point end)
    : thread([&connections, end](const std::stop_token &stop) {
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        changed.wait_until(lock, stop, end, [] { return false; });
        if (stop.stop_requested())
          return;
        try {
          connections.breakAll();
        } catch (const std::exception &) {
          // No memory: whoever waits goes on waiting.
        }
      }) {}
