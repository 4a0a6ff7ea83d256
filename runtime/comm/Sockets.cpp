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
#include <thread>

#include <cerrno>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
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

std::optional<int> fsdp::listenOnLoopback(const std::string &host, int port) {
  if (!isLoopback(host))
    return std::nullopt;
  int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0)
    return std::nullopt;
  int yes = 1;
  setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(handle, reinterpret_cast<sockaddr *>(&address), sizeof(address)) ==
          0 &&
      listen(handle, SOMAXCONN) == 0)
    return handle;
  close(handle);
  return std::nullopt;
}

/// Calls `act` with each of the process's sockets that is connected to `port`.
template <typename Act>
static void forEachConnection(int port, Act act) {
  std::error_code code;
  for (std::filesystem::directory_iterator it("/proc/self/fd", code), end;
       !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().string();
    int handle = -1;
    std::from_chars(name.data(), name.data() + name.size(), handle);
    if (portOf(handle, /*peer=*/true) == port)
      act(handle);
  }
}

void fsdp::limitWaits(int port, milliseconds time) {
  timeval limit{time.count() / 1000, time.count() % 1000 * 1000};
  forEachConnection(port, [&](int handle) {
    setsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  });
}

BreakAtDeadline::BreakAtDeadline(int port, Clock::time_point end)
    : thread([port, end](const std::stop_token &stop) {
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        changed.wait_until(lock, stop, end, [] { return false; });
        if (!stop.stop_requested())
          forEachConnection(port,
                            [](int handle) { shutdown(handle, SHUT_RDWR); });
      }) {}
