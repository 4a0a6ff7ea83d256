//===- MetricsServer.cpp - Numbers for Prometheus -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/MetricsServer.h"

#include "support/Error.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <string_view>
#include <system_error>

#include <cerrno>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

/// Of a request, which is a line and some headers.
static constexpr size_t kMaxRequest = 8 << 10;
/// Whoever is slower does not keep others waiting.
static constexpr std::chrono::milliseconds kPatience(2000);

//===----------------------------------------------------------------------===//
// The text
//===----------------------------------------------------------------------===//

static std::string number(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

static std::string quote(std::string_view value) {
  std::string text = "\"";
  for (char letter : value)
    if (letter == '\n')
      text += "\\n";
    else
      text += std::string(letter == '"' || letter == '\\' ? "\\" : "") + letter;
  return text + "\"";
}

static void add(std::string &text, std::string_view name, const char *type,
                const char *help, double value) {
  std::string full = "fsdp_" + std::string(name);
  text += "# HELP " + full + " " + help + "\n# TYPE " + full + " " + type +
          "\n" + full + " " + number(value) + "\n";
}

void MetricsServer::update(const StepReport &report) {
  const StepResult &result = report.result;
  std::string text;
  add(text, "steps_done", "gauge", "Steps of the training that were made.",
      static_cast<double>(result.step + 1));
  if (result.loss)
    add(text, "loss", "gauge", "Mean over ranks and micro-batches.",
        *result.loss);
  if (result.gradNorm)
    add(text, "grad_norm", "gauge", "Of all gradients, before clipping.",
        *result.gradNorm);
  if (result.lr)
    add(text, "learning_rate", "gauge", "Of the optimizer's first group.",
        *result.lr);
  add(text, "step_seconds", "gauge", "Of the last step.", report.seconds);
  if (result.exposedSeconds)
    add(text, "exposed_seconds", "gauge",
        "Of the last step, in waits for transfers.", *result.exposedSeconds);
  add(text, "samples_per_second", "gauge", "Of all ranks, in the last step.",
      report.samplesPerSecond);
  if (report.tokensPerSecond)
    add(text, "tokens_per_second", "gauge", "Of all ranks, in the last step.",
        *report.tokensPerSecond);
  if (report.flopsPerSecond)
    add(text, "model_flops_per_second", "gauge",
        "Of the model, by one rank, in the last step.", *report.flopsPerSecond);
  if (report.utilization)
    add(text, "model_flops_utilization", "gauge",
        "Their share of --peak-flops.", *report.utilization);
  add(text, "seconds_left", "gauge", "Until the run's last step.",
      report.secondsLeft);
  add(text, "peak_memory_bytes", "gauge", "Of a rank's tensors and scratch.",
      static_cast<double>(report.peakBytes()));
  if (!result.metrics.empty()) {
    text += "# HELP fsdp_output Of the model, mean over ranks.\n"
            "# TYPE fsdp_output gauge\n";
    for (const auto &[name, value] : result.metrics)
      text += "fsdp_output{name=" + quote(name) + "} " + number(value) + "\n";
  }
  if (!result.norms.empty()) {
    text += "# HELP fsdp_norm Of gradients, weights or updates, by name.\n"
            "# TYPE fsdp_norm gauge\n";
    for (const auto &[name, value] : result.norms)
      text += "fsdp_norm{name=" + quote(name) + "} " + number(value) + "\n";
  }
  std::lock_guard lock(mutex);
  skipped += result.isSkipped;
  add(text, "skipped_steps_total", "counter",
      "Updates of this run that were left out.", static_cast<double>(skipped));
  steps = std::move(text);
}

void MetricsServer::update(const EvalResult &result) {
  std::string text;
  add(text, "eval_loss", "gauge", "Of the last validation.", result.loss);
  std::lock_guard lock(mutex);
  evaluations = std::move(text);
}

std::string MetricsServer::text() const {
  std::lock_guard lock(mutex);
  return steps + evaluations;
}

//===----------------------------------------------------------------------===//
// The server
//===----------------------------------------------------------------------===//

[[noreturn]] static void refuse(const std::string &where,
                                const std::string &what) {
  throw Error(ErrorId::BadUsage,
              "--prometheus: expected [HOST:]PORT to listen at, found '" +
                  where + "'" + (what.empty() ? "" : ": " + what));
}

MetricsServer::MetricsServer(const std::string &where) {
  size_t colon = where.rfind(':');
  std::string host =
      colon == std::string::npos ? "127.0.0.1" : where.substr(0, colon);
  std::string port =
      colon == std::string::npos ? where : where.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  int value = 0;
  auto [end, code] =
      std::from_chars(port.data(), port.data() + port.size(), value);
  if (host.empty() || code != std::errc() || end != port.data() + port.size() ||
      value < 1 || value > 65535)
    refuse(where, "");
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
    refuse(where, gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  listener = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC,
                    found->ai_protocol);
  int on = 1;
  if (listener < 0 ||
      setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(listener, found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener, /*backlog=*/16) != 0 || pipe2(wakes, O_CLOEXEC) != 0) {
    std::string text =
        std::error_code(errno, std::generic_category()).message();
    if (listener >= 0)
      close(listener);
    refuse(where, text);
  }
  server = std::thread([this] { serve(); });
}

MetricsServer::~MetricsServer() {
  // Nothing can be done if that fails, and it does not.
  [[maybe_unused]] ssize_t written = write(wakes[1], "", 1);
  server.join();
  for (int handle : {listener, wakes[0], wakes[1]})
    close(handle);
}

void MetricsServer::serve() {
  while (true) {
    pollfd waits[] = {{listener, POLLIN, 0}, {wakes[0], POLLIN, 0}};
    if (poll(waits, 2, /*timeout=*/-1) < 0 && errno != EINTR)
      return;
    if (waits[1].revents)
      return;
    if (!waits[0].revents)
      continue;
    int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0)
      continue;
    answer(connection);
    close(connection);
  }
}

void MetricsServer::answer(int connection) const {
  Clock::time_point end = Clock::now() + kPatience;
  auto waitFor = [&](short event) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd ready[] = {{connection, event, 0}, {wakes[0], POLLIN, 0}};
    return left.count() > 0 &&
           poll(ready, 2, static_cast<int>(left.count())) > 0 &&
           !ready[1].revents;
  };
  std::string request;
  char block[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() > kMaxRequest || !waitFor(POLLIN))
      return;
    ssize_t count = recv(connection, block, sizeof(block), MSG_DONTWAIT);
    if (count <= 0)
      return;
    request.append(block, static_cast<size_t>(count));
  }
  bool isKnown = request.starts_with("GET /metrics HTTP/1.") ||
                 request.starts_with("GET /metrics?");
  std::string body = isKnown ? text() : "GET /metrics has the metrics\n";
  std::string reply =
      std::string("HTTP/1.1 ") + (isKnown ? "200 OK" : "404 Not Found") +
      "\r\nContent-Type: text/plain; version=0.0.4; "
      "charset=utf-8\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
  for (size_t sent = 0; sent < reply.size();) {
    if (!waitFor(POLLOUT))
      return;
    ssize_t count = send(connection, reply.data() + sent, reply.size() - sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count <= 0)
      return;
    sent += static_cast<size_t>(count);
  }
}
